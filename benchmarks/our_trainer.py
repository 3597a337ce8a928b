"""Our trainer for benchmarks: built as a run builds it, its steps taken one by one."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import record_function

from multitask.config import load_config
from multitask.prepare import Prepared, prepare
from multitask.run import build_trainer
from multitask.trainer import Trainer

CONFIG = Path(__file__).parent.parent / "configs" / "cs224n_minilm.yaml"
ROWS = 3000
BATCHING = "batching"  # its name in a profile


def prepared_run(directory: Path, overrides: Sequence[str], preset: Path = CONFIG) -> Prepared:
    """A preset on the first ``ROWS`` rows of each task, with these overrides."""
    every = [f"data_dir={directory}", f"defaults.max_rows={ROWS}", *overrides]
    config = load_config(preset, every)
    prepared = prepare(config, torch.device("cpu"), partial(print, file=sys.stderr))
    if config.encoder.kernels == "compiled" and prepared.model.encoder.kernels == "torch":
        raise SystemExit("the compiled kernels cannot be built here: ninja and a C++ compiler")
    return prepared


class Stepper:
    """A trainer under way; ``steps(n)`` takes n steps and returns their useful tokens.

    Useful tokens are those that are no padding. The log goes to ``scratch``.
    """

    def __init__(self, prepared: Prepared, scratch: Path) -> None:
        self.trainer: Trainer = build_trainer(prepared, scratch, lambda line: None)
        self._take, self._tokens = self.trainer.next_batches, 0
        self.trainer.next_batches = self._counted
        prepared.model.train()

    def steps(self, count: int) -> int:
        before = self._tokens
        for _ in range(count):
            self.trainer.turn()
        return self._tokens - before

    def _counted(self, *turns: Any) -> Any:
        with record_function(BATCHING):
            passes = self._take(*turns)
        inputs = {id(b.input_ids): b for batches in passes for b in batches.values()}
        self._tokens += sum(int(batch.attention_mask.sum()) for batch in inputs.values())
        return passes
