"""Checks that need the complete config: names of methods and references to other tasks."""

from collections.abc import Sequence
from pathlib import Path

from multitask.config.base import Choice
from multitask.config.config import Config
from multitask.config.registry import check_name, check_tracker
from multitask.config.sharing import share_head, share_pooling, share_rows
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError, suggest
from multitask.utils.limits import TASK_NAME
from multitask.utils.paths import file_key


def check_names(config: Config) -> None:
    """Raise UserError if a method is unknown or two tasks would write the same file."""
    choices: list[tuple[KeyPath, str, Choice | None]] = [
        (("training", kind), kind, getattr(config.training, kind))
        for kind in ("sampler", "gradient_surgery")
    ]
    stages = enumerate(config.stages or [])
    choices += [(("stages", n, "sampler"), "sampler", stage.sampler) for n, stage in stages]
    names: dict[str, str] = {}
    for name, task in config.tasks.items():
        if not name.isidentifier():
            raise config.error(("tasks", name), "a task's name must be letters, digits and '_'")
        if (other := names.setdefault(file_key(name), name)) != name:
            both = " and ".join(n if n.isascii() else f"{n} ({n!a})" for n in (other, name))
            message = "differ only in case or Unicode form, and name files: rename one"
            raise config.error(("tasks", name), f"{both} {message}")
        if len(name.encode()) > TASK_NAME:
            message = f"longer than {TASK_NAME} bytes: file names have it"
            raise config.error(("tasks", name), message)
        for key in ("adapter", "pooling", "projection", "head", "eval_pooling"):
            kind = key.removeprefix("eval_")
            choices.append((("tasks", name, key), kind, getattr(task, key)))
    writers: dict[str, tuple[str, str]] = {}
    for name, task in config.tasks.items():
        course = task.course_file and f"{task.course_file.name}-dev-output.csv"
        glue = task.glue_file and f"{task.glue_file}.tsv"
        for keys, file in ((("course_file", "name"), course), (("glue_file",), glue)):
            if file:
                other, its = writers.setdefault(file_key(file), (name, file))
                if other != name:
                    message = f"{other} and {name} would both write {file}"
                    if its != file:
                        message += f", which some disks take for {its}"
                    raise config.error(("tasks", name, *keys), message)
    for path, kind, choice in choices:
        if choice is not None:
            with config.errors_at(path):
                check_name(kind, choice.name)
    for number, tracker in enumerate(config.training.trackers):
        with config.errors_at(("training", "trackers", number)):
            check_tracker(tracker)


def check_references(config: Config) -> None:
    """Raise UserError if a key names a task that does not exist or does not fit."""
    tasks = tuple(name for name in config.tasks if not config.tasks[name].evaluate_only)
    _check_evaluate_only(config, tasks)
    for name, task in config.tasks.items():
        if task.data.same_rows_as is not None:
            share_rows(config, name)
        if task.share_head is not None:
            share_head(config, name)
        if task.smart and task.only_scored:  # `defaults` may set it
            if not config.is_default(("tasks", name, "smart")):
                message = "the task is only scored, never trained: leave this out"
                raise config.error(("tasks", name, "smart"), message)
        elif task.smart and task.smart.dropout == "eval" and config.encoder.gradient_checkpointing:
            message = "layers are computed again with dropout: not with gradient_checkpointing"
            raise config.error(("tasks", name, "smart", "dropout"), message)
        if task.share_pooling is not None:
            share_pooling(config, name)
        _check_sources(config, name)
    lengths: list[tuple[KeyPath, str | int | None]] = [
        (("training", "epoch"), config.training.epoch)
    ]
    for number, stage in enumerate(config.stages or []):
        lengths.append((("stages", number, "epoch"), stage.epoch))
        for place, task_name in enumerate(stage.tasks or []):
            if task_name not in tasks:
                where = ("stages", number, "tasks", place)
                raise config.error(where, f"no task {task_name!r}{suggest(task_name, tasks)}")
            if config.tasks[task_name].only_scored:
                message = f"{task_name} has no `data.train`: it is only scored"
                raise config.error(("stages", number, "tasks", place), message)
    _check_schedule_power(config)
    select = config.training.select
    if select not in ("joint", "per_task", *config.tasks):
        hint = suggest(select, ("joint", "per_task", *config.tasks))
        raise config.error(("training", "select"), f"expected joint, per_task or a task{hint}")
    if select in tasks and config.tasks[select].only_scored:
        message = f"{select} has no `data.train` and is scored at the end only: name another task"
        raise config.error(("training", "select"), message)
    if config.training.holdout and select in config.tasks and config.tasks[select].evaluate_only:
        message = f"{select} has no rows but dev to select by: select by a task that trains"
        raise config.error(("training", "select"), message + ", or leave out `training.holdout`")
    for path, value in lengths:
        if isinstance(value, str) and value != "longest" and value not in tasks:
            hint = suggest(value, ("longest", *tasks))
            raise config.error(path, f"expected longest, a task or a number of steps{hint}")


def _check_schedule_power(config: Config) -> None:
    """Raise UserError for a power without effect: only a polynomial schedule has one."""
    training, stages = config.training, config.stages or []
    schedules = [stage.schedule or training.schedule for stage in stages] or [training.schedule]
    powers: list[tuple[KeyPath, float | None, Sequence[str]]] = [
        (("stages", number, "schedule_power"), stage.schedule_power, [schedules[number]])
        for number, stage in enumerate(stages)
    ]
    powers.append((("training", "schedule_power"), training.schedule_power, schedules))
    for path, power, used in powers:
        if power not in (None, 1) and "polynomial" not in used:
            schedule = used[0] if path[0] == "stages" else training.schedule
            message = f"a {schedule} schedule has no power: set `schedule: polynomial`"
            if path[0] == "training" and stages and all(stage.schedule for stage in stages):
                message = "no stage has a polynomial schedule: set it in one, or leave this out"
            raise config.error(path, message)


def _check_sources(config: Config, name: str) -> None:
    """Raise UserError if a task in ``texts_of`` has no training rows."""
    others = tuple(n for n, t in config.tasks.items() if not (t.data.texts_of or t.only_scored))
    for place, source in enumerate(config.tasks[name].data.texts_of or []):
        if source not in others:
            message = f"expected a task that reads training rows{suggest(source, others)}"
            raise config.error(("tasks", name, "data", "texts_of", place), message)


def _check_evaluate_only(config: Config, trained: tuple[str, ...]) -> None:
    """Check the tasks with ``evaluate_only``, and the tasks that name one.

    Raises UserError if such a task lacks dev rows or a task to share with, or has training keys.
    """
    if not trained:
        first = next(iter(config.tasks))
        raise config.error(("tasks", first, "evaluate_only"), "no task is left to train")
    for name, task in config.tasks.items():
        hosts: dict[KeyPath, str | None] = {
            ("data", "same_rows_as"): task.data.same_rows_as,
            ("share_head",): task.share_head,
            ("share_pooling",): task.share_pooling,
        }
        for path, other in hosts.items():
            if other is not None and other not in trained:
                message = f"{other!r} is only evaluated: name a task that trains"
                raise config.error(("tasks", name, *path), message)
        if not task.evaluate_only:
            continue
        if task.share_head is None and task.share_pooling is None:
            message = "name the task whose vectors are scored: `share_head` or `share_pooling`"
            raise config.error(("tasks", name, "evaluate_only"), message)
        if task.data.dev is None:
            message = "the task is only evaluated (`evaluate_only`): name the rows"
            raise config.error(("tasks", name, "data", "dev"), message)
        for key in ("train", "same_rows_as", "texts_of"):
            if getattr(task.data, key) is not None:
                message = "the task is only evaluated (`evaluate_only`): leave this out"
                raise config.error(("tasks", name, "data", key), message)


def check_task(run: Path, config: Config, task: str) -> None:
    """Raise UserError unless the run has the task."""
    if task not in config.tasks:
        raise UserError(f"{run}: no task {task!r}{suggest(task, list(config.tasks))}")
