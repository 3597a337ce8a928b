"""The checkpoint file format: safetensors and JSON with checksums, written atomically.

A checkpoint is a directory ``step-NNNNNNNN``. ``state.json`` has the state of each
part of the run, without the tensors. The tensors of a part are in ``PART.safetensors``, named by
their path in the state ("state/0/exp_avg"). ``state.json`` also has the SHA-256 of every file and
of itself. Loading never unpickles anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from multitask.models.weights import Tensors, write_tensors
from multitask.store.checkpoint import (
    FORMAT,
    Damaged,
    State,
    checksum,
    read_state,
)
from multitask.store.files import changed_file, file_digests, replacing, sync, write_text
from multitask.store.run_directory import RunDirectory, state_of, tensors_of
from multitask.store.tensor_files import check_header
from multitask.utils.errors import UserError, reason_of

# what the readers of a damaged file raise
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError, UserError)


def save_checkpoint(
    run: RunDirectory, step: int, states: Mapping[str, Mapping[str, Any]], best: Mapping[str, int]
) -> None:
    """Write checkpoint ``step``. It gets its final name only when it is complete.

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
        saved: State = {"format": FORMAT, "run": run.identity, "best_steps": best}
        saved |= {"parts": parts, "sha256": file_digests(scratch)}
        write_text(state_of(scratch), json.dumps(saved | {"checksum": checksum(saved)}))
    sync(run.checkpoints)


def load_checkpoint(path: Path) -> dict[str, State]:
    """Return the state of each part of a run.

    Raises:
        Damaged: something is missing or altered.
        UserError: another version of this program wrote it, in a format that is unknown here.
    """
    saved, file = read_state(state_of(path)), path
    if (number := saved.get("format")) != FORMAT:
        raise UserError(
            f"{path} was written by another version of this program (format {number}, not "
            f"{FORMAT}): finish the run with that version, or start again with --overwrite"
        )
    try:
        changed = changed_file(path, saved["sha256"])
        if changed is not None or not saved["sha256"]:
            raise Damaged(f"{path / changed} is damaged" if changed else f"{path} names no files")
        tensors = {}
        for file in map(path.joinpath, saved["sha256"]):
            check_header(file)
            tensors[file.stem] = load_file(file)
        file = path
        return {name: _join(tensors.get(name, {}), rest) for name, rest in saved["parts"].items()}
    except UNREADABLE as error:
        raise Damaged(f"{file} is damaged ({reason_of(error)})") from error


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
