"""Check a task's head against the rest of the task and the other tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from heads.base import Head
from multitask.config import Config
from multitask.config.registry import INPUTS, head_type, input_type, resolve
from multitask.data.by_type import reading_of, shares_rows
from multitask.data.inputs.base import input_of
from multitask.data.readers.course_files import can_hold
from multitask.models.encoders import Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.base import NoLabels, TaskType
from multitask.tasks.glue import check_labels
from multitask.tasks.label_reader import LabelReader
from multitask.utils import distributed


def inputs_for(head: Any, vectors: bool) -> list[str]:
    """Return the inputs that fit a head, for vectors of sequences or for tokens."""
    return [name for name in INPUTS if head.reads(input_type(name), vectors)]


def check_head(config: Config, task: str) -> TaskType:
    """Return the type of a task, after a check of its head against the rest of the task.

    Raises UserError if the head does not fit the input, the metric or another key.
    """
    name = config.tasks[task].head.name
    kind = head_type(name)
    for key, message in _misfits(config, task, resolve("head", name), kind):
        raise config.error(("tasks", task, *key.split(".")), f"head {name!r}{message}")
    return kind


def _misfits(config: Config, task: str, head: Any, kind: TaskType) -> Iterator[tuple[str, str]]:
    """Yield the keys of a task that do not fit its head, and what is wrong with each."""
    entry = config.tasks[task]
    vectors, form, silent = entry.gives_vectors, input_of(entry), isinstance(kind, NoLabels)
    # the input and the pooling
    if not head.reads(form, vectors):
        fitting = inputs_for(head, vectors)
        if not fitting and inputs_for(head, not vectors):
            tokens = " looks at tokens: it needs `pooling: tokens`"
            yield "pooling", tokens if vectors else " does not look at tokens: leave this out"
        needs = " or ".join(f"`input: {name}`" for name in fitting) or "another input"
        shown = f" does not read `input: {entry.input}`: it needs {needs}"
        yield "head" if vectors else "input", shown
    for key in ("share_pooling", "eval_pooling"):
        if not vectors and getattr(entry, key):
            yield key, ": its tokens are not pooled: leave this out"
    if entry.eval_pooling and entry.eval_pooling.name == "tokens":
        yield "eval_pooling", ": no pooling"
    if entry.stride is not None and not reading_of(kind).windows:
        yield "stride", " reads no windows of a text: leave this out"
    # the rows and labels
    shared = any(other.data.same_rows_as == task for other in config.tasks.values())
    if not shares_rows(kind) and (entry.data.same_rows_as or shared):
        yield "data", ": it cannot share rows" + ": see `data.texts_of`" * silent
    if not silent and entry.data.texts_of:
        yield "data", ": it needs labels: leave out `texts_of`"
    for file, fits in (("course_file", can_hold(kind)), ("glue_file", kind.one_value)):
        if not fits and getattr(entry, file):
            yield file, ": that format has no such predictions: leave this out"
    # a loss that compares the rows of a batch
    if kind.compares_rows:
        frozen = config.encoder.freeze is True and not entry.adapter  # it then runs without dropout
        if entry.data.texts_of and form.texts > 1:
            yield "data", ": `texts_of` gives single texts"
        if frozen and form.texts == 1 and not entry.dropout:
            reason = "on a frozen encoder both views of a text are one vector"
            yield "dropout", f": {reason} unless this is above 0"
        if entry.head.options.get("mlp_only_train") and not entry.projection:
            yield "projection", ": `mlp_only_train` needs one: `mlp`"
        if entry.batch_size < 2:
            yield "batch_size", ": a batch of one text has nothing to compare with"
    # the projection, SMART and the metric
    batch_norm = entry.projection is not None and entry.projection.name == "mlp_batchnorm"
    if batch_norm and not kind.compares_rows and (form.sides or 1) < 2:
        reason = "`mlp_batchnorm` is for pairs and views, as one row has no variance"
        yield "projection", f": {reason}: take `mlp`"
    for key in ("smart", "r_drop"):
        if getattr(entry, key) is not None and not head.divergence:
            yield key, f" has no distance between two outputs: set `tasks.{task}.{key}: null`"
    if entry.distill is not None:
        if head.soft_loss is Head.soft_loss:
            yield "distill", " cannot learn scores: leave this out"
        if kind.described_by == "label_range" and entry.distill.temperature != 1:
            yield "distill.temperature", " predicts numbers, which are not softened: leave this out"
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


def check_readers(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for labels that the GLUE server, or a task with the same head, refuses."""
    for name, task in config.tasks.items():
        reader = readers[name]
        if task.share_head is not None:
            other = readers[task.share_head]
            if (reader.names, reader.low, reader.high) != (other.names, other.low, other.high):
                message = f"{name} and {task.share_head} have other labels: give both the same "
                raise config.error(("tasks", name, "share_head"), message + "`data.labels`")
        if task.glue_file is not None:
            with config.errors_at(("tasks", name, "glue_file")):
                check_labels(task.glue_file, reader)


def check_evaluate_only(config: Config, model: MultiTaskModel) -> None:
    """Raise UserError for a task that is only evaluated, but whose head has weights."""
    for name, task in config.tasks.items():
        if task.evaluate_only and task.share_head is None:
            weights = sum(parameter.numel() for parameter in model.head(name).parameters())
            if weights:
                message = f"its {weights:,} weights would never be trained: set `share_head`"
                raise config.error(("tasks", name, "evaluate_only"), message)
