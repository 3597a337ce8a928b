"""The stages of a training run: planned before it starts, and its progress through them."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from multitask.config import Config, KeyPath, StageConfig, TrainingConfig
from multitask.config.registry import build
from multitask.data.dataloader import TrainRows
from multitask.data.task_sampler import Sizes
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.base import RowLabels, TaskType
from multitask.training.optimizer import build_optimizer, build_scheduler
from multitask.training.step import Stepped
from multitask.utils import distributed
from multitask.utils.errors import suggest


@dataclass
class Stage:
    """One stage of the training.

    Attributes:
        name: the name in the config, else the stage's number.
        tasks: the tasks that train in it, in order.
        frozen: the names of the model's parts that are not trained.
        settings: the section ``training``, with the changes of this stage.
        head_lrs: the learning rate of each task's modules above the encoder.
        adapter_lrs: the learning rate of each task's adapter; tasks without one are left out.
        sampler: decides whose turn it is, among the streams with a task in this stage.
        steps: planned optimizer steps.
    """

    name: str
    tasks: list[str]
    frozen: frozenset[str]
    settings: TrainingConfig
    head_lrs: dict[str, float]
    adapter_lrs: dict[str, float]
    sampler: Any
    steps: int

    def begin(self, model: MultiTaskModel) -> tuple[torch.optim.Optimizer, LambdaLR]:
        """Freeze and unfreeze the model's parts; return a new optimizer and a new schedule."""
        model.freeze(self.frozen)
        optimizer = build_optimizer(model, self.settings, self.head_lrs, self.adapter_lrs)
        return optimizer, build_scheduler(optimizer, self.settings, self.steps)


def plan_stages(
    config: Config, model: MultiTaskModel, loaders: Mapping[str, TrainRows]
) -> list[Stage]:
    """Plan the stages of a config; ``training.max_steps`` bounds the sum of their steps.

    Raises UserError if a frozen part does not exist, a stage has nothing to train, or the sampler,
    gradient surgery or ``conflict_steps`` do not fit the tasks.
    """
    planned = []
    for number, entry in enumerate(config.stages or [StageConfig.model_validate({})]):
        path: KeyPath = ("stages", number) if config.stages else ("training",)
        entry = entry.model_copy(update={"name": entry.name or str(number + 1)})
        planned.append(_plan_stage(config, entry, model, loaders, path=path))
    _check_surgery(config, model, loaders, planned)
    left = config.training.max_steps
    stages = []
    for stage in planned:
        if left is not None:
            stage.steps = min(stage.steps, left)
            left -= stage.steps
        if stage.steps:
            stages.append(stage)
    return stages


def trained_parameters(model: MultiTaskModel, stages: Sequence[Stage]) -> int:
    """Count the parameters that at least one stage trains, in the encoder and its tasks."""
    moved: set[str] = set()
    for stage in stages:
        moved |= encoder_parts(model).union(*map(model.owned, stage.tasks)) - stage.frozen
    parts = model.parts()
    return sum(parameter.numel() for part in moved for parameter in parts[part])


def _plan_stage(
    config: Config,
    entry: StageConfig,
    model: MultiTaskModel,
    loaders: Mapping[str, TrainRows],
    *,
    path: KeyPath,
) -> Stage:
    """Plan the stage that ``path`` of the config describes."""
    keys = TrainingConfig.model_fields
    changed = {key: value for key, value in entry if value is not None and key in keys}
    settings = config.training.model_copy(update={"max_steps": None, **changed})
    frozen = _frozen(config, entry, path, model)
    tasks = _trained_tasks(config, entry, model, frozen)
    used = {n: loader for n, loader in loaders.items() if set(loader.labels) & set(tasks)}
    if not used:
        where = path if config.stages else ("encoder", "freeze")
        message = "nothing to train: all its parts are frozen or without parameters"
        raise config.error(where, message)
    sampler = _sampler(config, settings, used, path)
    if sampler.needs_scores:
        _check_scores(config, loaders, tasks, path)

    def rate(task: str, key: str) -> float:
        of_task = getattr(entry, key) or getattr(config.tasks[task], key)
        return of_task or getattr(settings, key) or settings.lr

    adapted = [task for task in tasks if model.adapter(task) is not None]
    steps = settings.epochs * sampler.steps_per_epoch
    return Stage(
        name=str(entry.name),
        tasks=tasks,
        frozen=frozen,
        settings=settings,
        head_lrs={task: rate(task, "head_lr") for task in tasks},
        adapter_lrs={task: rate(task, "adapter_lr") for task in adapted},
        sampler=sampler,
        steps=min(steps, settings.max_steps or steps),
    )


def _trained_tasks(
    config: Config, entry: StageConfig, model: MultiTaskModel, frozen: frozenset[str]
) -> list[str]:
    """Return the tasks of a stage with a part to train, in the order of the config."""
    parts = model.parts()
    movable = {name for name in parts if name not in frozen and parts[name]}
    return [
        task
        for task, settings in config.tasks.items()
        if (not entry.tasks or task in entry.tasks)
        and movable & (encoder_parts(model) | model.owned(task))
        and not settings.only_scored
    ]


def _sampler(
    config: Config, settings: TrainingConfig, loaders: Mapping[str, TrainRows], path: KeyPath
) -> Any:
    """Build the sampler that decides whose turn it is."""
    lengths = ("longest", *loaders)
    if isinstance(settings.epoch, str) and settings.epoch not in lengths:
        message = f"{settings.epoch!r} has no turns here{suggest(settings.epoch, lengths)}"
        raise config.error((*path, "epoch"), message)
    joint = settings.combine == "joint"
    if joint and settings.sampler.name != "round_robin":
        message = "joint takes a batch of every task in each step: it needs `sampler: round_robin`"
        raise config.error((*path, "combine"), message)
    counts = {name: config.tasks[name].accumulation for name in loaders} if joint else {}
    for name, count in counts.items():
        first = next(iter(counts))
        if count != counts[first]:
            message = f"joint needs the same accumulation for all: {first} has {counts[first]}"
            raise config.error(("tasks", name, "accumulation"), message)
    rows = {name: len(loader.tokens) for name, loader in loaders.items()}
    steps = {name: loader.stream.steps_per_pass for name, loader in loaders.items()}
    sizes = Sizes(rows, steps, settings.epochs, settings.epoch, config.seed)
    choice = settings.sampler
    with config.errors_at((*path, "sampler")):
        return build("sampler", choice.name, choice.options, {"sizes": sizes, "joint": joint})


def _check_scores(
    config: Config, loaders: Mapping[str, TrainRows], tasks: Sequence[str], path: KeyPath
) -> None:
    """Raise UserError if a task has no training score: the sampler needs one."""
    kinds = _task_types(loaders)
    for task in tasks:
        if not isinstance(kinds[task], RowLabels):
            message = f"{task} has no training score, a metric of rows: name another `oversample`"
            raise config.error((*path, "sampler"), message)


def _frozen(
    config: Config, entry: StageConfig, path: KeyPath, model: MultiTaskModel
) -> frozenset[str]:
    """Resolve the names in ``freeze`` to parts of the model."""
    encoder, heads = encoder_parts(model), set(model.tasks)
    adapters = set(model.parts()) - encoder - heads
    groups = {"encoder": encoder, "heads": heads, "adapters": adapters}
    groups |= {part: {part} for part in sorted(encoder | adapters)}
    groups |= {task: model.owned(task) for task in config.tasks}
    freeze = config.encoder.freeze
    frozen: set[str] = encoder if freeze is True else set()
    lists: list[tuple[KeyPath, list[str]]] = [((*path, "freeze"), entry.freeze)]
    if isinstance(freeze, list):
        lists.append((("encoder", "freeze"), freeze))
    for where, names in lists:
        for place, name in enumerate(names):
            if name not in groups:
                hint = suggest(name, tuple(groups))
                raise config.error((*where, place), f"no part {name!r}{hint}")
            frozen = frozen | groups[name]
    return frozenset(frozen)


def encoder_parts(model: MultiTaskModel) -> set[str]:
    """Return the parts that all tasks share."""
    return set(model.parts()).difference(*(model.owned(task) for task in model.tasks))


def _task_types(loaders: Mapping[str, TrainRows]) -> dict[str, TaskType]:
    """Return the type of each task that trains."""
    return {task: kind for rows in loaders.values() for task, kind in rows.task_types.items()}


def _check_surgery(
    config: Config, model: MultiTaskModel, loaders: Mapping[str, TrainRows], stages: Sequence[Stage]
) -> None:
    """Raise UserError if gradients cannot be combined or compared as the config asks."""
    training = config.training
    moving = [stage for stage in stages if encoder_parts(model) - stage.frozen]
    if training.conflict_steps is not None:
        kinds = _task_types(loaders)
        compared = (
            [task for task in stage.tasks if not kinds[task].compares_rows] for stage in moving
        )
        if not any(len(tasks) > 1 for tasks in compared):
            message = "in no stage do two tasks that are not contrastive train the encoder: leave"
            raise config.error(("training", "conflict_steps"), message + " this out")
    path = ("training", "gradient_surgery")
    if training.gradient_surgery is None:
        return
    several = [stage for stage in moving if len(stage.tasks) > 1]
    for stage in several:
        if stage.settings.combine != "joint":
            where = f"stage {stage.name}" if config.stages else "`training`"
            message = f"needs a batch of every task in each step: set `combine: joint` in {where}"
            raise config.error(path, message)
    if not several:
        message = "in no stage do several tasks train the encoder: leave this out"
        raise config.error(path, message)


@dataclass
class Progress:
    """Counters of a run.

    Attributes:
        device: the device on which the processes of the run add up their sentences.
        step: optimizer steps taken.
        evaluated_at: the step of the latest evaluation.
        trained: the number of steps that trained each task.
        skipped: the number of steps in which each task had its turn but was left out.
        sentences: sentences that this process has trained on.
        seconds: time spent in steps, without evaluations and checkpoints.
        earlier_seconds: time spent on the run before the last resume.
        began: the clock (`time.perf_counter`) at the start of this command.
    """

    device: torch.device
    step: int = 0
    evaluated_at: int = 0
    trained: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    sentences: float = 0
    seconds: float = 0.0
    earlier_seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def count(self, turns: Iterable[str], result: Stepped) -> None:
        """Count a step in which the tasks ``turns`` had their turn."""
        self.step += 1
        self.sentences += result.sequences
        for task in turns:
            (self.trained if task in result.losses else self.skipped)[task] += 1

    def wall_seconds(self) -> float:
        """Return the time spent on this run, including the time before a resume."""
        return self.earlier_seconds + time.perf_counter() - self.began

    def all_sentences(self) -> float:
        """Return the sum of the sentences of all processes."""
        return distributed.total([self.sentences], self.device)[0]

    def state_dict(self) -> dict[str, object]:
        return {
            "step": self.step,
            "evaluated_at": self.evaluated_at,
            "trained": dict(self.trained),
            "skipped": dict(self.skipped),
            "sentences": self.all_sentences(),
            "seconds": self.seconds,
            "wall_seconds": self.wall_seconds(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.step, self.evaluated_at = state["step"], state["evaluated_at"]
        self.trained, self.skipped = Counter(state["trained"]), Counter(state["skipped"])
        self.sentences = state["sentences"] if distributed.rank() == 0 else 0  # saved as a sum
        self.seconds = state["seconds"]
        self.earlier_seconds = state["wall_seconds"]


class Stages:
    """The stages of a run; the current one has an optimizer and a learning-rate schedule."""

    def __init__(self, planned: Sequence[Stage], model: MultiTaskModel) -> None:
        self.planned = planned
        self.model = model
        self.index = 0
        self.began_after = 0  # steps of the earlier stages
        self.epochs_before = 0.0
        self._begin()

    def _begin(self) -> None:
        self.optimizer, self.scheduler = self.now.begin(self.model)

    @property
    def now(self) -> Stage:
        """The current stage."""
        return self.planned[self.index]

    @property
    def is_last(self) -> bool:
        """True in the last stage."""
        return self.index + 1 == len(self.planned)

    @property
    def total_steps(self) -> int:
        """Planned steps of all stages."""
        return sum(stage.steps for stage in self.planned)

    @property
    def total_epochs(self) -> float:
        """Planned epochs of all stages."""
        return sum(stage.steps / stage.sampler.steps_per_epoch for stage in self.planned)

    def steps_done(self, step: int) -> int:
        """Return how many of the run's first ``step`` steps the current stage has taken."""
        return step - self.began_after

    def epoch(self, step: int) -> float:
        """Return the epochs done after ``step`` steps, including a fraction of the current one."""
        return self.epochs_before + self.steps_done(step) / self.now.sampler.steps_per_epoch

    def next(self, step: int) -> None:
        """Start the next stage after ``step`` steps, with a new optimizer and schedule."""
        self.epochs_before, self.began_after = self.epoch(step), step
        self.index += 1
        self._begin()

    def state_dict(self) -> dict[str, object]:
        return {
            "index": self.index,
            "began_after": self.began_after,
            "epochs_before": self.epochs_before,
            **self.optimizer.state_dict(),  # "state" and "param_groups"
            "scheduler": self.scheduler.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.index, self.began_after = state["index"], state["began_after"]
        self.epochs_before = state["epochs_before"]
        self._begin()
        moments = {int(number): values for number, values in state["state"].items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": state["param_groups"]})
        self.scheduler.load_state_dict(state["scheduler"])
