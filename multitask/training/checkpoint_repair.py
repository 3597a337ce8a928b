"""Find the checkpoint that a run can go on from, and repair what is damaged."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from multitask.models.weights import intact_weights, read_checked, write_tensors
from multitask.store.checkpoint import Damaged, read_state
from multitask.store.run_directory import RunDirectory, state_of
from multitask.training.checkpoint_format import load_checkpoint
from multitask.training.checkpoint_save_restore import naming
from multitask.utils.errors import UserError, reading


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
    for checkpoint in found.damaged:  # new checkpoints need the names; not deleted
        checkpoint.rename(run.damaged(checkpoint))
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
