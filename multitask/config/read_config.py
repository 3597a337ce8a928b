"""Load and validate a config from a YAML file, or from its values."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from multitask.config.checks import check_names, check_references
from multitask.config.config import Config
from multitask.config.sharing import inherit
from multitask.config.trial import trial_values
from multitask.config.validation_error import explain
from multitask.config.yaml_merge import FROM_PYTHON, Overrides, Source, Tree, load_tree
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError, reading
from multitask.utils.names import EMBEDDED
from multitask.utils.paths import check_utf8, expand_home


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
    changes = [] if overrides is None else overrides
    if not isinstance(changes, str | Mapping) and isinstance(changes, Iterable):
        changes = list(changes)
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        message = 'overrides: expected a list such as ["device=cpu"]'
        shown = repr(changes)[:60] if isinstance(changes, list) else type(changes).__name__
        raise UserError(f"{message}, not {shown}")
    return changes


def _load_config(source: Source, overrides: Overrides | None = None) -> Config:
    tree = load_tree(source, overrides)
    _expand_paths(tree)
    inherit(tree)
    try:
        config = Config.model_validate(tree.value)
    except ValidationError as error:
        raise explain(error, tree, Config) from error
    config._tree = tree
    check_names(config)
    check_references(config)
    # `defaults` may set SMART: drop it from tasks that are never trained
    untrained = {name: task for name, task in config.tasks.items() if task.only_scored}
    without = {name: task.model_copy(update={"smart": None}) for name, task in untrained.items()}
    resolved: dict[str, object] = {"tasks": config.tasks | without}
    if config.data_dir != EMBEDDED:
        resolved["data_dir"] = _absolute(config, ("data_dir",), config.data_dir)
    if config.init_from is not None:
        run = _absolute(config, ("init_from", "run"), config.init_from.run)
        resolved["init_from"] = config.init_from.model_copy(update={"run": run})
        for option in ("reinit_layers", "from_scratch"):
            if getattr(config.encoder, option):
                message = "`init_from` brings the weights of all layers: leave one of the two out"
                raise config.error(("encoder", option), message)
    if not config.output_dir:
        name = "-".join(config.tasks) if isinstance(source, Mapping) else Path(source).stem
        ending = "-trial" if config.trial else ""
        output_dir = str(Path("runs") / f"{name}{ending}")
        with config.errors_at(("output_dir",)):
            check_utf8(output_dir)
        resolved["output_dir"] = output_dir
    return config.model_copy(update=resolved)


def _absolute(config: Config, key: KeyPath, path: str) -> str:
    """Return the absolute path of a key's value. Raises UserError if it is not UTF-8."""
    absolute = str(Path(path).absolute())
    with config.errors_at(key):
        check_utf8(absolute)  # the working directory may not be
    return absolute


# the keys whose value may be a path: in a task, and outside of the tasks
TASK_PATHS = (*(("data", key) for key in ("path", "train", "dev", "test")), ("head", "generator"))
PATHS = (("data_dir",), ("output_dir",), ("encoder", "name"), ("init_from",), ("init_from", "run"))


def _expand_paths(tree: Tree) -> None:
    """Replace a ``~`` at the beginning of a path by the home directory.

    Raises UserError if the home directory is unknown or a path has the character NUL.
    """
    tasks = tree.value.get("tasks")
    names = tasks if isinstance(tasks, dict) else ()
    below: list[KeyPath] = [("tasks", name, *path) for name in names for path in TASK_PATHS]
    for path in (*PATHS, *below):
        parent: Any = tree.value
        for key in path[:-1]:
            parent = parent.get(key) if isinstance(parent, dict) else None
        name = parent.get(path[-1]) if isinstance(parent, dict) else None
        if not isinstance(name, str):
            continue
        if "\0" in name:
            raise tree.error(path, "a path cannot hold the character NUL")
        if name.startswith("~"):
            try:
                parent[path[-1]] = str(expand_home(name))
                check_utf8(parent[path[-1]])
            except UserError as error:
                raise tree.error(path, str(error)) from None
