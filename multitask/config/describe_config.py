"""Describe a config in tables, for the plan and for the report of a run."""

import json
from collections.abc import Mapping
from typing import Any

from multitask.config.base import Choice
from multitask.config.config import Config
from multitask.config.task_config import SmartConfig
from multitask.config.training_config import TrainingConfig

ABOVE_HEADER = ("task", "pooling", "projection", "head", "adapter", "shares")
TRAINED_HEADER = ("task", "input", *ABOVE_HEADER[1:], "SMART", "rows a step", "head's rate")


def above_the_encoder(config: Config) -> list[tuple[str, ...]]:
    """Return a row per trained task with its parts above the encoder (``ABOVE_HEADER``)."""
    rows = []
    for name, task in config.tasks.items():
        if task.only_scored:
            continue
        pooling = method_in_words(task.pooling)
        if task.eval_pooling is not None:
            pooling += f", scored with {method_in_words(task.eval_pooling)}"
        shared = f"all of {task.share_head}" if task.share_head else "-"
        if task.share_pooling:
            shared = f"all of {task.share_pooling} but its head"
        above = map(method_in_words, (task.projection, task.head, task.adapter))
        rows.append((name, pooling, *above, shared))
    return rows


def trained_with(config: Config) -> list[tuple[str, ...]]:
    """Return a row per trained task with its parts and settings (``TRAINED_HEADER``)."""
    rows = []
    for name, *above in above_the_encoder(config):
        task = config.tasks[name]
        task_rate = config.tasks[task.share_head or name].head_lr
        rate = config.training.head_lr if task_rate is None else task_rate
        smart = "-" if task.smart is None else smart_in_words(task.smart)
        batch = task.batch_size * task.accumulation
        rows.append((name, task.input, *above, smart, f"{batch:,}", f"{rate:g}"))
    return rows


def training_line(config: Config) -> str:
    """Describe epochs, learning rate and sampler of a run in one line; stages may change them."""
    training = config.training
    parts = [
        f"{training.epochs} epochs",
        f"encoder's rate {training.lr:g}, {schedule_in_words(training)}",
        f"{method_in_words(training.sampler)}, {training.combine}",
    ]
    if training.gradient_surgery is not None:
        parts.append(method_in_words(training.gradient_surgery))
    if config.stages:
        parts.append(f"in {len(config.stages)} stages, which may change this")
    return "; ".join(parts)


def schedule_in_words(training: TrainingConfig) -> str:
    """Describe the learning-rate schedule, such as "linear schedule"."""
    if training.schedule != "polynomial":
        return f"{training.schedule} schedule"
    if training.schedule_power == 1:
        return "linear schedule (polynomial, power 1)"
    return f"polynomial schedule (power {training.schedule_power:g})"


def smart_in_words(smart: SmartConfig) -> str:
    """Describe SMART's weight, and its other settings that are not the default."""
    others = smart.model_dump(exclude_defaults=True, exclude={"weight"})
    return _options({"weight": smart.weight, **others})


def method_in_words(choice: Choice | None) -> str:
    """Describe a method with its options, such as "pal (size 60)"; "-" for none."""
    if choice is None:
        return "-"
    options = _options(choice.options)
    return f"{choice.name} ({options})" if options else choice.name


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {as_written(value)}" for key, value in options.items())


def as_written(value: Any) -> str:
    """Return a value as YAML writes it, text without quotes."""
    return value if isinstance(value, str) else json.dumps(value)
