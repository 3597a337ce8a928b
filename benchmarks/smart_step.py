"""The cost of SMART: a training step with it over the plain step, and over smart-pytorch.

    python -m benchmarks.smart_step DIRECTORY-OF-THE-COURSE-FILES [--rows 32] [--passes 1]

The product's own step (`configs/cs224n_minilm.yaml`, batches of `--rows`, SST / QQP / STS in turn).
The package (`pip install --no-deps smart-pytorch==0.0.4`) is called round the same model, with the
same divergences, in fp32. All variants run in turn in one process; ratios are medians over rounds.
Peak memory is that of a separate process per variant. With `--passes 4` the steps with SMART stand
beside those that take the same number of rows in four passes, in fp32, without the package.
"""

import multiprocessing
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from benchmarks.course_batches import headline, in_turn, parser, peak_mib, ratio, started
from multitask.config import SmartConfig, load_config
from multitask.data.collate import Batch, SharedBatch, by_task, separate
from multitask.models.multitask_model import Embedded, MultiTaskModel
from multitask.reporting.table_formats import markdown_table
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.setup import set_up
from multitask.training.step import train_step
from smart.divergence import DIVERGENCES
from smart.teacher import follow, teacher_of

Passes = list[list[SharedBatch]]
TASKS = ("sst", "qqp", "sts")
SETTINGS: Mapping[str, SmartConfig | None] = {
    "plain": None,
    "SMART": SmartConfig(),
    "SMART and Bregman": SmartConfig(bregman=1.0),
}
CONFIG = Path(__file__).parent.parent / "configs" / "cs224n_minilm.yaml"


class Variant(NamedTuple):
    """A way to take the same steps.

    Attributes:
        method: a key of ``SETTINGS``, or the package.
        precision: fp32 or bf16.
        passes: the forward passes of a step (`accumulation`).
    """

    method: str
    precision: str
    passes: int = 1

    def __str__(self) -> str:
        apart = f", in {self.passes} passes" if self.passes > 1 else ""
        return f"{self.method}, {self.precision}{apart}"


def variants(passes: int) -> list[Variant]:
    """Those of one table; the package takes fp32 alone."""
    if passes == 1:
        fp32 = [Variant(method, "fp32") for method in (*SETTINGS, "smart-pytorch")]
        return [*fp32, *(Variant(method, "bf16") for method in SETTINGS)]
    apart = [Variant(method, "fp32", passes) for method in SETTINGS if method != "plain"]
    return [*(Variant(method, "fp32") for method in SETTINGS), *apart]


def model_and_batches(
    directory: Path, precision: str, steps: int, rows: int, passes: int = 1
) -> tuple[Any, list[Passes]]:
    """A model, its optimizer and the batches of its first steps: ``rows`` in ``passes`` passes."""
    batches_of = {"batch_size": rows // passes, "accumulation": passes, "max_rows": 3000}
    overrides = [f"data_dir={directory}", *(f"defaults.{k}={v}" for k, v in batches_of.items())]
    config = load_config(CONFIG, [*overrides, f"training.precision={precision}"])
    prepared = set_up(config, torch.device("cpu"), lambda line: None)
    batches = [
        prepared.loader.next([task]) for number in range(steps) for task in (TASKS[number % 3],)
    ]
    prepared.model.train()
    model = prepared.model
    optimizer = build_optimizer(model, config.training, dict.fromkeys(TASKS, 1e-3))
    return SimpleNamespace(model=model, optimizer=optimizer), batches


def ours(
    prepared: Any,
    batches: list[Passes],
    smoothing: SmartConfig | None,
    teacher: MultiTaskModel | None,
) -> None:
    """The product's step, with the teacher's where there is a Bregman term."""
    smooth = {} if smoothing is None else dict.fromkeys(TASKS, smoothing)
    objective = Objective(dict.fromkeys(TASKS, 1.0), smooth, teacher)
    for passes in batches:
        train_step(prepared.model, passes, prepared.optimizer, objective, clip_norm=1.0)
        if teacher is not None:
            follow(teacher, prepared.model, 1.0)


def package(prepared: Any, batches: list[Passes]) -> None:
    """The step of one who puts smart-pytorch round the model."""
    from smart_pytorch import SMARTLoss  # type: ignore[import-not-found, unused-ignore]

    model: MultiTaskModel = prepared.model
    for passes in batches:
        ((task, batch),) = by_task(passes[0]).items()
        embedded = model.embed(separate({task: batch}))

        def scores(
            vectors: Any, task: str = task, batch: Batch = batch, embedded: Embedded = embedded
        ) -> Any:
            pooled = model.pool(separate({task: batch}), embedded._replace(vectors=vectors))
            return model.scores(task, batch, pooled[task])

        head = model.head(task)
        distance = DIVERGENCES[head.divergence]
        regularizer = SMARTLoss(scores, lambda one, other, d=distance: d(one, other).mean())
        state = scores(embedded.vectors)
        (head.criterion(state, batch.labels) + regularizer(embedded.vectors, state)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        prepared.optimizer.step()
        prepared.optimizer.zero_grad(set_to_none=True)


def steps_of(method: str, prepared: Any, batches: list[Passes]) -> Callable[[], None]:
    """One way to take the steps; only that with a Bregman term has a teacher."""
    if method == "smart-pytorch":
        return partial(package, prepared, batches)
    smoothing = SETTINGS[method]
    bregman = smoothing is not None and smoothing.bregman
    teacher = teacher_of(prepared.model) if bregman else None
    return partial(ours, prepared, batches, smoothing, teacher)


def peak_memory(directory: Path, variant: Variant, rows: int) -> float:
    """Run one variant in this process, with no other's model: its peak memory in MiB."""
    torch.set_num_threads(1)
    steps_of(
        variant.method,
        *model_and_batches(directory, variant.precision, 6, rows, passes=variant.passes),
    )()
    return peak_mib()


def memory(directory: Path, variant: Variant, rows: int) -> float:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(peak_memory, directory, variant, rows).result()


def main() -> None:
    arguments = started(parser(__doc__, rounds=5, steps=6, rows=32, passes=1))
    directory, rows = arguments.directory, arguments.rows
    made = variants(arguments.passes)
    settings = {
        how: model_and_batches(directory, how[0], arguments.steps, rows, passes=how[1])
        for how in dict.fromkeys((variant.precision, variant.passes) for variant in made)
    }
    runs = {
        str(variant): steps_of(variant.method, *settings[variant.precision, variant.passes])
        for variant in made
    }
    times = in_turn(runs, arguments.rounds)
    peaks = {str(variant): memory(directory, variant, rows) for variant in made}
    lines = []
    for variant in made:
        name, plain = str(variant), str(Variant("plain", variant.precision))
        times_as_long = 1 / ratio(times[plain], times[name])
        milliseconds = 1000 * statistics.median(times[name]) / arguments.steps
        more = peaks[name] / peaks[plain]
        lines.append([name, f"{milliseconds:.0f}", f"{times_as_long:.2f}", f"{more:.2f}"])
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("step", "ms", "x plain step", "x its peak memory"), lines))


if __name__ == "__main__":
    main()
