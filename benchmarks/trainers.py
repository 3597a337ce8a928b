"""Whole trainers on the same rows: ours, `transformers.Trainer`, sentence-transformers' trainer.

    pip install sentence-transformers
    python -m benchmarks.trainers DIRECTORY-OF-THE-COURSE-FILES [--threads 2] [--size base]

The packaged MiniLM (`--size base`: random weights of BERT-base's size), batches of 32 rows of the
first 3,000 of each task: SST-5 on [CLS]; STS-B as a siamese cosine; QQP (softmax on
[u; v; |u - v|]) and STS-B in round robin. Every trainer draws its own batches. Each round takes
every trainer in turn in one process, and times the steps after the first six: useful
(not padding) tokens a second, ratios by round. Data loading, clipping, schedule and the log are in
it; tokenising is in it for sentence-transformers alone, which does it in its collator.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset, disable_progress_bars
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.course_batches import SIZES, headline, parser, started, weights
from benchmarks.our_trainer import (
    BF16,
    COMPILED,
    FP32,
    Place,
    Stepper,
    prepared_run,
    training_rows,
)
from multitask.reporting.table_formats import markdown_table
from multitask.tasks.rows import Rows

WARM = 6
UV = "tasks.qqp.head={name: siamese_paraphrase, features: [u, v, abs_diff]}"
ONLY = {
    "SST-5": ["tasks.qqp=null", "tasks.sts=null"],
    "STS-B": ["tasks.sst=null", "tasks.qqp=null"],
    "QQP and STS-B": ["tasks.sst=null", UV],
}
PEERS = {"SST-5": "transformers.Trainer"}
Rate = Callable[[], float]  # useful tokens a second


def settle(device: torch.device) -> None:
    """Wait until a GPU has done what it was asked to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock(TrainerCallback):
    """Seconds and useful tokens of the steps after the first ``WARM``."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tokens: Tensor | int = 0  # on the device: to read it in a step would be a wait
        self.began = self.seconds = 0.0

    def count(self, module: Any, args: Any, kwargs: Any) -> None:
        """Before a forward pass of a model that takes ``attention_mask`` by name or in a dict."""
        given = kwargs if "attention_mask" in kwargs else args[0]
        self.tokens = self.tokens + given["attention_mask"].sum()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == WARM:
            settle(self.device)
            self.tokens, self.began = 0, time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == state.max_steps:
            settle(self.device)
            self.seconds = time.perf_counter() - self.began

    @property
    def rate(self) -> float:
        """Useful tokens a second."""
        return int(self.tokens) / self.seconds


def settings(steps: int, place: Place, *, best: bool) -> dict[str, object]:
    """Training arguments of both peers: their defaults, or what makes them fast."""
    return {
        "per_device_train_batch_size": place.batch,
        "max_steps": WARM + steps,
        "use_cpu": place.device.type == "cpu",
        place.half: best,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "logging_strategy": "no",
    }


def transformers_trainer(name: str, rows: Rows, steps: int, place: Place, *, best: bool) -> float:
    """`transformers.Trainer` on single sentences; at its best: 16 bits, grouped by length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=5)
    texts = [texts[0] for texts in rows.texts]
    tokens = tokenizer(texts, truncation=True, max_length=128)
    data = Dataset.from_dict({**tokens, "label": rows.gold.tolist()})
    clock = Clock(place.device)
    model.register_forward_pre_hook(clock.count, with_kwargs=True)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            train_sampling_strategy="group_by_length" if best else "random",
            **settings(steps, place, best=best),
        )
        transformers.Trainer(
            model,
            arguments,
            train_dataset=data,
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[clock],
        ).train()
    return clock.rate


def sentence_transformers_trainer(
    name: str, rows: dict[str, Rows], steps: int, place: Place, *, best: bool
) -> float:
    """sentence-transformers' trainer on pairs; at its best: 16 bits."""
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    model = SentenceTransformer(name, device=str(place.device))
    model.max_seq_length = 128
    data, loss = {}, {}
    for task, split in rows.items():
        one, other = zip(*split.texts, strict=True)
        labels = split.gold / 5 if task == "sts" else split.gold.astype(int)
        column = "score" if task == "sts" else "label"
        data[task] = Dataset.from_dict(
            {"sentence1": list(one), "sentence2": list(other), column: labels.tolist()}
        )
        loss[task] = (
            losses.CosineSimilarityLoss(model)
            if task == "sts"
            else losses.SoftmaxLoss(model, model.get_embedding_dimension(), num_labels=2)
        )
    clock = Clock(place.device)
    model.register_forward_pre_hook(clock.count, with_kwargs=True)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=scratch,
            multi_dataset_batch_sampler="round_robin",
            **settings(steps, place, best=best),
        )
        SentenceTransformerTrainer(
            model, arguments, train_dataset=data, loss=loss, callbacks=[clock]
        ).train()
    return clock.rate


def ours(directory: Path, work: str, steps: int, place: Place, *changes: str) -> float:
    """Our trainer, its own steps: batches, schedule and log as in a run."""
    changes = (*ONLY[work], *place.overrides, *changes)
    prepared = prepared_run(directory, changes, device=place.device)
    with tempfile.TemporaryDirectory() as scratch:
        stepper = Stepper(prepared, Path(scratch))
        stepper.steps(WARM)
        settle(place.device)
        began = time.perf_counter()
        tokens = stepper.steps(steps)
        settle(place.device)
        seconds = time.perf_counter() - began
        stepper.trainer.log.close()
    return tokens / seconds


def peer_of(
    directory: Path, work: str, steps: int, weights: str, *, place: Place
) -> Callable[..., float]:
    """The trainer that people use for this work, still without ``best``."""
    rows = training_rows(directory, ONLY[work])
    if work == "SST-5":
        return partial(transformers_trainer, weights, rows["sst"], steps, place)
    return partial(sentence_transformers_trainer, weights, rows, steps, place)


def peer_name(work: str) -> str:
    return PEERS.get(work, "sentence-transformers' trainer")


def contenders(directory: Path, work: str, steps: int, weights: str) -> dict[str, Rate]:
    """Every trainer that can do this work, the peer's default first."""
    encoder, place = f"encoder.name={weights}", Place()
    peer = peer_of(directory, work, steps, weights, place=place)
    name, grouped = peer_name(work), ", grouped by length" if work == "SST-5" else ""
    our = partial(ours, directory, work, steps, place, encoder)
    return {
        name: partial(peer, best=False),
        f"{name}, bf16{grouped}": partial(peer, best=True),
        "ours, fp32": partial(our, FP32),
        "ours, bf16": partial(our, BF16),
        "ours, bf16, compiled kernels": partial(our, BF16, COMPILED),
    }


def main() -> None:
    options = parser(__doc__, rounds=3, steps=24)
    options.add_argument("--size", choices=SIZES, default="minilm")
    arguments = started(options)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    disable_progress_bars()
    with weights(arguments.size) as directory:
        measure(arguments, directory)


def measure(arguments: argparse.Namespace, directory: str) -> None:
    """Print the table for the weights in a directory."""
    lines = []
    for work in ONLY:
        trainers = contenders(arguments.directory, work, arguments.steps, directory)
        rates: dict[str, list[float]] = {name: [] for name in trainers}
        for _ in range(arguments.rounds):
            for name, rate in trainers.items():
                with redirect_stdout(sys.stderr):  # the peers print a line at their end
                    rates[name].append(rate())
        default, best, *_ = rates.values()
        for name, each in rates.items():
            beside = [
                statistics.median(a / b for a, b in zip(each, base, strict=True))
                for base in (default, best)
            ]
            shown = [f"{one:.2f}" for one in beside]
            lines.append([work, name, f"{statistics.median(each):.0f}", *shown])
    print(headline(arguments.threads, arguments.rounds))
    header = ("work", "trainer", "useful tokens/s", "x the peer's default", "x its best")
    print(markdown_table(header, lines))


if __name__ == "__main__":
    main()
