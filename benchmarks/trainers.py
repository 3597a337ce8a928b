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

import transformers
from datasets import Dataset, disable_progress_bars
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.course_batches import BATCH, SIZES, headline, parser, started, weights
from benchmarks.our_trainer import BF16, COMPILED, FP32, Stepper, prepared_run, training_rows
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


class Clock(TrainerCallback):
    """Seconds and useful tokens of the steps after the first ``WARM``."""

    def __init__(self) -> None:
        self.tokens = 0
        self.began = self.seconds = 0.0

    def count(self, module: Any, args: Any, kwargs: Any) -> None:
        """Before a forward pass of a model that takes ``attention_mask`` by name or in a dict."""
        given = kwargs if "attention_mask" in kwargs else args[0]
        self.tokens += int(given["attention_mask"].sum())

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == WARM:
            self.tokens, self.began = 0, time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == state.max_steps:
            self.seconds = time.perf_counter() - self.began


def settings(steps: int, *, best: bool) -> dict[str, object]:
    """Training arguments of both peers: their defaults, or what makes them fast."""
    return {
        "per_device_train_batch_size": BATCH,
        "max_steps": WARM + steps,
        "use_cpu": True,
        "bf16": best,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "logging_strategy": "no",
    }


def transformers_trainer(name: str, rows: Rows, steps: int, *, best: bool) -> float:
    """`transformers.Trainer` on single sentences; at its best: bf16, batches grouped by length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=5)
    texts = [texts[0] for texts in rows.texts]
    tokens = tokenizer(texts, truncation=True, max_length=128)
    data = Dataset.from_dict({**tokens, "label": rows.gold.tolist()})
    clock = Clock()
    model.register_forward_pre_hook(clock.count, with_kwargs=True)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            train_sampling_strategy="group_by_length" if best else "random",
            **settings(steps, best=best),
        )
        transformers.Trainer(
            model,
            arguments,
            train_dataset=data,
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[clock],
        ).train()
    return clock.tokens / clock.seconds


def sentence_transformers_trainer(
    name: str, rows: dict[str, Rows], steps: int, *, best: bool
) -> float:
    """sentence-transformers' trainer on pairs; at its best: bf16."""
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    model = SentenceTransformer(name, device="cpu")
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
    clock = Clock()
    model.register_forward_pre_hook(clock.count, with_kwargs=True)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=scratch,
            multi_dataset_batch_sampler="round_robin",
            **settings(steps, best=best),
        )
        SentenceTransformerTrainer(
            model, arguments, train_dataset=data, loss=loss, callbacks=[clock]
        ).train()
    return clock.tokens / clock.seconds


def ours(directory: Path, work: str, steps: int, *changes: str) -> float:
    """Our trainer, its own steps: batches, schedule and log as in a run."""
    prepared = prepared_run(directory, [*ONLY[work], *changes])
    with tempfile.TemporaryDirectory() as scratch:
        stepper = Stepper(prepared, Path(scratch))
        stepper.steps(WARM)
        began = time.perf_counter()
        tokens = stepper.steps(steps)
        seconds = time.perf_counter() - began
        stepper.trainer.log.close()
    return tokens / seconds


def contenders(directory: Path, work: str, steps: int, weights: str) -> dict[str, Rate]:
    """Every trainer that can do this work, the peer's default first."""
    encoder = f"encoder.name={weights}"
    rows = training_rows(directory, ONLY[work])
    peer: Callable[..., float] = (
        partial(transformers_trainer, weights, rows["sst"], steps)
        if work == "SST-5"
        else partial(sentence_transformers_trainer, weights, rows, steps)
    )
    name = PEERS.get(work, "sentence-transformers' trainer")
    grouped = ", grouped by length" if work == "SST-5" else ""
    return {
        name: partial(peer, best=False),
        f"{name}, bf16{grouped}": partial(peer, best=True),
        "ours, fp32": partial(ours, directory, work, steps, encoder, FP32),
        "ours, bf16": partial(ours, directory, work, steps, encoder, BF16),
        "ours, bf16, compiled kernels": partial(
            ours, directory, work, steps, encoder, BF16, COMPILED
        ),
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
