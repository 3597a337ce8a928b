"""What SMART costs: a training step with it over the plain step, and over smart-pytorch.

    python -m benchmarks.smart_step DIRECTORY-OF-THE-COURSE-FILES [--threads 2] [--rows 32]

The product's own step (`configs/cs224n_minilm.yaml`, batches of `--rows`, SST / QQP / STS in turn).
The package (`pip install --no-deps smart-pytorch==0.0.4`) is called round the same model, with the
same divergences, in fp32. All variants run in turn in one process; ratios are medians over rounds.
Peak memory is that of a process of its own a variant.
"""

import multiprocessing
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.course_batches import headline, in_turn, parser, peak_mib, ratio, started
from multitask.config import load_config
from multitask.data.collate import Batch
from multitask.feed import next_batches
from multitask.model import MultiTaskModel
from multitask.objective import Smoothing
from multitask.optimizer import build_optimizer
from multitask.prepare import prepare
from multitask.step import train_step
from multitask.tables import markdown_table
from smart.divergence import DIVERGENCES
from smart.teacher import follow, teacher_of

Passes = list[dict[str, Batch]]
TASKS = ("sst", "qqp", "sts")
SETTINGS: Mapping[str, Smoothing | None] = {
    "plain": None,
    "SMART": Smoothing(),
    "SMART and Bregman": Smoothing(bregman=1.0),
}
METHODS = {"fp32": (*SETTINGS, "smart-pytorch"), "bf16": tuple(SETTINGS)}  # the package: in fp32
CONFIG = Path(__file__).parent.parent / "configs" / "cs224n_minilm.yaml"


def set_up(directory: Path, precision: str, steps: int, rows: int) -> tuple[Any, list[Passes]]:
    """A prepared run, and the batches of its first steps."""
    overrides = [f"data_dir={directory}", f"defaults.batch_size={rows}", "defaults.max_rows=3000"]
    config = load_config(CONFIG, [*overrides, f"training.precision={precision}"])
    prepared: Any = prepare(config, torch.device("cpu"), lambda line: None)
    pad_id, device = prepared.tokenizer.pad_token_id, prepared.device
    batches = [
        next_batches(prepared.feeds, [task], [task], pad_id=pad_id, device=device)
        for number in range(steps)
        for task in (TASKS[number % 3],)
    ]
    prepared.model.train()
    prepared.optimizer = build_optimizer(
        prepared.model, config.training, dict.fromkeys(TASKS, 1e-3)
    )
    return prepared, batches


def ours(
    prepared: Any,
    batches: list[Passes],
    smoothing: Smoothing | None,
    teacher: MultiTaskModel | None,
) -> None:
    """The product's step, with the teacher's where there is a Bregman term."""
    smooth = {} if smoothing is None else dict.fromkeys(TASKS, smoothing)
    for passes in batches:
        train_step(
            prepared.model,
            passes,
            dict.fromkeys(TASKS, 1.0),
            prepared.optimizer,
            1.0,
            smoothing=smooth,
            teacher=teacher,
        )
        if teacher is not None:
            follow(teacher, prepared.model, 1.0)


def package(prepared: Any, batches: list[Passes]) -> None:
    """The step of one who puts smart-pytorch round the model."""
    from smart_pytorch import SMARTLoss

    model: MultiTaskModel = prepared.model
    for passes in batches:
        ((task, batch),) = passes[0].items()
        embedded, _ = model.embed({task: batch})

        def scores(embedding: Any, task: str = task, batch: Batch = batch) -> Any:
            pooled = model.pool({task: batch}, embedding, batch.attention_mask)
            return model.module(task)(pooled[task])

        head = model.head(task)
        distance = DIVERGENCES[head.label_type]
        regularizer = SMARTLoss(scores, lambda one, other, d=distance: d(one, other).mean())
        state = scores(embedded)
        (head.loss(state, batch.labels) + regularizer(embedded, state)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        prepared.optimizer.step()
        prepared.optimizer.zero_grad(set_to_none=True)


def variant(name: str, prepared: Any, batches: list[Passes]) -> Callable[[], None]:
    """One way to take the steps; only that with a Bregman term has a teacher."""
    if name == "smart-pytorch":
        return partial(package, prepared, batches)
    smoothing = SETTINGS[name]
    bregman = smoothing is not None and smoothing.bregman
    teacher = teacher_of(prepared.model) if bregman else None
    return partial(ours, prepared, batches, smoothing, teacher)


def peak_memory(directory: Path, name: str, rows: int) -> float:
    """Run one variant in this process, with no other's model: its peak memory in MiB."""
    torch.set_num_threads(1)
    method, _, precision = name.rpartition(", ")
    variant(method, *set_up(directory, precision, 6, rows))()
    return peak_mib()


def memory(directory: Path, name: str, rows: int) -> float:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(peak_memory, directory, name, rows).result()


def main() -> None:
    arguments = started(parser(__doc__, rounds=5, steps=6, rows=32))
    directory, rows = arguments.directory, arguments.rows
    runs = {}
    for precision, methods in METHODS.items():
        setting = set_up(directory, precision, arguments.steps, rows)
        runs |= {f"{method}, {precision}": variant(method, *setting) for method in methods}
    times = in_turn(runs, arguments.rounds)
    peaks = {name: memory(directory, name, rows) for name in runs}
    lines = []
    for name in runs:
        plain = "plain, " + name.rpartition(", ")[2]
        times_as_long = 1 / ratio(times[plain], times[name])
        milliseconds = 1000 * statistics.median(times[name]) / arguments.steps
        more = peaks[name] / peaks[plain]
        lines.append([name, f"{milliseconds:.0f}", f"{times_as_long:.2f}", f"{more:.2f}"])
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("step", "ms", "x plain step", "x its peak memory"), lines))


if __name__ == "__main__":
    main()
