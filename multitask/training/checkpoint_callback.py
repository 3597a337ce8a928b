"""Save a run's state and best weights while it trains, and restore them on resume."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from multitask.config.checkpoint_state import Damaged, read_state
from multitask.config.run_directory import RunDirectory, state_of, step_of
from multitask.models.weights import intact_weights, read_checked, write_tensors
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.checkpoint_format import load_checkpoint, save_checkpoint
from multitask.training.early_stopping import Selection
from multitask.training.step import Stepped
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
class SameData:
    """Refuses to resume a run if its data has changed.

    Attributes:
        hashes: a hash of the rows that each task trains on and is scored by.
    """

    hashes: Mapping[str, str]

    def state_dict(self) -> dict[str, str]:
        return dict(self.hashes)

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        changed = [task for task, digest in self.hashes.items() if state.get(task) != digest]
        if changed:
            raise UserError(
                f"the data of {', '.join(changed)} are not those the run was started with: put "
                "them back, or choose another output_dir=DIR"
            )


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

    def on_step(self, trainer: "Trainer", tasks: object, done: Stepped) -> None:
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
        best = self.selection.best_steps()
        save_checkpoint(self.run, step, states, best)
        prune(self.run, self.keep)
        prune_weights(self.run, set(best.values()))

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


class Intact(NamedTuple):
    """The newest checkpoint that a run can go on from.

    Attributes:
        path: the checkpoint; None if the run has none.
        damaged: newer checkpoints, which are damaged.
        copies: damaged or missing weights of the best steps, and for each the file with a copy.
    """

    path: Path | None = None
    damaged: tuple[Path, ...] = ()
    copies: Mapping[Path, Path] = {}


def find_intact(
    run: RunDirectory,
    say: Callable[[str], None],
    check: Callable[[Mapping[str, Any]], None] = lambda states: None,
) -> Intact:
    """Find the newest complete checkpoint; ``say`` prints a warning for each damaged one.

    Nothing is written. Raises UserError if all are damaged, or ``check`` refuses the states of the
    run's parts.
    """
    saved = run.saved_checkpoints()
    damaged: list[Path] = []
    for path in reversed(saved):
        try:
            states = load_checkpoint(path)
            copies = _copies(run, path)
        except Damaged as problem:
            say(f"warning: {problem}; falling back to the checkpoint before it")
            damaged.append(path)
            continue
        with naming(path), reading("its state"):
            check(states)
        return Intact(path, tuple(damaged), copies)
    if saved:
        raise UserError(f"{run.path}: every checkpoint is damaged: start again with --overwrite")
    return Intact()


def mend(run: RunDirectory, found: Intact) -> None:
    """Set damaged checkpoints aside, and write damaged weights of the best steps again."""
    for other in found.damaged:  # new checkpoints need the names; not deleted
        other.rename(run.damaged(other))
    for file, copy in found.copies.items():
        write_tensors(run.make(run.weights) / file.name, read_checked(copy))


def _copies(run: RunDirectory, checkpoint: Path) -> dict[Path, Path]:
    """Return missing or damaged weights of the best steps, and checkpoints' copies of them.

    Raises Damaged if no checkpoint has a copy: the run could not finish from this one.
    """
    copies = {}
    best = read_state(state_of(checkpoint))["best_steps"]
    for step in sorted({*best.values()} - {0}):  # 0: not evaluated
        file = run.weights_of(step)
        try:
            intact = intact_weights(run, step)
        except UserError as error:
            message = f"{checkpoint} needs {file}, which is missing or damaged"
            raise Damaged(message) from error
        if intact != file:
            copies[file] = intact
    return copies


def prune_weights(run: RunDirectory, wanted: set[int]) -> None:
    """Delete saved weights unless the step is in ``wanted`` or is a best step of a checkpoint."""
    for path in run.saved_checkpoints():
        with contextlib.suppress(Damaged):  # a damaged one protects no weights
            wanted = wanted | set(read_state(state_of(path))["best_steps"].values())
    for step, file in run.saved_weights().items():
        if step not in wanted:
            file.unlink()
