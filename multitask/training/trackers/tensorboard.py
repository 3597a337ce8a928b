"""TensorBoard: event files in the run's directory."""

from collections.abc import Sequence
from typing import Any

import yaml

from multitask.training.trackers.base import Row, TrackedRun, Tracker

OURS = ".multitask"  # the end of the files' names


class TensorBoard(Tracker):
    """Writes event files. At each start it writes them anew, so every step is there once."""

    modules = ("tensorboard",)
    extra = "tensorboard"

    def start(self, run: TrackedRun, run_id: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = run.directory.make(run.directory.tensorboard)
        for old in folder.glob(f"events.out.tfevents.*{OURS}"):
            old.unlink()
        # purge_step makes an open TensorBoard forget what it has shown
        self._writer: Any = SummaryWriter(str(folder), purge_step=0, filename_suffix=OURS)
        text = yaml.safe_dump(dict(run.config), sort_keys=False, allow_unicode=True)
        self._writer.add_text("config", f"```yaml\n{text}```")

    def log(self, rows: Sequence[Row]) -> None:
        for step, values in rows:
            for tag, value in values.items():
                self._writer.add_scalar(tag, value, step)

    def close(self, finished: bool) -> None:
        self._writer.close()
