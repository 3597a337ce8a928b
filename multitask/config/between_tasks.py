"""Keys of a config that name tasks: what a task takes from another one, and what is refused."""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from multitask.config.config import Config
from multitask.config.data_config import DataConfig
from multitask.config.task_config import TaskConfig
from multitask.config.yaml_merge import Tree
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError, suggest
from multitask.utils.paths import file_key

# keys of `data` that a task sets itself even if it uses the rows of another task
NOT_SHARED_WITH_ROWS = frozenset(
    "label labels label_separator padding_label label_vectors tag_scheme label_range unlabelled "
    "same_rows_as".split()
)
ROWS, POOLING, HEAD = ("data", "same_rows_as"), ("share_pooling",), ("share_head",)
# the keys that are taken from the task that each of these names
OF_POOLING = ("adapter", "pooling", "eval_pooling", "projection")
TAKEN: dict[tuple[str, ...], tuple[str, ...]] = {
    ROWS: ("input", "max_length"),
    POOLING: OF_POOLING,
    HEAD: ("input", *OF_POOLING, "head", "dropout"),
}
# the keys that have no effect, as they go by the rows or the head of the other task
DECIDED: dict[tuple[str, ...], tuple[str, ...]] = {
    ROWS: ("batch_size", "accumulation", "batch_tokens", "max_rows"),
    POOLING: (),
    HEAD: ("head_lr",),
}


def inherit(tree: Tree) -> None:
    """Copy keys into each task from the task whose rows, pooling or head it shares."""
    tasks = tree.value.get("tasks")
    for name, task in tasks.items() if isinstance(tasks, dict) else ():
        if not isinstance(task, dict):
            continue
        others = tuple(other for other in tasks if other != name)
        for path, keys in TAKEN.items():
            parent: Any = task.get("data") if len(path) > 1 else task
            other = parent.get(path[-1]) if isinstance(parent, dict) else None
            if not isinstance(other, str):  # unset, or another type, which is refused later
                continue
            if other not in others:
                message = f"expected another task{suggest(other, others)}"
                raise tree.error(("tasks", name, *path), message)
            host = tasks[other] if isinstance(tasks[other], dict) else {}
            shared, data = host.get("data"), task.get("data")
            _fill(task, host, keys)
            if not isinstance(data, dict) or not isinstance(shared, dict):
                continue
            if path == ROWS:
                _fill(data, shared, [key for key in shared if key not in NOT_SHARED_WITH_ROWS])
            elif path == HEAD and not {"labels", "label_range"} & set(data):
                _fill(data, shared, ("labels", "label_range"))


def _fill(into: dict[str, Any], origin: Mapping[str, Any], keys: Iterable[str]) -> None:
    into.update({key: origin[key] for key in keys if key in origin and key not in into})


def check_references(config: Config) -> None:
    """Raise UserError for the first key that names no task, or does not go with another task's."""
    for path, message in _problems(config):
        raise config.error(path, message)


def _problems(config: Config) -> Iterator[tuple[KeyPath, str]]:
    tasks, training, stages = config.tasks, config.training, config.stages or []
    if all(task.evaluate_only for task in tasks.values()):
        yield ("tasks", next(iter(tasks)), "evaluate_only"), "no task is left to train"
    yield from _files_of_two_tasks(config)
    for name in tasks:
        for path, message in _sharing(config, name):
            yield ("tasks", name, *path), message
    trained = [name for name, task in tasks.items() if not task.only_scored]
    with_rows = [name for name in trained if not tasks[name].data.texts_of]
    for name, task in tasks.items():
        for place, source in enumerate(task.data.texts_of or []):
            if source not in with_rows:
                message = f"expected a task that reads training rows{suggest(source, with_rows)}"
                yield ("tasks", name, "data", "texts_of", place), message
    epochs: list[tuple[KeyPath, str | int | None]] = [(("training", "epoch"), training.epoch)]
    for number, stage in enumerate(stages):
        epochs.append((("stages", number, "epoch"), stage.epoch))
        for place, source in enumerate(stage.tasks or []):
            if source not in trained:
                message = f"expected a task that trains{suggest(source, trained)}"
                yield ("stages", number, "tasks", place), message
    for path, epoch in epochs:
        names = ["longest", *trained]
        if isinstance(epoch, str) and epoch not in names:
            yield path, f"expected longest, a task or a number of steps{suggest(epoch, names)}"
    scored = [n for n, t in tasks.items() if t.evaluate_only and not training.holdout]
    names = ["joint", "per_task", "last", *trained, *scored]
    if training.select not in names:
        message = "expected joint, per_task, last or a task that is evaluated during training"
        if training.select in tasks and training.holdout:
            message += ", on rows of the holdout"
        yield ("training", "select"), message + suggest(training.select, names)
    schedules: list[str] = [stage.schedule or training.schedule for stage in stages]
    powers: list[tuple[KeyPath, float | None, list[str]]] = [
        (("stages", number), stage.schedule_power, [schedules[number]])
        for number, stage in enumerate(stages)
    ]
    powers.append((("training",), training.schedule_power, schedules or [training.schedule]))
    for path, power, used in powers:
        if power not in (None, 1) and "polynomial" not in used:
            message = f"a {used[0]} schedule has no power: set `schedule: polynomial`"
            yield (*path, "schedule_power"), message
    for option in ("reinit_layers", "from_scratch"):
        if config.init_from is not None and getattr(config.encoder, option):
            message = "`init_from` brings the weights of all layers: leave one of the two out"
            yield ("encoder", option), message


def _files_of_two_tasks(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Yield the tasks that would write the same file, on a disk that ignores case or Unicode."""
    writers: dict[str, tuple[str, str]] = {}
    for name, task in config.tasks.items():
        files: dict[KeyPath, str] = {(): f"{name}-dev"}
        if task.course_file is not None:
            files["course_file", "name"] = f"{task.course_file.name}-dev-output.csv"
        if task.glue_file is not None:
            files["glue_file",] = f"{task.glue_file}.tsv"
        for path, file in files.items():
            other, its = writers.setdefault(file_key(file), (name, file))
            if other != name:
                message = f"{other} and {name} would write one file, {its!a} and {file!a}"
                yield ("tasks", name, *path), f"{message}: rename one"


def _sharing(config: Config, name: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield what does not go with the tasks whose rows, pooling or head a task shares."""
    task, tasks = config.tasks[name], config.tasks
    for path, keys in TAKEN.items():
        other: Any = reduce(getattr, path, task)
        if other is None:
            continue
        host = tasks[other]
        if host.evaluate_only or (path == ROWS and host.only_scored):
            yield path, f"{other!r} has no training rows: name a task that trains"
        if (theirs := reduce(getattr, path, host)) is not None:
            yield path, f"{other} shares with {theirs!r}: name that task"
        if path == POOLING and (host.share_head or task.share_head):
            yield path, "leave out `share_head`, and name a task without it"
        for key in keys:
            if getattr(task, key) != getattr(host, key):
                yield (key,), f"must be as in {other!r}"
        for key in DECIDED[path]:
            unset = TaskConfig.model_fields[key].default  # a saved config has it
            differs = getattr(task, key) not in (getattr(host, key), unset)
            if differs and not config.is_default(("tasks", name, key)):
                yield (key,), f"must be as in {other!r}, which decides it: leave it out"
        for key in DataConfig.model_fields if path == ROWS else ():
            same = getattr(task.data, key) == getattr(host.data, key)
            if key not in NOT_SHARED_WITH_ROWS and not same:
                yield ("data", key), f"must be as in {other!r}, whose rows these are: leave it out"
    for key in ("smart", "r_drop", "distill"):  # `defaults` may set it
        if getattr(task, key) and task.only_scored and not config.is_default(("tasks", name, key)):
            yield (key,), "the task is only scored, never trained: leave this out"
    if task.only_scored:
        return
    if task.smart and task.r_drop:
        yield ("r_drop",), "the task has `smart` too, whose `dropout: independent` is much the same"
    if task.smart and task.smart.dropout == "eval" and config.encoder.gradient_checkpointing:
        message = "layers are computed again with dropout: not with gradient_checkpointing"
        yield ("smart", "dropout"), message


def chosen_task(run: Path, config: Config, task: str | None) -> str:
    """Return the task that the user names, or that of a run with one. Raises UserError for none."""
    known = list(config.tasks)
    if task is None and len(known) > 1:
        raise UserError(f"{run}: name the task by --task: one of {', '.join(known)}")
    if task is not None and task not in known:
        raise UserError(f"{run}: no task {task!r}{suggest(task, known)}")
    return task or known[0]
