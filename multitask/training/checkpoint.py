"""Checkpoints that survive a kill at any moment: safetensors and JSON, complete or absent.

A checkpoint is a directory ``step-NNNNNNNN``. For each part of a run, ``state.json`` has its state
without the tensors; those are in ``PART.safetensors``, each under its path in the state
("state/0/exp_avg"). ``state.json`` also has the SHA-256 of every file. Nothing is unpickled.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from multitask.config.run_directory import RunDirectory, state_of, tensors_of
from multitask.models.weights import Tensors, write_tensors
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.early_stopping import Selection
from multitask.training.step import Stepped
from multitask.utils import distributed
from multitask.utils.errors import UserError
from multitask.utils.files import replacing, sync, write_text

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer

FORMAT = 4

State = dict[str, Any]  # nested; tensors, or what JSON can hold


class Stateful(Protocol):
    """A part of a run that changes while it trains."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return what to save: nested mappings of tensors and of JSON values."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Go back to a saved state. Raises UserError if the run cannot go on from it."""


@dataclass
class SameData:
    """Refuses to resume a run on other data.

    Attributes:
        hashes: a hash of the rows that each task trains on and is scored by.
    """

    hashes: Mapping[str, str]

    def state_dict(self) -> dict[str, str]:
        return dict(self.hashes)

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        changed = [task for task, known in self.hashes.items() if state.get(task) != known]
        if changed:
            raise UserError(
                f"the data of {', '.join(changed)} are not those the run was started with: put "
                "them back, or choose another output_dir=DIR"
            )


class Damaged(Exception):
    """A checkpoint that is truncated, altered or incomplete; the text says where."""


class Checkpoints(Callback):
    """Saves all parts of a run after each evaluation and every ``every`` steps, and restores them.

    Attributes:
        run: the run's directory.
        parts: whatever changes while the run trains, by name. They are restored in this order.
        selection: the part that knows the best steps, whose weights stay on disk.
        keep: how many checkpoints to keep.
        every: steps from one checkpoint to the next; None: only after evaluations.
        say: takes warnings.
    """

    def __init__(
        self,
        run: RunDirectory,
        parts: Mapping[str, Stateful],
        selection: Selection,
        *,
        keep: int,
        every: int | None,
        say: Callable[[str], None],
    ) -> None:
        self.run, self.parts, self.selection = run, parts, selection
        self.keep, self.every, self.say = keep, every, say
        self.saved_at = -1  # the step of the newest checkpoint

    def on_step(self, trainer: "Trainer", tasks: object, done: Stepped) -> None:
        if self.every and trainer.step % self.every == 0:
            self.save(trainer.step)

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        self.save_best(trainer)
        self.saved_at = -1  # the checkpoint before the evaluation does not know its outcome
        self.save(trainer.step)

    def on_end(self, trainer: "Trainer") -> None:
        if trainer.finished and distributed.rank() == 0:
            prune(self.run, keep=1)

    def save_best(self, trainer: "Trainer") -> None:
        """Write the weights once if this step is the best for any task or for all together."""
        if distributed.rank() > 0:
            return
        steps = self.selection.best_steps()
        if trainer.step in steps.values():
            file = self.run.weights_of(trainer.step)
            self.run.make(self.run.weights)
            write_tensors(file, trainer.model.state_dict())
        self.run.write_json(self.run.best, steps)

    def save(self, step: int) -> None:
        """Write a checkpoint unless the newest one is of this step; prune what is not needed."""
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

    def restore(self) -> bool:
        """Go back to the newest intact checkpoint; return False if there is none.

        A damaged checkpoint is named and the one before it is used.

        Raises:
            UserError: every checkpoint is damaged, or the run cannot go on from it.
        """
        path = distributed.on_first(lambda: newest_intact(self.run, self.say))
        if path is None:
            return False
        states = load_checkpoint(path)
        for name, part in self.parts.items():
            try:
                part.load_state_dict(states[name])
            except UserError as error:
                raise UserError(f"{path}: {error}") from error
        self.saved_at = int(path.name.removeprefix("step-").rstrip("+"))
        return True

    def newest(self) -> Path | None:
        """Return the newest checkpoint."""
        saved = self.run.saved_checkpoints()
        return saved[-1] if saved else None


def save_checkpoint(
    run: RunDirectory, step: int, states: Mapping[str, Mapping[str, Any]], best: Mapping[str, int]
) -> None:
    """Write checkpoint ``step``; it appears under its name only when it is complete.

    ``best`` are the steps whose weights a run needs that goes on from here.
    """
    run.make(run.checkpoints)
    with replacing(run.checkpoint(step)) as scratch:
        scratch.mkdir()
        digests, parts = {}, {}
        for name, state in states.items():
            tensors, parts[name] = _split(state)
            if tensors:
                file = tensors_of(scratch, name)
                write_tensors(file, tensors)
                digests[file.name] = _digest(file)
        saved = {"format": FORMAT, "best_steps": best, "parts": parts, "sha256": digests}
        write_text(state_of(scratch), json.dumps(saved))
    sync(run.checkpoints)


def load_checkpoint(path: Path) -> dict[str, State]:
    """Return the state of each part of a run.

    Raises:
        Damaged: something is missing or altered.
        UserError: a version of this program wrote it whose checkpoints this one cannot read.
    """
    try:
        saved = json.loads(state_of(path).read_text(encoding="utf-8"))
        for name, digest in saved["sha256"].items():
            if _digest(path / name) != digest:
                raise Damaged(f"{path / name} is damaged")
        if not saved["sha256"]:
            raise Damaged(f"{path} names no files")
        files = {name: load_file(path / name) for name in saved["sha256"]}
        tensors = {name.removesuffix(".safetensors"): group for name, group in files.items()}
        if saved["format"] == 3:
            return from_format_3(tensors, saved)
        if saved["format"] == FORMAT:
            return {n: _join(tensors.get(n, {}), rest) for n, rest in saved["parts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise Damaged(f"{path} is damaged ({' '.join(str(error).split())})") from error
    raise UserError(
        f"{path} was written by another version of this program (format {saved['format']}, not "
        f"{FORMAT}): finish the run with that version, or start again with --overwrite"
    )


def from_format_3(tensors: Mapping[str, Tensors], saved: Mapping[str, Any]) -> dict[str, State]:
    """Convert a checkpoint of format 3 (until November 2026), in which one dict had all fields."""

    def grouped(name: str) -> State:
        """Tensors under "one.other" as {one: {other: tensor}}."""
        found: State = {}
        for path, tensor in tensors.get(name, {}).items():
            one, _, other = path.partition(".")
            found.setdefault(one, {})[other] = tensor
        return found

    stage = saved["stage"]
    counters = ("step", "evaluated_at", "trained", "skipped", "sentences", "seconds")
    seen = {
        task: {"scores": both["0"], "labels": both["1"]} for task, both in grouped("seen").items()
    }
    return {
        "data": saved["data"],
        "progress": {name: saved[name] for name in (*counters, "wall_seconds")},
        "optimizer": {
            "index": stage["index"],
            "began_after": stage["began"],
            "epochs_before": stage["epochs_before"],
            "state": grouped("optimizer"),
            "param_groups": saved["optimizer"],
            "scheduler": saved["scheduler"],
        },
        "model": tensors["model"],
        "teacher": tensors.get("teacher", {}),
        "surgery": tensors.get("surgery", {}),
        "streams": saved["streams"],
        "turns": {"train_scores": stage["train_scores"], "seen": seen},
        "selection": saved["selection"],
        "rng": grouped("rng"),
        "log": {"size": saved["log_size"]},
    }


def _split(state: Mapping[str, Any]) -> tuple[Tensors, State]:
    """Return the tensors of a nested state by their paths, and what is left for JSON."""
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
    """Put the tensors back at their paths."""
    for path, tensor in tensors.items():
        *parents, name = path.split("/")
        place = rest
        for parent in parents:
            place = place[parent]
        place[name] = tensor
    return rest


def prune(run: RunDirectory, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints."""
    for old in run.saved_checkpoints()[:-keep]:
        shutil.rmtree(old)


def newest_intact(run: RunDirectory, say: Callable[[str], None]) -> Path | None:
    """Return the newest complete checkpoint; None if the run has none.

    Damaged ones are named to ``say`` and set aside. Raises UserError if all are damaged.
    """
    known = run.saved_checkpoints()
    damaged = []
    for path in reversed(known):
        try:
            load_checkpoint(path)
        except Damaged as problem:
            say(f"warning: {problem}; falling back to the checkpoint before it")
            damaged.append(path)
            continue
        for other in damaged:  # out of the way of the checkpoints to come, not deleted
            other.rename(run.damaged(other))
        return path
    if known:
        raise UserError(f"{run.path}: every checkpoint is damaged: start again with --overwrite")
    return None


def prune_weights(run: RunDirectory, wanted: set[int]) -> None:
    """Delete the weights of steps that are neither wanted nor best in a checkpoint."""
    for path in run.saved_checkpoints():
        with contextlib.suppress(OSError, ValueError):  # a damaged one refers to nothing
            saved = json.loads(state_of(path).read_text())
            wanted = wanted | set(saved["best_steps"].values())
    for step, file in run.saved_weights().items():
        if step not in wanted:
            file.unlink()


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
