# Tested by tests/store/test_run_directory.py
"""Parse the lines of a run's log and of its predictions, and detect damaged ones."""

import json
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Any

from multitask.utils.errors import check_regular

# a line of the log, JSON from disk: its keys depend on "event"; `EVENTS` and `VALUES` say which
Event = dict[str, Any]
# the keys that each of our events must have, in addition to "event" and "step"; callbacks of users
# write others
EVENTS: dict[str, tuple[str, ...]] = {
    "plan": ("steps", "epochs"),
    "step": ("task", "loss"),
    "skip": ("task",),
    "eval": ("split", "tasks"),
    "stop": ("task",),
    "overflow": ("scale",),
    "stage": ("stage",),
    "conflict": ("cosines",),
    "train_scores": ("tasks",),
    "space": ("tasks",),
    "importance": ("task",),
    "diverged": ("reason",),
}
VALUES: dict[str, type | UnionType] = {
    "step": int,
    "steps": int,
    "epochs": int | float,
    "task": str,
    "loss": int | float | None,
    "scale": int | float,
    "split": str,
    "tasks": dict,
    "stage": str,
    "cosines": dict,
    "reason": str,
}


def parse_event(line: bytes) -> Event | None:
    """Return the event in a line of the log; None if the line is damaged."""
    try:
        event: Event = json.loads(line)
        name = event["event"]
        values = {"step": event["step"]} | {key: event[key] for key in EVENTS.get(name, ())}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    good = all(isinstance(value, VALUES[key]) for key, value in values.items())
    known = name in EVENTS or (isinstance(name, str) and not _flipped(name))
    return event if good and known and event["step"] >= 0 else None


def _flipped(name: str) -> bool:
    """Return True for a name of ``EVENTS`` with one other letter, as after a flipped bit."""
    alike = [known for known in EVENTS if len(known) == len(name)]
    return any(sum(map(str.__ne__, name, known)) == 1 for known in alike)


def stage_begins(events: Iterable[Event]) -> list[tuple[int, str]]:
    """Return the last step before each stage except the first, and the name of the stage."""
    return [(event["step"], event["stage"]) for event in events if event["event"] == "stage"]


def load_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file, with any keys.

    Raises ValueError if a line is not an object.
    """
    check_regular(path)
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("a line is no object")
    return records
