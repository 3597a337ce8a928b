"""``metrics.jsonl``: the log of a run, one JSON object per event and line."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.store.files import file_digest, open_to_append, without_nan
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.loss_weights import learned_weights
from multitask.training.optimizer import encoder_rate
from multitask.training.step import Stepped
from multitask.utils import distributed
from multitask.utils.errors import NotFinite, UserError, warn

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer


def check_log(file: Path, state: Mapping[str, Any]) -> None:
    """Raise UserError if a log lacks lines that it had when its ``state`` was saved."""
    if (file.stat().st_size if file.is_file() else 0) < state["size"]:
        raise UserError(
            f"{file} is shorter than when this checkpoint was saved: put it back, or choose "
            "another output_dir=DIR"
        )


class MetricLog(Callback):
    """Writes steps and evaluations to a file; only the first process writes.

    On resume the file is truncated to its length at the checkpoint.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        # unbuffered: each line reaches the file at once, and a full disk raises at once
        self._opened = open_to_append(file) if distributed.rank() == 0 else None
        self._rates: dict[str, float] = {}  # learning rates of this step, by parameter group

    def write(self, event: str, **values: Any) -> None:
        """Append a line; NaN becomes null."""
        if self._opened:
            line = {"event": event, **without_nan(values)}
            self._opened.write((json.dumps(line) + "\n").encode())

    def on_start(self, trainer: "Trainer") -> None:
        if trainer.step == 0:
            stages = trainer.stages
            self.write("plan", step=0, steps=stages.total_steps, epochs=stages.total_epochs)

    def before_step(self, trainer: "Trainer") -> None:
        groups = trainer.stages.optimizer.param_groups
        self._rates = {group["name"]: group["lr"] for group in groups}

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        if result.overflow is not None:
            self.write("overflow", step=trainer.step, scale=result.overflow)
        for task in tasks:
            if task not in result.losses:
                self.write("skip", step=trainer.step, task=task)
                continue
            self.write(
                "step",
                step=trainer.step,
                epoch=round(trainer.epoch, 5),
                task=task,
                loss=result.losses[task],
                lr=encoder_rate(self._rates),
                head_lr=self._rates.get(trainer.model.owner(task), 0.0),
                grad_norm=result.norm,
                rows=result.rows[task],
                **({"penalty": result.penalties[task]} if task in result.penalties else {}),
                **result.terms.get(task, {}),
            )

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        weights = learned_weights(trainer.model)
        self.write(
            "eval",
            step=trainer.step,
            epoch=round(trainer.epoch, 5),
            split=trainer.measures.split,
            tasks=evaluation.tasks,
            joint=evaluation.joint,
            **({"loss_weights": weights} if weights else {}),
        )
        for task in evaluation.stopped:
            self.write("stop", step=trainer.step, task=task)

    def on_end(self, trainer: "Trainer") -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._opened:
            self._opened.close()

    def size(self) -> int:
        """Flush the file to disk and return its size in bytes."""
        if self._opened is None:
            return 0
        os.fsync(self._opened.fileno())
        return os.fstat(self._opened.fileno()).st_size

    def truncate(self, size: int) -> None:
        """Remove everything after the first ``size`` bytes."""
        if self._opened:
            self._opened.truncate(size)

    def state_dict(self) -> dict[str, object]:
        return {"size": self.size(), "sha256": file_digest(self.file) if self._opened else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        distributed.on_first(lambda: check_log(self.file, state))
        self.truncate(state["size"])
        if self._opened and state["sha256"] != file_digest(self.file):
            warn(f"{self.file} is not as it was written: curves of the report may be wrong")


@contextmanager
def divergence_logged(file: Path) -> Iterator[None]:
    """Add the event to a log if a baseline or the last scores are not finite.

    ``Trainer`` logs what diverges in its steps, and raises another error.
    """
    try:
        yield
    except NotFinite as problem:
        with closing(MetricLog(file)) as log:
            log.write("diverged", step=0, reason=str(problem))
        raise
