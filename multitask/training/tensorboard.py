"""TensorBoard's event files of a run, written from the lines of ``metrics.jsonl``."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.config import Config
from multitask.config.run_log import parse_event
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.step import Stepped
from multitask.utils import distributed

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer


def check_installed(config: Config) -> None:
    """Raise UserError where event files are asked for and the package is not there."""
    if config.training.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise config.error(
            ("training", "tensorboard"), "the package is not here: pip install tensorboard"
        )


def scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """The tags and values of one line of ``metrics.jsonl``; undefined ones are left out."""
    found: dict[str, float | None] = {}
    if line["event"] == "step":
        found = {
            f"train/{name}/{line['task']}": line[name]
            for name in ("loss", "lr", "head_lr", "grad_norm")
        }
    elif line["event"] == "eval":  # under the split that selects, also of tasks only evaluated
        for task, values in line["tasks"].items():
            found |= {f"{line['split']}/{name}/{task}": value for name, value in values.items()}
        found[f"{line['split']}/joint"] = line["joint"]
    return {tag: value for tag, value in found.items() if value is not None}


class TensorBoard(Callback):
    """Writes what the log says into ``folder`` too; only the first process writes.

    What the log has already (in a resumed run) is written first, and the files of earlier sessions
    are removed. The log alone says what happened, so no step is there twice or is missing.
    """

    def __init__(self, log: Path, folder: Path) -> None:
        self.log, self.folder = log, folder
        self._writer: Any = None
        self._read = 0  # bytes of the log

    def on_start(self, trainer: "Trainer") -> None:
        if distributed.rank() > 0:
            return
        from torch.utils.tensorboard import SummaryWriter

        for old in self.folder.glob("events.out.tfevents.*"):
            old.unlink()
        # the start marker makes a TensorBoard that has them open forget what it has shown
        self._writer = SummaryWriter(str(self.folder), purge_step=0)
        self._follow()

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], done: Stepped) -> None:
        self._follow()

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        self._follow()

    def on_end(self, trainer: "Trainer") -> None:
        if self._writer is not None:
            self._follow()
            self._writer.close()

    def _follow(self) -> None:
        """Write the lines that the log has got since the last call."""
        if self._writer is None:
            return
        with self.log.open("rb") as opened:
            opened.seek(self._read)
            for text in opened:
                line = parse_event(text) or {"event": "damaged"}
                for tag, value in scalars(line).items():
                    self._writer.add_scalar(tag, value, line["step"])
            self._read = opened.tell()
