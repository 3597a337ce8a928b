# Tested by tests/training/test_checkpoint_repair.py
"""Save a run's state and best weights while it trains, and restore them on resume."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from multitask.models.weights import write_tensors
from multitask.store.checkpoint import Damaged, read_state
from multitask.store.run_directory import RunDirectory, state_of, step_of
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.checkpoint_format import load_checkpoint, save_checkpoint
from multitask.training.step import Stepped
from multitask.training.weight_selection import Selection
from multitask.utils import distributed
from multitask.utils.errors import UserError, reading

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer


class Stateful(Protocol):
    """A part of a run that changes while it trains."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state to save: nested mappings of tensors and JSON values."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Restore a saved state. Raises UserError if the run cannot continue from it."""


@dataclass
class Checkpoints(Callback):
    """Saves all parts of a run after each evaluation and every ``every`` steps, and restores them.

    Attributes:
        run: the run's directory.
        parts: the parts of the run that change while it trains, by name, in the order in which
            they are restored.
        selection: the part that knows the best steps; their weights stay on disk.
        keep: the number of checkpoints to keep.
        every: steps between two checkpoints; None: save only after evaluations.
        say: prints a warning.
        saved_at: the step of the newest checkpoint.
    """

    run: RunDirectory
    parts: Mapping[str, Stateful]
    selection: Selection
    keep: int
    every: int | None
    say: Callable[[str], None]
    saved_at: int = -1

    def __post_init__(self) -> None:
        marker = self.run.marker
        self.marker = marker.read_text("utf-8") if marker.is_file() else ""

    def on_step(self, trainer: "Trainer", tasks: object, result: Stepped) -> None:
        if self.every and trainer.step % self.every == 0:
            self.save(trainer.step)

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        self.save_best(trainer)
        self.saved_at = -1  # save again: an earlier checkpoint of this step lacks the outcome
        self.save(trainer.step)

    def on_end(self, trainer: "Trainer") -> None:
        if trainer.finished and distributed.rank() == 0:
            prune(self.run, keep=1)

    def save_best(self, trainer: "Trainer") -> None:
        """Write the weights if this step is the best so far for a task or for the joint mean."""
        if distributed.rank() > 0:
            return
        steps = self.selection.best_steps()
        if trainer.step in steps.values():
            file = self.run.weights_of(trainer.step)
            self.run.make(self.run.weights)
            write_tensors(file, trainer.model.state_dict())
        self.run.write_json(self.run.best, steps)

    def save(self, step: int) -> None:
        """Write a checkpoint, unless this step has one; then delete old checkpoints and weights."""
        if self.saved_at == step:
            return
        self.saved_at = step
        states = {name: part.state_dict() for name, part in self.parts.items()}  # on all ranks
        if distributed.rank() > 0:
            return
        self.keep_marker()
        best = self.selection.best_steps()
        save_checkpoint(self.run, step, states, best)
        prune(self.run, self.keep)
        prune_weights(self.run, set(best.values()))

    def keep_marker(self) -> None:
        """Write ``run.json`` again if it was deleted: without it a run cannot be resumed."""
        if self.marker and not self.run.marker.is_file():
            self.say(
                f"warning: {self.run.marker} was deleted while the run trained: it is written again"
            )
            self.run.write_text(self.run.marker, self.marker)

    def restore(self, checkpoint: Path) -> None:
        """Restore a checkpoint that ``find_intact`` has found.

        Raises UserError if the run cannot continue from it.
        """
        states = load_checkpoint(checkpoint)
        for name, part in self.parts.items():
            with naming(checkpoint), reading("its state"):
                part.load_state_dict(states[name])
        self.saved_at = step_of(checkpoint)

    def newest(self) -> Path | None:
        """Return the newest checkpoint; None if there is none."""
        saved = self.run.saved_checkpoints()
        return saved[-1] if saved else None


@contextlib.contextmanager
def naming(checkpoint: Path) -> Iterator[None]:
    """Name the checkpoint in a UserError of the block."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{checkpoint}: {error}") from error


def prune(run: RunDirectory, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints; damaged ones stay."""
    saved = run.saved_checkpoints()
    for old in saved[:-keep]:
        with contextlib.suppress(Damaged):
            read_state(state_of(old))
            shutil.rmtree(old)


def prune_weights(run: RunDirectory, wanted: set[int]) -> None:
    """Delete saved weights unless the step is in ``wanted`` or is a best step of a checkpoint."""
    for path in run.saved_checkpoints():
        with contextlib.suppress(Damaged):  # a damaged one protects no weights
            wanted = wanted | set(read_state(state_of(path))["best_steps"].values())
    for step, file in run.saved_weights().items():
        if step not in wanted:
            file.unlink()
