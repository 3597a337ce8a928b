"""Parts of all tables of benchmarks/gpu.py: the sizes to measure, and rows that may be skipped."""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks import synthetic
from benchmarks.our_trainer import Place
from multitask.utils.device import emulates_bf16
from multitask.utils.errors import UserError, reason_of

LIMIT = 8 * 60  # seconds; no row begins later


class Scale(NamedTuple):
    """How much is measured.

    Attributes:
        sizes: the encoders, and the width of each.
        batches: rows per batch.
        rows: rows in each task's training file.
        seconds: how long the steps of one row are measured.
        turns: how often whole trainers take each task's turn.
        sentences: sentences to encode.
        product: rows of the matrix products whose speed is the ceiling.
    """

    sizes: dict[str, int]
    batches: tuple[int, ...]
    rows: int
    seconds: float
    turns: int
    sentences: int
    product: int


REAL = Scale({"minilm": 384, "base": 768}, (32, 256), 3000, 3.0, 24, 5000, 16_384)
TOY = Scale({"toy": 48}, (8,), 64, 0.0, 1, 30, 64)


@dataclass(frozen=True)
class Bench:
    """One start of the benchmark.

    Attributes:
        scale: how much is measured.
        device: where.
        scratch: an empty directory.
        data: the directory with the tasks' files.
        encoders: the directory of each encoder.
        began: the clock at the start.
    """

    scale: Scale
    device: torch.device
    scratch: Path
    data: Path
    encoders: dict[str, str]
    began: float = field(default_factory=time.monotonic)

    @property
    def half(self) -> str:
        """The precision of 16 bits that the device is fast in."""
        return "fp16" if emulates_bf16(self.device) else "bf16"

    def place(self, batch: int) -> Place:
        return Place(self.device, self.half, batch)

    def row(
        self, name: Sequence[str], width: int, make: Callable[[], list[str]], needs: str = "torch"
    ) -> list[str]:
        """Measure a row of ``width`` cells; if that is not possible, the row says why.

        Args:
            name: the first cells.
            width: the number of all cells.
            make: measures the other cells.
            needs: a package that must be installed.
        """
        print(*name, sep=", ", file=sys.stderr, flush=True)
        try:
            if find_spec(needs) is None:
                reason = f"{needs} is not installed"
            elif time.monotonic() - self.began > LIMIT:
                reason = "no time was left"
            else:
                return [*name, *make()]
        except torch.OutOfMemoryError:
            reason = "out of memory"
        except UserError as error:
            reason = str(error)
        except Exception as error:  # of a peer or of the card: the other rows are worth having
            reason = f"{type(error).__name__}: {reason_of(error)}"
        finally:
            gc.collect()
            torch.cuda.empty_cache()
        return [*name, f"skipped: {reason}", *[""] * (width - len(name) - 1)]


def prepared(scale: Scale, device: torch.device, scratch: Path) -> Bench:
    """Write the files that the benchmark needs."""
    data = synthetic.write_rows(scratch / "data", scale.rows)
    made = {size: str(synthetic.write_encoder(scratch / size, size)) for size in scale.sizes}
    return Bench(scale, device, scratch, data, made)
