"""A trial (`train --try`): few rows and epochs, so that a first result takes minutes."""

import json
from typing import Any

from multitask.config.config import Config
from multitask.config.registry import resolve
from multitask.config.yaml_merge import Override

TRAIN_ROWS, SCORED_ROWS, EPOCHS = 300, 200, 4


def trial_values(config: Config) -> list[Override]:
    """Return what a trial changes in a config, as overrides.

    A value that the user has given on the command line is left out. Put these overrides before
    those of the user.
    """
    values: dict[str, object] = {
        "trial": True,
        "training.epochs": EPOCHS,
        "training.eval_steps": None,  # half-way and at the end
        "training.frozen_baseline": False,
    }
    if isinstance(config.training.epoch, int):
        values["training.epoch"] = "longest"
    if config.training.select == "joint":
        values["training.select"] = "per_task"  # a trial asks whether each task learns
    if config.stages:
        stages: Any = config.resolved()["stages"]
        values["stages"] = [_short_stage(stage) for stage in stages]
    for name, task in config.tasks.items():
        values[f"tasks.{name}.max_dev_rows"] = min(SCORED_ROWS, task.max_dev_rows or SCORED_ROWS)
        if not task.only_scored:
            values[f"tasks.{name}.max_rows"] = _train_rows(config, task.data.same_rows_as or name)
        factor = resolve("head", task.head.name).trial_rate
        if factor != 1 and task.share_head is None:
            rate = factor * (task.head_lr or config.training.head_lr)
            values[f"tasks.{name}.head_lr"] = rate
    return [
        Override(f"{key}={json.dumps(value)}", f"--try: {key}")
        for key, value in values.items()
        if not config.is_overridden(tuple(key.split(".")))
    ]


def _short_stage(stage: dict[str, Any]) -> dict[str, Any]:
    """Return a stage of at most ``EPOCHS`` epochs, each as long as the longest task."""
    changes: dict[str, Any] = {"epochs": min(EPOCHS, stage["epochs"] or EPOCHS)}
    if isinstance(stage["epoch"], int):
        changes["epoch"] = "longest"
    return stage | changes


def _train_rows(config: Config, task: str) -> int | None:
    """Return the number of training rows of a task, as the command line or the trial sets it."""
    rows = config.tasks[task].max_rows
    given = config.is_overridden(("tasks", task, "max_rows"))
    return rows if given else min(TRAIN_ROWS, rows or TRAIN_ROWS)
