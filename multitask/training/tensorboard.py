"""Write TensorBoard's event files of a run from the lines of ``metrics.jsonl``."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.config import Config
from multitask.config.run_log import parse_event
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.step import Stepped
from multitask.utils import distributed
from multitask.utils.optional import install_command

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer


OURS = ".multitask"  # the end of the files' names


def check_installed(config: Config) -> None:
    """Raise UserError if the config asks for event files and the package is not installed."""
    if config.training.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise config.error(
            ("training", "tensorboard"),
            f"the package is not installed: {install_command('tensorboard')}",
        )


def scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Convert one line of ``metrics.jsonl`` to {tag: value}, without undefined values."""
    tagged: dict[str, float | None] = {}
    if line["event"] == "step":
        names = ("loss", "lr", "head_lr", "grad_norm")
        tagged = {f"train/{name}/{line['task']}": line[name] for name in names}
    elif line["event"] == "eval":
        # also tasks that are only evaluated are under the split that selects
        for task, values in line["tasks"].items():
            tagged |= {f"{line['split']}/{name}/{task}": value for name, value in values.items()}
        tagged[f"{line['split']}/joint"] = line["joint"]
    return {tag: value for tag, value in tagged.items() if value is not None}


class TensorBoard(Callback):
    """Copies the numbers of the log into event files in ``folder``; only the first process writes.

    At the start it removes the event files of earlier sessions and writes the lines that the log
    has already (in a resumed run). So every step is there exactly once.
    """

    def __init__(self, log: Path, folder: Path) -> None:
        self.log, self.folder = log, folder
        self._writer: Any = None
        self._read = 0  # how many bytes of the log

    def on_start(self, trainer: "Trainer") -> None:
        if distributed.rank() > 0:
            return
        from torch.utils.tensorboard import SummaryWriter

        for old in self.folder.glob(f"events.out.tfevents.*{OURS}"):
            old.unlink()
        # purge_step makes an open TensorBoard forget what it has shown
        self._writer = SummaryWriter(str(self.folder), purge_step=0, filename_suffix=OURS)
        self._follow()

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        self._follow()

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        self._follow()

    def on_end(self, trainer: "Trainer") -> None:
        if self._writer is not None:
            self._follow()
            self._writer.close()

    def _follow(self) -> None:
        """Copy the lines that were added to the log since the last call."""
        if self._writer is None:
            return
        with self.log.open("rb") as opened:
            opened.seek(self._read)
            for text in opened:
                line = parse_event(text) or {"event": "damaged"}
                for tag, value in scalars(line).items():
                    self._writer.add_scalar(tag, value, line["step"])
            self._read = opened.tell()
