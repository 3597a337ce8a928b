"""Tasks that share the rows, pooling or head of another task: fill in and check their keys."""

from collections.abc import Mapping
from typing import Any

from multitask.config.config import Config
from multitask.config.data_config import DataConfig
from multitask.config.task_config import TaskConfig
from multitask.config.yaml_merge import Tree
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import suggest

# keys of `data` that a task sets itself even if it uses the rows of another task
NOT_SHARED_WITH_ROWS = (
    "label",
    "labels",
    "label_separator",
    "padding_label",
    "label_vectors",
    "tag_scheme",
    "label_range",
    "unlabelled",
    "same_rows_as",
)
# keys that a task takes from the task whose pooling, or head, it shares
SHARED_WITH_POOLING = ("adapter", "pooling", "eval_pooling", "projection")
SHARED_WITH_HEAD = ("input", *SHARED_WITH_POOLING, "head", "dropout")


def inherit(tree: Tree) -> None:
    """Copy keys into each task from the task whose rows, pooling or head it shares."""
    tasks = tree.value.get("tasks")
    for name, task in tasks.items() if isinstance(tasks, dict) else ():
        if not isinstance(task, dict):
            continue
        others = tuple(other for other in tasks if other != name)
        data: Any = task.get("data")
        hosts = []
        for key, other in (
            ("data.same_rows_as", data.get("same_rows_as") if isinstance(data, dict) else None),
            ("share_head", task.get("share_head")),
            ("share_pooling", task.get("share_pooling")),
        ):
            if isinstance(other, str) and other not in others:
                path = ("tasks", name, *key.split("."))
                raise tree.error(path, f"expected another task{suggest(other, others)}")
            host = tasks[other] if isinstance(other, str) else None  # another type: checked later
            hosts.append(host if isinstance(host, dict) else {})
        rows, owner, pools = hosts
        if isinstance(data, dict) and isinstance(rows.get("data"), dict):
            shared = rows["data"].items()
            task["data"] = {k: v for k, v in shared if k not in NOT_SHARED_WITH_ROWS} | data
            _fill(task, rows, ("input", "max_length"))
        _fill(task, pools, SHARED_WITH_POOLING)
        _fill(task, owner, SHARED_WITH_HEAD)
        data, labels = task.get("data"), owner.get("data")
        unset = isinstance(data, dict) and not {"labels", "label_range"} & set(data)
        if unset and isinstance(labels, dict):
            _fill(data, labels, ("labels", "label_range"))


def _fill(into: dict[str, object], origin: Mapping[str, object], keys: tuple[str, ...]) -> None:
    into.update({key: origin[key] for key in keys if key in origin and key not in into})


def share_rows(config: Config, name: str) -> None:
    """Raise UserError if the task does not fit the task whose rows it uses."""
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "data", "same_rows_as")
    host = config.tasks[task.data.same_rows_as or ""]
    if host.data.same_rows_as is not None:
        raise config.error(path, f"name the task with the rows: {host.data.same_rows_as!r}")
    if host.only_scored:
        raise config.error(path, f"{task.data.same_rows_as} has no training rows: name another")
    for key in ("input", "max_length"):
        if getattr(task, key) != getattr(host, key):
            raise config.error(("tasks", name, key), f"must be as in {task.data.same_rows_as!r}")
    for key in ("batch_size", "accumulation", "batch_tokens", "max_rows"):
        unset = TaskConfig.model_fields[key].default  # a saved config has it
        differs = getattr(task, key) not in (getattr(host, key), unset)
        if differs and not config.is_default(("tasks", name, key)):
            message = f"goes by the rows, which are those of {task.data.same_rows_as!r}: leave this"
            raise config.error(("tasks", name, key), f"{message} to that task")
    for key in DataConfig.model_fields:
        if key not in NOT_SHARED_WITH_ROWS and getattr(task.data, key) != getattr(host.data, key):
            message = f"the rows are those of {task.data.same_rows_as!r}: leave this to that task"
            raise config.error((*path[:-1], key), message)


def share_head(config: Config, name: str) -> None:
    """Raise UserError if the task does not fit the task whose head it uses."""
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "share_head")
    owner = config.tasks[task.share_head or ""]
    if owner.share_head is not None:
        raise config.error(path, f"name the task that owns the head: {owner.share_head!r}")
    if task.only_scored and task.data.dev is None and task.data.test is None:
        message = "the task has no rows at all: name `train`, `dev` or `test`"
        raise config.error(("tasks", name, "data"), message)
    for key in SHARED_WITH_HEAD:
        if getattr(task, key) != getattr(owner, key):
            raise config.error(("tasks", name, key), f"must be as in {task.share_head!r}")
    differs = task.head_lr not in (owner.head_lr, None)  # a saved config has the null
    if differs and not config.is_default(("tasks", name, "head_lr")):
        raise config.error(("tasks", name, "head_lr"), f"must be as in {task.share_head!r}")


def share_pooling(config: Config, name: str) -> None:
    """Raise UserError if the task does not fit the task whose pooling it uses."""
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "share_pooling")
    owner = config.tasks[task.share_pooling or ""]
    if owner.share_pooling or owner.share_head or task.share_head:
        message = "name a task that shares no pooling and no head, and leave out `share_head`"
        raise config.error(path, message)
    for key in SHARED_WITH_POOLING:
        if getattr(task, key) != getattr(owner, key):
            raise config.error(("tasks", name, key), f"must be as in {task.share_pooling!r}")
