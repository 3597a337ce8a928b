"""The state file of a checkpoint: JSON with a checksum, the step and the run that it belongs to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multitask.store.files import read_json, text_digest
from multitask.utils.errors import UserError, reason_of

FORMAT = 5

# nested dicts of tensors and JSON values: each part of the trainer knows its own keys
State = dict[str, Any]


class Damaged(Exception):
    """A checkpoint is truncated, altered or incomplete; the message says where."""


def checksum(saved: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the JSON in ``state.json``, without the checksum itself."""
    rest = {key: value for key, value in saved.items() if key != "checksum"}
    return text_digest(json.dumps(rest))


def read_state(file: Path) -> State:
    """Read the state file of a checkpoint. Raises Damaged if it is missing or altered."""
    try:
        saved: State = read_json(file)
        intact = saved["checksum"] == checksum(saved)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError) as error:
        raise Damaged(f"{file} is damaged ({reason_of(error)})") from error
    if not intact:
        raise Damaged(f"{file} is damaged (its checksum is another one)")
    return saved


def is_foreign(file: Path, step: int, run: str | None) -> bool:
    """Return True for the intact state of another step or run: somebody has put a copy there.

    ``run`` is the identity of the run, or None.
    """
    try:
        saved = read_state(file)
    except Damaged:
        return False
    its_step = saved.get("parts", {}).get("progress", {}).get("step", step)
    return its_step != step or (None not in (run, saved.get("run")) and saved["run"] != run)
