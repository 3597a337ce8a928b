"""The files of a checkpoint without its tensors: their names, and JSON with its own checksum.

A checkpoint is a directory ``step-NNNNNNNN``. ``state.json`` has the values of each part of the run
that are not tensors, and the SHA-256 of the other files; ``PART.safetensors`` has a part's tensors.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multitask.store.files import read_json, text_digest, write_text
from multitask.utils.errors import UserError, reason_of

FORMAT = 6

# nested dicts of tensors and JSON values: each part of the trainer knows its own keys
State = dict[str, Any]


class Damaged(Exception):
    """A file is truncated, altered or missing; the message says which one."""


def step_of(checkpoint: Path) -> int:
    """Return the step in the name of a checkpoint."""
    return int(checkpoint.name.removeprefix("step-"))


def tensors_of(checkpoint: Path, part: str) -> Path:
    """Return the file of a checkpoint with the tensors of one part of the run."""
    return checkpoint / f"{part}.safetensors"


def write_state(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Write the state file of a checkpoint."""
    write_sealed(checkpoint / "state.json", {"format": FORMAT, **state})


def read_state(checkpoint: Path, run: str | None) -> State:
    """Read the state file of a checkpoint of ``run``, the identity of a run.

    Raises:
        Damaged: something is missing or altered, or somebody copied it from another step or run.
        UserError: another version of this program wrote it.
    """
    state = read_sealed(checkpoint / "state.json")
    if (number := state.get("format")) != FORMAT:
        raise UserError(
            f"{checkpoint} was written by another version of this program (format {number}, not "
            f"{FORMAT}): finish the run with that version, or start again with --overwrite"
        )
    if state["run"] != run or state["step"] != step_of(checkpoint):
        raise Damaged(f"{checkpoint} is of another run or step")
    return state


def write_sealed(file: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object with its checksum."""
    write_text(file, json.dumps({**values, "checksum": text_digest(json.dumps(values))}))


def read_sealed(file: Path) -> State:
    """Return what ``write_sealed`` has written. Raises Damaged if it is missing or altered."""
    try:
        values: State = read_json(file)
        if values.pop("checksum") != text_digest(json.dumps(values)):
            raise ValueError("its checksum is another one")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError) as error:
        raise Damaged(f"{file} is damaged ({reason_of(error)})") from error
    return values
