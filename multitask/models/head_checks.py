"""Check a task's head against the rest of the task and the other tasks."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from multitask.config import Config, TaskConfig
from multitask.config.registry import INPUTS, head_type, input_type, resolve
from multitask.data.inputs.base import input_of
from multitask.models.encoders import Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.base import TaskType
from multitask.tasks.glue import check_labels
from multitask.tasks.label_reader import LabelReader
from multitask.utils import distributed

Misfit = tuple[str, str]  # a key of the task, and what is wrong with it


def inputs_for(takes: str) -> list[str]:
    """Return the inputs that fit a head, by what it ``takes``."""
    return [name for name in INPUTS if takes in input_type(name).heads]


def check_head(config: Config, task: str) -> TaskType:
    """Return the type of a task, after a check of its head against the rest of the task.

    Raises UserError if the head does not fit the input, the metric or another key.
    """
    entry = config.tasks[task]
    head = resolve("head", entry.head.name)
    kind = head_type(entry.head.name)
    rows = _contrastive(config, entry) if kind.compares_rows else ()
    misfits = chain(
        _reading(entry, head), _rows(config, task, kind), rows, _settings(config, task, head, kind)
    )
    for key, message in misfits:
        raise config.error(("tasks", task, key), f"head {entry.head.name!r}{message}")
    return kind


def _reading(entry: TaskConfig, head: Any) -> Iterator[Misfit]:
    """Yield what does not fit a head that reads tokens, or one that reads vectors of texts."""
    if head.takes in ("tokens", "sequence"):
        (wanted,) = inputs_for(head.takes)
        if entry.gives_vectors:
            yield "pooling", " looks at tokens: it needs `pooling: tokens`"
        if head.takes not in input_of(entry).heads:
            yield "input", f" looks at tokens: it needs `input: {wanted}`"
        if entry.share_pooling:
            yield "share_pooling", ": its tokens are not pooled: leave this out"
        if entry.eval_pooling:
            yield "eval_pooling", ": tokens are not pooled: leave this out"
    elif not entry.gives_vectors:
        yield "pooling", " does not look at tokens: leave this out"
    elif entry.eval_pooling and entry.eval_pooling.name == "tokens":
        yield "eval_pooling", ": no pooling"
    if entry.stride is not None and head.takes != "sequence":
        yield "stride", " reads no windows of a text: leave this out"


def _rows(config: Config, task: str, kind: TaskType) -> Iterator[Misfit]:
    """Yield what does not fit the rows and labels of a task type."""
    entry = config.tasks[task]
    shared = [name for name, other in config.tasks.items() if other.data.same_rows_as == task]
    if not kind.shares_rows and (entry.data.same_rows_as or shared):
        advice = "" if kind.labelled else ": see `data.texts_of`"
        yield "data", f": it cannot share rows{advice}"
    if kind.labelled and entry.data.texts_of:
        yield "data", ": it needs labels: leave out `texts_of`"
    why = "that format has no such predictions" if kind.labelled else "there is nothing to hand in"
    for file in ("course_file", "glue_file"):
        if not kind.one_value and getattr(entry, file):
            yield file, f": {why}: leave this out"


def _contrastive(config: Config, entry: TaskConfig) -> Iterator[Misfit]:
    """Yield what does not fit a loss that compares the rows of a batch."""
    frozen = config.encoder.freeze is True and not entry.adapter  # it then runs without dropout
    single = input_of(entry).texts == 1
    if entry.data.texts_of and not single:
        yield "data", ": `texts_of` gives single texts"
    if frozen and single and not entry.dropout:
        reason = "on a frozen encoder both views of a text are one vector"
        yield "dropout", f": {reason} unless this is above 0"
    if entry.head.options.get("mlp_only_train") and not entry.projection:
        yield "projection", ": `mlp_only_train` needs one: `mlp`"
    if entry.batch_size < 2:
        yield "batch_size", ": a batch of one text has nothing to compare with"


def _settings(config: Config, task: str, head: Any, kind: TaskType) -> Iterator[Misfit]:
    """Yield what does not fit any head: its input, projection, SMART or metric."""
    entry = config.tasks[task]
    if head.takes not in input_of(entry).heads:
        needs = " or ".join(f"`input: {name}`" for name in inputs_for(head.takes))
        takes = head.takes if head.takes == "views" else f"a {head.takes}"
        yield "head", f" takes {takes}: it needs {needs}, not {entry.input!r}"
    batch_norm = entry.projection is not None and entry.projection.name == "mlp_batchnorm"
    if batch_norm and head.takes not in ("pair", "views"):
        reason = "`mlp_batchnorm` is for pairs and views, as one row has no variance"
        yield "projection", f": {reason}: take `mlp`"
    if entry.smart is not None and not hasattr(head, "divergence"):
        yield "smart", f" has no distance between two outputs: set `tasks.{task}.smart: null`"
    if entry.metric not in (None, *kind.selects):
        yield "metric", f" has the metrics {', '.join(kind.selects)}, not {entry.metric!r}"


def check_processes(config: Config) -> None:
    """Raise UserError for a task that cannot be trained by the number of processes."""
    count = distributed.planned_world()
    for name, task in config.tasks.items():
        if task.batch_size < count:
            message = f"{task.batch_size} rows cannot be shared out to {count} processes"
            raise config.error(("tasks", name, "batch_size"), message)
        if count > 1 and task.projection is not None and task.projection.name == "mlp_batchnorm":
            message = "its statistics are those of one process's rows: take `mlp`"
            raise config.error(("tasks", name, "projection"), message)


def check_lengths(config: Config, encoder: Encoder) -> None:
    """Raise UserError for inputs with more tokens than the encoder has positions."""
    for name, task in config.tasks.items():
        if task.max_length > encoder.max_positions:
            positions = f"the encoder has {encoder.max_positions} positions"
            message = f"{task.max_length} tokens, but {positions}"
            raise config.error(("tasks", name, "max_length"), message)


def check_shared_heads(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for two tasks that share a head but have different labels."""
    for name, task in config.tasks.items():
        if task.share_head is not None:
            reader, other = readers[name], readers[task.share_head]
            if (reader.names, reader.low, reader.high) != (other.names, other.low, other.high):
                message = f"{name} and {task.share_head} have other labels: give both the same "
                raise config.error(("tasks", name, "share_head"), message + "`data.labels`")


def check_evaluate_only(config: Config, model: MultiTaskModel) -> None:
    """Raise UserError for a task that is only evaluated, but whose head has weights."""
    for name, task in config.tasks.items():
        if task.evaluate_only and task.share_head is None:
            weights = sum(parameter.numel() for parameter in model.head(name).parameters())
            if weights:
                message = f"its {weights:,} weights would never be trained: set `share_head`"
                raise config.error(("tasks", name, "evaluate_only"), message)


def check_glue_labels(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for labels that the GLUE server would not accept."""
    for name, task in config.tasks.items():
        if task.glue_file is not None:
            read = readers[name]
            with config.errors_at(("tasks", name, "glue_file")):
                check_labels(task.glue_file, read)
