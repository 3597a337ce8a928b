"""Describe a config: in tables, for the plan and the report of a run, and as a flowchart."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from multitask.config.base import Choice
from multitask.config.config import Config
from multitask.config.task_config import SmartConfig
from multitask.config.training_config import TrainingConfig

ABOVE_HEADER = ("task", "pooling", "projection", "head", "adapter", "shares")
TRAINED_HEADER = ("task", "input", *ABOVE_HEADER[1:], "SMART", "rows a step", "head's rate")
# characters that end a label of Mermaid or format it; "#" begins an entity, so it is first
ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}


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
        smart = "-" if task.smart is None else _smart(task.smart)
        smart = smart if task.r_drop is None else f"R-Drop, weight {task.r_drop.weight:g}"
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


def method_in_words(choice: Choice | None) -> str:
    """Describe a method with its options, such as "pal (size 60)"; "-" for none."""
    if choice is None:
        return "-"
    options = _options(choice.options)
    return f"{choice.name} ({options})" if options else choice.name


def as_written(value: Any) -> str:
    """Return a value as YAML writes it, text without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _smart(smart: SmartConfig) -> str:
    """Describe SMART's weight, and its other settings that are not the default."""
    others = smart.model_dump(exclude_defaults=True, exclude={"weight"})
    return _options({"weight": smart.weight, **others})


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {as_written(value)}" for key, value in options.items())


def diagram(config: Config) -> str:
    """Return a Mermaid flowchart, which GitHub shows as a picture.

    It has the inputs, the encoder with adapters, and each task's parts up to its loss. Nodes are
    numbered by task, so names occur in labels only. Dotted arrows are for evaluation.
    """
    numbers = {task: f"t{number}" for number, task in enumerate(config.tasks)}
    lines = ["flowchart LR", f"  subgraph encoder[{_label('encoder', config.encoder.name)}]"]
    lines.append(f"    layers[{_label('layers', 'shared by all tasks')}]")
    for task, entry in config.tasks.items():
        if entry.adapter and _owner(config, task) == task:
            shown = _label(f"adapter of {task}", method_in_words(entry.adapter))
            lines.append(f"    layers --- {numbers[task]}_adapter[{shown}]")
    lines.append("  end")
    for task in config.tasks:
        lines += (f"  {line}" for line in _task(config, task, numbers))
    return "\n".join(lines)


def _task(config: Config, task: str, numbers: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a task: its input, the parts that are not another task's, its end."""
    entry, node = config.tasks[task], numbers[task]
    yield f"{node}_input([{_label(task, f'input: {entry.input}')}]) --> layers"
    trained = task in config.trained_tasks()
    parts = [f"loss of {task}" if trained else f"scores of {task}"]
    if trained and entry.loss_weight != 1:
        parts.append(f"loss_weight {entry.loss_weight:g}")
    if trained and entry.smart is not None:
        parts.append(f"SMART: {_smart(entry.smart)}")
    if trained and entry.r_drop is not None:
        parts.append(f"R-Drop: weight {entry.r_drop.weight:g}")
    if trained and entry.distill is not None:
        parts.append(f"distillation: {len(entry.distill.from_)} teachers")
    end = f"{node}_{'loss' if trained else 'scores'}([{_label(*parts)}])"
    if entry.share_head is not None:
        yield f"{numbers[entry.share_head]}_head --> {end}"
        return

    def part(key: str, choice: Choice) -> str:
        return f"{node}_{key}[{_label(key, method_in_words(choice))}]"

    if entry.share_pooling is None:
        source = f"{node}_adapter" if entry.adapter else "layers"
        yield f"{source} --> {part('pooling', entry.pooling)}"
        if entry.projection is not None:
            yield f"{node}_pooling --> {part('projection', entry.projection)}"
        if entry.eval_pooling is not None:
            yield f"{source} -.-> {part('eval_pooling', entry.eval_pooling)}"
    head, owner = part("head", entry.head), _owner(config, task)
    for arrow, origin in _arrows(config, task):
        yield f"{numbers[owner]}_{origin} {arrow} {head}"
        head = f"{node}_head"
    yield f"{node}_head --> {end}"


def _arrows(config: Config, task: str) -> Iterator[tuple[str, str]]:
    """Yield the arrows into a task's head, each with the part that it comes from.

    A dotted one is for scores on vectors of another part than in training (see ``TaskModule``).
    """
    owner = config.tasks[_owner(config, task)]
    scored = None
    if owner.eval_pooling is not None:
        scored = "eval_pooling"
    elif owner.projection is not None and owner.head.options.get("mlp_only_train"):
        scored = "pooling"
    if scored is None or task in config.trained_tasks():
        yield "-->", "pooling" if owner.projection is None else "projection"
    if scored is not None:
        yield "-.->", scored


def _owner(config: Config, task: str) -> str:
    """Return the task whose adapter, pooling and projection a task uses."""
    entry = config.tasks[task]
    if entry.share_head is not None:
        return _owner(config, entry.share_head)
    return entry.share_pooling or task


def _label(*lines: str) -> str:
    """Return a label of several lines, in quotes."""
    return '"' + "<br/>".join("".join(ENTITIES.get(c, c) for c in line) for line in lines) + '"'
