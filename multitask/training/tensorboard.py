"""TensorBoard's event files of a run, written from the lines of ``metrics.jsonl``."""

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multitask.config import Config
from multitask.training.metric_log import Log
from multitask.utils import distributed

FOLDER = "tensorboard"


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


@contextmanager
def event_files(config: Config, log: Log, run_dir: Path) -> Iterator[None]:
    """While this lasts, each line of the log also goes into ``run_dir/tensorboard``, if so set.

    What the log holds already (a resumed run) is written first, and the files of earlier sessions
    are removed: the log alone says what happened, so no step stands there twice or is missing.
    Only the first process writes.
    """
    if not config.training.tensorboard or distributed.rank() > 0:
        yield
        return
    from torch.utils.tensorboard import SummaryWriter

    folder = run_dir / FOLDER
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    # the start marker makes a TensorBoard that has them open forget what it has shown
    writer = SummaryWriter(str(folder), purge_step=0)

    def hear(line: Mapping[str, Any]) -> None:
        for tag, value in scalars(line).items():
            writer.add_scalar(tag, value, line["step"])

    try:
        for text in log.file.read_text(encoding="utf-8").splitlines():
            hear(json.loads(text))
        log.listen(hear)
        yield
    finally:
        writer.close()
