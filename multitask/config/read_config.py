"""Load and validate a config from a YAML file, or from its values."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multitask.config.base import path_text
from multitask.config.between_tasks import check_references, inherit
from multitask.config.config import Config
from multitask.config.registry import resolve
from multitask.config.validation_error import parsed
from multitask.config.yaml_merge import FROM_PYTHON, Override, Overrides, Source, load_tree
from multitask.utils.errors import UserError, reading

# of a trial (`train --try`), so that a first result takes minutes
TRAIN_ROWS, SCORED_ROWS, EPOCHS = 300, 200, 4


def load_config(
    source: Source, overrides: Overrides | None = None, *, trial: bool = False
) -> Config:
    """Read, merge and validate a YAML file, or a dict of its keys and values.

    With ``trial`` the config is that of a trial (see ``trial_values``). Raises UserError for the
    first mistake, in one line: file, line, key path, what was expected.
    """
    with reading(FROM_PYTHON if isinstance(source, Mapping) else os.fspath(source)):
        config = _load_config(source, overrides)
        if trial:
            config = _load_config(source, [*trial_values(config), *(overrides or [])])
        return config


def listed_overrides(overrides: Any) -> list[str]:
    """Return overrides from Python as a list; None means none. Raises UserError for a string."""
    changes = overrides if isinstance(overrides, str | Mapping) else list(overrides or [])
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        shown = repr(changes)[:60] if isinstance(changes, list) else type(changes).__name__
        raise UserError(f'overrides: expected a list such as ["device=cpu"], not {shown}')
    return changes


def _load_config(source: Source, overrides: Overrides | None = None) -> Config:
    tree = load_tree(source, overrides)
    inherit(tree)
    config = parsed(tree, Config)
    config._tree = tree
    check_references(config)
    # `defaults` may set these: drop them from tasks that are never trained
    untrained = {name: task for name, task in config.tasks.items() if task.only_scored}
    nothing = {"smart": None, "r_drop": None}
    without = {name: task.model_copy(update=nothing) for name, task in untrained.items()}
    resolved: dict[str, object] = {"tasks": config.tasks | without}
    if not config.output_dir:
        name = "-".join(config.tasks) if isinstance(source, Mapping) else Path(source).stem
        with config.errors_at(("output_dir",)):
            ending = "-trial" if config.trial else ""
            resolved["output_dir"] = path_text(str(Path("runs") / f"{name}{ending}"))
    return config.model_copy(update=resolved)


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
    stages: Any = config.resolved()["stages"]
    if stages:  # each is as long as the longest task
        values["stages"] = [
            stage
            | {"epochs": min(EPOCHS, stage["epochs"] or EPOCHS)}
            | ({"epoch": "longest"} if isinstance(stage["epoch"], int) else {})
            for stage in stages
        ]
    for name, task in config.tasks.items():
        values[f"tasks.{name}.max_dev_rows"] = min(SCORED_ROWS, task.max_dev_rows or SCORED_ROWS)
        if not task.only_scored:
            host = task.data.same_rows_as or name
            rows = config.tasks[host].max_rows
            if not config.is_overridden(("tasks", host, "max_rows")):
                rows = min(TRAIN_ROWS, rows or TRAIN_ROWS)
            values[f"tasks.{name}.max_rows"] = rows
        factor = resolve("head", task.head.name).trial_rate
        if factor != 1 and task.share_head is None:
            rate = factor * (task.head_lr or config.training.head_lr)
            values[f"tasks.{name}.head_lr"] = rate
    return [
        Override(f"{key}={json.dumps(value)}", f"--try: {key}")
        for key, value in values.items()
        if not config.is_overridden(tuple(key.split(".")))
    ]
