"""Our trainer for benchmarks: built as a run builds it, its steps taken one by one."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import record_function

from benchmarks.course_batches import BATCH
from multitask.config import Config, load_config
from multitask.config.registry import resolve, task_type
from multitask.data.classes import label_reader
from multitask.data.splits import load_splits
from multitask.models.pretrained import pretrained_tokenizer
from multitask.tasks.rows import Rows
from multitask.training.setup import Plan, set_up
from multitask.training.trainer import Trainer

CONFIG = Path(__file__).parent.parent / "configs" / "cs224n_minilm.yaml"
ROWS = 3000
TORCH = "encoder.kernels=torch"  # unless an override says otherwise
FP32, BF16 = "training.precision=fp32", "training.precision=bf16"
COMPILED = "encoder.kernels=compiled"
BATCHING = "batching"  # its name in a profile
CPU = torch.device("cpu")


class Place(NamedTuple):
    """Where and how trainers are measured.

    Attributes:
        device: the device.
        half: the precision of 16 bits that is fast there, "bf16" or "fp16".
        batch: rows per batch.
    """

    device: torch.device = CPU
    half: str = "bf16"
    batch: int = BATCH

    @property
    def overrides(self) -> list[str]:
        """Return the overrides that set the batch size."""
        return [f"defaults.batch_size={self.batch}"]


def loaded(directory: Path, overrides: Sequence[str], preset: Path = CONFIG) -> Config:
    """A preset on ``ROWS`` rows of each task, with these overrides."""
    settings = [f"data_dir={directory}", f"defaults.max_rows={ROWS}", TORCH]
    return load_config(preset, [*settings, *overrides])


def training_rows(directory: Path, overrides: Sequence[str]) -> dict[str, Rows]:
    """Return the training rows of each task, for the peers of our trainer; no model is built."""
    config = loaded(directory, overrides)
    heads = {task: resolve("head", entry.head.name) for task, entry in config.tasks.items()}
    readers = {
        task: label_reader(config, task, task_type(head.task_type)) for task, head in heads.items()
    }
    rows, _ = load_splits(config, readers, partial(pretrained_tokenizer, config))
    return {task: splits["train"] for task, splits in rows.items()}


def prepared_run(
    directory: Path, overrides: Sequence[str], preset: Path = CONFIG, device: torch.device = CPU
) -> Plan:
    """Our trainer's parts, built as a run builds them."""
    config = loaded(directory, overrides, preset)
    prepared = set_up(config, device, partial(print, file=sys.stderr))
    if config.encoder.kernels == "compiled" and prepared.model.encoder.kernels == "torch":
        raise SystemExit("the compiled kernels cannot be built here: ninja and a C++ compiler")
    return prepared


class Stepper:
    """A trainer under way; ``steps(n)`` takes n steps and returns their useful tokens.

    Useful tokens are those that are no padding. The log goes to ``scratch``.
    """

    def __init__(self, prepared: Plan, scratch: Path) -> None:
        self.trainer: Trainer = Trainer(prepared, scratch, lambda line: None)
        self._take, self._tokens = self.trainer.loader.next, 0
        self.trainer.loader.next = self._counted  # type: ignore[assignment,method-assign]
        prepared.model.train()

    def steps(self, count: int) -> int:
        before = self._tokens
        for _ in range(count):
            self.trainer.take_step()
        return self._tokens - before

    def _counted(self, *turns: Any) -> Any:
        with record_function(BATCHING):
            passes = self._take(*turns)
        shared = [one for micro_batch in passes for one in micro_batch]
        # counted on the host: to read a mask would be a wait for a GPU
        lengths = [one.inputs.lengths for one in shared]
        self._tokens += sum(int(each.sum()) for each in lengths if each is not None)
        return passes
