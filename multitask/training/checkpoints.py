"""Save a run's state and best weights while it trains, and restore them on resume.

The tensors of a part are named by their path in its state ("state/0/exp_avg"). Loading never
unpickles anything.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from safetensors.torch import load_file
from torch import Tensor

from multitask.models.weights import Tensors, intact_weights, read_checked, write_tensors
from multitask.store.checkpoint import Damaged, State, read_state, step_of, tensors_of, write_state
from multitask.store.files import changed_file, file_digests, remove_scraps, replacing, sync
from multitask.store.run_directory import RunDirectory
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.metric_log import check_log
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
        """Restore a saved state."""


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
        saved_at: the step of the newest checkpoint.
    """

    run: RunDirectory
    parts: Mapping[str, Stateful]
    selection: Selection
    keep: int
    every: int | None
    saved_at: int = -1

    def on_step(self, trainer: "Trainer", tasks: object, result: Stepped) -> None:
        if self.every and trainer.step % self.every == 0:
            self.save(trainer.step)

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        """Save the weights if this step is the best so far for a task or for the joint mean."""
        if distributed.rank() == 0:
            steps = self.selection.best_steps()
            if trainer.step in steps.values():
                self.run.make(self.run.weights)
                write_tensors(self.run.weights_of(trainer.step), trainer.model.state_dict())
            self.run.write_json(self.run.best, steps)
        self.saved_at = -1  # save again: an earlier checkpoint of this step lacks the outcome
        self.save(trainer.step)

    def on_end(self, trainer: "Trainer") -> None:
        if trainer.finished and distributed.rank() == 0:
            prune(self.run, 1, self.selection.best_steps())

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
        prune(self.run, self.keep, best)

    def restore(self, checkpoint: Path) -> None:
        """Restore a checkpoint that ``newest_intact`` has returned."""
        states = load_checkpoint(self.run, checkpoint)
        for name, part in self.parts.items():
            with reading(checkpoint):
                part.load_state_dict(states[name])
        self.saved_at = step_of(checkpoint)


def save_checkpoint(
    run: RunDirectory, step: int, states: Mapping[str, Mapping[str, Any]], best: Mapping[str, int]
) -> None:
    """Write the checkpoint of a step, complete or not at all; it replaces an earlier one.

    ``best`` has the best steps so far. A run that resumes here needs their weights.
    """
    run.make(run.checkpoints)
    with replacing(run.checkpoint(step)) as scratch:
        scratch.mkdir()
        parts = {}
        for name, state in states.items():
            tensors, parts[name] = _split(state)
            if tensors:
                write_tensors(tensors_of(scratch, name), tensors)
        origin = {"run": run.identity, "step": step, "best_steps": best}
        write_state(scratch, {**origin, "parts": parts, "sha256": file_digests(scratch)})
    sync(run.checkpoints)


def load_checkpoint(run: RunDirectory, path: Path) -> dict[str, State]:
    """Return the state of each part of a run.

    Raises:
        Damaged: something is missing or altered, or the checkpoint is of another run or step.
        UserError: another version of this program wrote it, in a format that is unknown here.
    """
    saved = read_state(path, run.identity)
    changed = changed_file(path, saved["sha256"])
    if changed is not None:
        raise Damaged(f"{path / changed} is damaged")
    files = {Path(name).stem: path / name for name in saved["sha256"]}
    return {
        name: _join(load_file(files[name]) if name in files else {}, rest)
        for name, rest in saved["parts"].items()
    }


def newest_intact(run: RunDirectory, say: Callable[[str], None]) -> Path | None:
    """Return the newest checkpoint that a run can go on from; None if it has no checkpoint.

    Newer ones, which are damaged, are set aside: ``say`` prints a line for each. Weights of the
    best steps that are missing or damaged are copied from their checkpoints.

    Raises UserError, and changes nothing, if all are damaged or the log is too short.
    """
    remove_scraps(run.checkpoints)  # and finish what a kill has interrupted between two renames
    damaged: list[Path] = []
    for path in reversed(run.saved_checkpoints()):
        try:
            states = load_checkpoint(run, path)
            copies = _copies_of_weights(run, path)
        except Damaged as problem:
            say(f"warning: {problem}; falling back to the checkpoint before it")
            damaged.append(path)
            continue
        check_log(run.metrics, states["log"])
        for old in damaged:  # not deleted, but new checkpoints need the names
            aside = old.with_name(f"damaged-{old.name}")
            shutil.rmtree(aside, ignore_errors=True)
            old.rename(aside)
        for file, copy in copies.items():
            write_tensors(run.make(run.weights) / file.name, read_checked(copy))
        return path
    if damaged:
        raise UserError(f"{run.path}: every checkpoint is damaged: start again with --overwrite")
    return None


def _copies_of_weights(run: RunDirectory, checkpoint: Path) -> dict[Path, Path]:
    """Return missing or damaged weights of the best steps, and checkpoints' copies of them.

    Raises Damaged if no checkpoint has a copy: the run could not finish from this one.
    """
    copies = {}
    best = read_state(checkpoint, run.identity)["best_steps"]
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


def prune(run: RunDirectory, keep: int, best: Mapping[str, int]) -> None:
    """Remove all but the newest ``keep`` checkpoints, and weights that none of the rest needs.

    Damaged checkpoints stay, and protect no weights. ``best`` has the best steps of now.
    """
    saved, wanted = run.saved_checkpoints(), set(best.values())
    for path in saved:
        with suppress(Damaged, UserError):
            state = read_state(path, run.identity)
            if path in saved[-keep:]:
                wanted |= set(state["best_steps"].values())
            else:
                shutil.rmtree(path)
    for step, file in run.saved_weights().items():
        if step not in wanted:
            file.unlink()


def _split(state: Mapping[str, Any]) -> tuple[Tensors, State]:
    """Split a nested state into its tensors, by path, and the rest, which JSON can hold."""
    tensors: Tensors = {}
    rest: State = {}
    for key, value in state.items():
        if isinstance(value, Tensor):
            tensors[str(key)] = value
        elif isinstance(value, Mapping):
            inside, rest[str(key)] = _split(value)
            tensors |= {f"{key}/{path}": tensor for path, tensor in inside.items()}
        else:
            rest[str(key)] = value
    return tensors, rest


def _join(tensors: Tensors, rest: State) -> State:
    """Put the tensors back at their paths (the inverse of ``_split``)."""
    for path, tensor in tensors.items():
        *parents, name = path.split("/")
        place = rest
        for parent in parents:
            place = place[parent]
        place[name] = tensor
    return rest
