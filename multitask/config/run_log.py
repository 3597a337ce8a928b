# Tested by tests/config/test_run_directory.py
"""The lines of a run's log, read so that a damaged one is noticed."""

import json
from collections.abc import Iterable
from typing import Any

# for each event the keys that are read, besides "event" and "step"
EVENTS: dict[str, tuple[str, ...]] = {
    "plan": ("steps", "epochs"),
    "step": ("task", "loss"),
    "skip": ("task",),
    "eval": ("split", "tasks"),
    "stop": ("task",),
    "stage": ("stage",),
    "conflict": ("cosines",),
    "train_scores": ("tasks",),
    "space": ("tasks",),
    "importance": ("task",),
}
VALUES: dict[str, Any] = {
    "step": int,
    "steps": int,
    "epochs": int | float,
    "task": str,
    "loss": int | float | None,
    "split": str,
    "tasks": dict,
    "stage": str,
    "cosines": dict,
}


def parse_event(line: bytes) -> dict[str, Any] | None:
    """A line of the log; None for a damaged one."""
    try:
        event: dict[str, Any] = json.loads(line)
        values = {"step": event["step"]} | {key: event[key] for key in EVENTS[event["event"]]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    good = all(isinstance(value, VALUES[key]) for key, value in values.items())
    return event if good and event["step"] >= 0 else None


def stage_begins(events: Iterable[dict[str, Any]]) -> list[tuple[int, str]]:
    """Where a run's stages begin, after the first: the last step before each, and its name."""
    return [(event["step"], event["stage"]) for event in events if event["event"] == "stage"]
