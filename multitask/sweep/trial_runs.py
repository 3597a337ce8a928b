"""The runs of a search: a trial is a run directory, and what its log has so far."""

import math
from collections.abc import Mapping
from typing import Any

from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.sweep.search_space import SearchSpace
from multitask.sweep.sweep_directory import Run, SweepDirectory, train_arguments

EVAL = b'{"event": "eval"'  # how the line of an evaluation begins


def cell_of(number: int) -> str:
    """Return the name of a trial."""
    return f"trial-{number}"


def run_of(
    space: SearchSpace, directory: SweepDirectory, number: int, chosen: Mapping[str, Any]
) -> Run:
    """Return the run of a trial. Raises UserError for a combination that is not possible."""
    seed, cell = space.file.seed, cell_of(number)
    path = directory.run(cell, seed)
    config = space.config(chosen).model_copy(update={"seed": seed, "output_dir": str(path)})
    arguments = train_arguments(space.base, space.settings(chosen), seed, path)
    return Run(cell, seed, path, config, arguments)


def evaluations(run: RunDirectory) -> list[tuple[float | None, bool]]:
    """Return each evaluation on the holdout in the log of a run that may still train.

    That is the joint score, None if undefined, and True if the training goes on after it.
    """
    try:
        lines = run.metrics.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    plan = parse_event(lines[0]) if lines else None
    steps = plan["steps"] if plan and plan["event"] == "plan" else math.inf
    events = [parse_event(line) for line in lines if line.startswith(EVAL)]  # the last may be cut
    return [
        (event.get("joint"), event["step"] < steps)
        for event in events
        if event and event["split"] == "holdout"
    ]


def divergence(run: RunDirectory) -> str:
    """Return why a training run that diverged has ended; empty if it has not.

    Its log ends with that event; a resumed training removes it.
    """
    try:
        lines = run.metrics.read_bytes().splitlines()
    except FileNotFoundError:
        return ""
    last = parse_event(lines[-1]) if lines else None
    return str(last["reason"]) if last and last["event"] == "diverged" else ""
