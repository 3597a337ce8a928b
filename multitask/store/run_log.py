# Tested by tests/store/test_run_directory.py
"""Parse the lines of a run's log and of its predictions, and detect damaged ones."""

import json
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Any

from multitask.utils.errors import check_regular

# a line of the log, JSON from disk: its keys depend on "event"
Event = dict[str, Any]
NUMBER = int | float
# the keys that each of our events must have, in addition to "event" and "step"; callbacks of users
# write others
EVENTS: dict[str, dict[str, type | UnionType]] = {
    "plan": {"steps": int, "epochs": NUMBER},
    "step": {"task": str, "loss": NUMBER | None},
    "skip": {"task": str},
    "eval": {"split": str, "tasks": dict},
    "stop": {"task": str},
    "overflow": {"scale": NUMBER},
    "stage": {"stage": str},
    "conflict": {"cosines": dict},
    "train_scores": {"tasks": dict},
    "space": {"tasks": dict},
    "importance": {"task": str},
    "diverged": {"reason": str},
}


def parse_event(line: bytes) -> Event | None:
    """Return the event in a line of the log; None if the line is damaged."""
    try:
        event: Event = json.loads(line)
        values = {"event": str, "step": int, **EVENTS.get(event["event"], {})}
        good = all(isinstance(event[key], kind) for key, kind in values.items())
        return event if good and event["step"] >= 0 else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


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
