"""Shared by the benchmarks: real batches of the course's three tasks, and fair timing."""

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from multitask.models.linear import linear
from multitask.models.packaged_weights import packaged_directory
from multitask.utils.versions import git_revision

BATCH = 32
FILES = {
    "sst": ("ids-sst-train.csv", ["sentence"]),
    "qqp": ("quora-train.csv", ["sentence1", "sentence2"]),
    "sts": ("sts-train.csv", ["sentence1", "sentence2"]),
}

SIZES = ("minilm", "base", "mpnet")

Rows = list[tuple[list[int], ...]]  # token ids of each sentence of a row


def parser(description: str | None, **numbers: int) -> argparse.ArgumentParser:
    """Arguments of every benchmark: the course's files, threads, and ``numbers`` with defaults."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("directory", type=lambda path: Path(path).absolute())
    for name, default in {"threads": 2, **numbers}.items():
        made.add_argument(f"--{name}", type=int, default=default)
    return made


@contextmanager
def weights(size: str) -> Iterator[str]:
    """A directory: the packaged MiniLM, or its tokenizer and random weights of a base size."""
    packaged = str(packaged_directory())
    if size == "minilm":
        yield packaged
        return
    import transformers  # not in every process whose memory is measured

    with tempfile.TemporaryDirectory() as scratch:
        transformers.AutoTokenizer.from_pretrained(packaged).save_pretrained(scratch)
        config = transformers.MPNetConfig() if size == "mpnet" else transformers.BertConfig()
        transformers.AutoModel.from_config(config).save_pretrained(scratch)
        yield scratch


def started(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments; torch takes so many threads."""
    arguments = made.parse_args()
    torch.set_num_threads(arguments.threads)
    return arguments


class Step(NamedTuple):
    """The inputs of one batch; the two sides of a pair are in one.

    Attributes:
        task: the task.
        ids: the token ids, int64 [S, T].
        mask: 1 for tokens and 0 for pads, int64 [S, T].
    """

    task: str
    ids: Tensor
    mask: Tensor


def read_texts(directory: Path, task: str, rows: int) -> list[list[str]]:
    """Each row's texts, of the first ``rows`` rows of a task's training file."""
    name, columns = FILES[task]
    with (directory / name).open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, delimiter="\t")
        return [[row[column] for column in columns] for row, _ in zip(lines, range(rows))]  # noqa: B905


def read_tokens(directory: Path, tokenizer: Any, rows: int) -> dict[str, Rows]:
    """Token ids of each task's first rows."""
    tokens = {}
    for task in FILES:
        sides = zip(*read_texts(directory, task, rows), strict=True)
        ids = [
            tokenizer(list(side), max_length=128, truncation=True)["input_ids"] for side in sides
        ]
        tokens[task] = list(zip(*ids, strict=True))
    return tokens


def mixed_steps(
    tokens: Mapping[str, Rows], count: int, *, grouped: bool, batch: int = BATCH
) -> list[Step]:
    """``count`` batches of ``batch`` rows, the tasks in turn.

    ``grouped`` takes neighbours in length out of 50 batches' rows, as our trainer does.
    """
    rng = np.random.default_rng(0)
    steps = []
    for number in range(count):
        task = list(tokens)[number % len(tokens)]
        rows = tokens[task]
        if grouped:
            longest = [max(map(len, row)) for row in rows]
            pool = sorted(rng.choice(len(rows), 50 * batch, replace=False), key=longest.__getitem__)
            start = rng.integers(50) * batch
            chosen = pool[start : start + batch]
        else:
            chosen = list(rng.choice(len(rows), batch, replace=False))
        sides = range(len(rows[0]))
        steps.append(padded(task, [rows[i][side] for side in sides for i in chosen]))
    return steps


def padded(task: str, sequences: Sequence[Sequence[int]]) -> Step:
    """A batch padded to its longest sequence."""
    ids = torch.zeros(len(sequences), max(map(len, sequences)), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    return Step(task, ids, (ids != 0).long())


def in_turn(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each round; all run once before, then in turn.

    Each round begins with the next variant, because the first one that meets batches of new sizes
    also waits while libraries prepare for them.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for variant in variants.values():
        variant()
    names = list(variants)
    for number in range(rounds):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            variant = variants[name]
            began = time.perf_counter()
            variant()
            times[name].append(time.perf_counter() - began)
    return times


def ratio(base: Sequence[float], seconds: Sequence[float]) -> float:
    """How many times as fast as ``base``: the median over rounds."""
    return statistics.median(a / b for a, b in zip(base, seconds, strict=True))


def headline(threads: int, rounds: int, ceilings: Mapping[str, float] | None = None) -> str:
    """Return the line that says how a table was made; ``ceilings``: as ``matmul_ceilings``."""
    parts = [f"torch {torch.__version__}", f"{threads} threads", f"{rounds} rounds"]
    for precision, ceiling in (ceilings or matmul_ceilings()).items():
        parts.append(f"ceiling {ceiling / 1e9:.0f} GFLOP/s {precision}")
    return f"{', '.join(parts)}, commit {git_revision()}\n"


def peak_mib() -> float:
    """The largest resident size that this process has had (Linux).

    Not `ru_maxrss`, in which a process starts with the size of the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def matmul_ceilings() -> dict[str, float]:
    """``matmul_ceiling`` by precision."""
    return {"fp32": matmul_ceiling(torch.float32), "bf16": matmul_ceiling(torch.bfloat16)}


def matmul_ceiling(dtype: torch.dtype) -> float:
    """FLOP a second of our layers' products at MiniLM's shapes, when large: the best of 20."""
    inputs, weight, bias = (
        torch.randn(shape).to(dtype) for shape in ((1024, 384), (1536, 384), (1536,))
    )
    best = min(in_turn({"mm": lambda: [linear(inputs, weight, bias) for _ in range(10)]}, 20)["mm"])
    return 10 * 2 * 1024 * 384 * 1536 / best
