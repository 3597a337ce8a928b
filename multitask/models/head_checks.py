"""A task's head, checked against the rest of the task."""

from collections.abc import Mapping
from typing import Any

from multitask.config import Config
from multitask.config.registry import resolve
from multitask.models.encoders import Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.examples import LabelReader
from multitask.tasks.glue import check_labels
from multitask.tasks.metric_names import OUTCOMES, SELECTABLE
from multitask.utils import distributed


def head_class(config: Config, task: str) -> Any:
    """The class of a task's head, checked against the task's input and metric.

    Raises UserError where the head cannot take the input, or does not have the metric.
    """
    entry = config.tasks[task]
    head = resolve("head", entry.head.name)
    path = ("tasks", task)
    if head.label_type in OUTCOMES:
        _check_words(config, task, "cross" if head.takes == "sequence" else "single")
    elif head.takes == "tokens":
        _check_tokens(config, task)
    elif entry.pooling.name == "tokens" or (entry.data.texts_of and head.takes != "views"):
        key = ("data", "texts_of") if entry.data.texts_of else ("pooling",)
        message = "does not look at tokens: leave this out"
        raise config.error((*path, *key), f"head {entry.head.name!r} {message}")
    by_token = head.takes in ("tokens", "sequence")
    if entry.stride is not None and head.takes != "sequence":
        message = f"head {entry.head.name!r} reads no windows of a text: leave this out"
        raise config.error((*path, "stride"), message)
    if entry.eval_pooling is not None and (by_token or entry.eval_pooling.name == "tokens"):
        message = "tokens are not pooled: leave this out" if by_token else "no pooling"
        raise config.error((*path, "eval_pooling"), message)
    if head.takes == "views":
        _check_views(config, task)
    for file in ("course_file", "glue_file"):
        if head.label_type == "labels" and getattr(entry, file):
            message = f"head {entry.head.name!r}: that format has one label a row: leave this out"
            raise config.error((*path, file), message)
    inputs = {
        "vector": ("single", "cross"),
        "pair": ("siamese",),
        "views": ("single", "siamese", "triplet"),
        "sequence": ("cross",),
    }
    if entry.input not in inputs.get(head.takes, ("single",)):
        needs = " or ".join(f"`input: {name}`" for name in inputs[head.takes])
        takes = "views" if head.takes == "views" else f"a {head.takes}"
        message = f"takes {takes}: it needs {needs}, not {entry.input!r}"
        raise config.error((*path, "head"), f"head {entry.head.name!r} {message}")
    sides = head.takes in ("pair", "views")
    if not sides and entry.projection is not None and entry.projection.name == "mlp_batchnorm":
        message = "`mlp_batchnorm` is for pairs and views, as one row has no variance: take `mlp`"
        raise config.error((*path, "projection"), f"head {entry.head.name!r}: {message}")
    if entry.smart is not None and not hasattr(head, "divergence"):
        message = f"head {entry.head.name!r} has no distance between two outputs: set"
        raise config.error((*path, "smart"), f"{message} `tasks.{task}.smart: null`")
    known = SELECTABLE[head.label_type]
    if entry.metric is not None and entry.metric not in known:
        message = f"has the metrics {', '.join(known)}, not {entry.metric!r}"
        raise config.error((*path, "metric"), f"head {entry.head.name!r} {message}")
    return head


def _check_tokens(config: Config, task: str) -> None:
    """Raise UserError where a task does not hand its head single texts, token by token."""
    entry = config.tasks[task]
    shared = [name for name, other in config.tasks.items() if other.data.same_rows_as == task]
    for key, wrong, needs in (
        ("pooling", entry.pooling.name != "tokens", "`pooling: tokens`"),
        ("input", entry.input != "single", "`input: single`"),
        ("data", entry.data.same_rows_as or shared, "texts of its own: see `data.texts_of`"),
        ("course_file", entry.course_file, "no course file: there is nothing to hand in"),
    ):
        if wrong:
            message = f"head {entry.head.name!r} looks at tokens: it needs {needs}"
            raise config.error(("tasks", task, key), message)


def _check_words(config: Config, task: str, needed: str) -> None:
    """Raise UserError for what does not go with a head of tagged words, or of answers."""
    entry = config.tasks[task]
    shared = [name for name, other in config.tasks.items() if other.data.same_rows_as == task]
    for key, wrong, message in (
        ("pooling", entry.pooling.name != "tokens", "it needs `pooling: tokens`"),
        ("input", entry.input != needed, f"it needs `input: {needed}`"),
        ("data", entry.data.same_rows_as or shared, "it needs rows of its own"),
        ("data", entry.data.texts_of, "it needs labels: leave out `texts_of`"),
        ("share_pooling", entry.share_pooling, "its tokens are not pooled: leave this out"),
        ("course_file", entry.course_file, "that format has no such predictions: leave this out"),
        ("glue_file", entry.glue_file, "that format has no such predictions: leave this out"),
    ):
        if wrong:
            raise config.error(("tasks", task, key), f"head {entry.head.name!r}: {message}")


def _check_views(config: Config, task: str) -> None:
    """Raise UserError for what does not go with a contrastive head."""
    entry = config.tasks[task]
    shared = [name for name, other in config.tasks.items() if other.data.same_rows_as == task]
    only_trains = bool(entry.head.options.get("mlp_only_train"))
    frozen = config.encoder.freeze is True and not entry.adapter  # it then runs without dropout
    for key, wrong, message in (
        ("data", entry.data.same_rows_as or shared, "it needs rows of its own"),
        ("data", entry.data.texts_of and entry.input != "single", "`texts_of` gives single texts"),
        ("course_file", entry.course_file, "no course file: there is nothing to hand in"),
        (
            "dropout",
            frozen and entry.input == "single" and not entry.dropout,
            "on a frozen encoder both views of a text are one vector unless this is above 0",
        ),
        ("projection", only_trains and not entry.projection, "`mlp_only_train` needs one: `mlp`"),
        ("batch_size", entry.batch_size < 2, "a batch of one text has nothing to compare with"),
    ):
        if wrong:
            raise config.error(("tasks", task, key), f"head {entry.head.name!r}: {message}")


def check_processes(config: Config) -> None:
    """Raise UserError for tasks that cannot be trained by as many processes as were started."""
    count = distributed.planned_world()
    for name, task in config.tasks.items():
        if task.batch_size < count:
            message = f"{task.batch_size} rows cannot be shared out to {count} processes"
            raise config.error(("tasks", name, "batch_size"), message)
        if count > 1 and task.projection is not None and task.projection.name == "mlp_batchnorm":
            message = "its statistics are those of one process's rows: take `mlp`"
            raise config.error(("tasks", name, "projection"), message)


def check_lengths(config: Config, encoder: Encoder) -> None:
    """Raise UserError for inputs that are longer than the encoder's positions."""
    for name, task in config.tasks.items():
        if task.max_length > encoder.max_positions:
            positions = f"the encoder has {encoder.max_positions} positions"
            message = f"{task.max_length} tokens, but {positions}"
            raise config.error(("tasks", name, "max_length"), message)


def check_shared_heads(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for two tasks that share a head but not their labels."""
    for name, task in config.tasks.items():
        if task.share_head is not None:
            own, other = readers[name], readers[task.share_head]
            if (own.names, own.low, own.high) != (other.names, other.low, other.high):
                message = f"{name} and {task.share_head} have other labels: give both the same "
                raise config.error(("tasks", name, "share_head"), message + "`data.labels`")


def check_evaluate_only(config: Config, model: MultiTaskModel) -> None:
    """Raise UserError for a task that is only evaluated but has weights, which nothing trains."""
    for name, task in config.tasks.items():
        if task.evaluate_only and task.share_head is None:
            weights = sum(parameter.numel() for parameter in model.head(name).parameters())
            if weights:
                message = f"its own {weights:,} weights would never be trained: set `share_head`"
                raise config.error(("tasks", name, "evaluate_only"), message)


def check_glue_labels(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for labels that the GLUE server would not take."""
    for name, task in config.tasks.items():
        if task.glue_file is not None:
            read = readers[name]
            with config.errors_at(("tasks", name, "glue_file")):
                check_labels(task.glue_file, read.label_type, read.ids, read.names, read.low)
