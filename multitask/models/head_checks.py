"""Check a task's head against the rest of the task and the other tasks."""

from collections.abc import Mapping
from typing import Any

from multitask.config import Config
from multitask.config.registry import resolve, task_type
from multitask.models.encoders import Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.base import TaskType
from multitask.tasks.glue import check_labels
from multitask.tasks.label_reader import LabelReader
from multitask.utils import distributed

# a key of the task, True if it is wrong, and the message
Misfit = tuple[str, Any, str]

BY_TOKEN = ("tokens", "sequence")
# what a head takes -> the `input` of its task
INPUTS_TAKEN = {
    "vector": ("single", "cross"),
    "pair": ("siamese",),
    "views": ("single", "siamese", "triplet"),
    "tokens": ("single",),
    "sequence": ("cross",),
}


def head_class(config: Config, task: str) -> Any:
    """Return the class of a task's head, checked against the rest of the task.

    Raises UserError if the head does not fit the input, the metric or another key.
    """
    entry = config.tasks[task]
    head = resolve("head", entry.head.name)
    kind = task_type(head.task_type)
    misfits = _tokens(config, task, head) if head.takes in BY_TOKEN else _vectors(config, task)
    misfits += _rows(config, task, kind)
    if kind.compares_rows:
        misfits += _contrastive(config, task)
    known, wanted = ", ".join(kind.selects), INPUTS_TAKEN[head.takes]
    needs = " or ".join(f"`input: {name}`" for name in wanted)
    takes = head.takes if head.takes == "views" else f"a {head.takes}"
    one_row = head.takes not in ("pair", "views")
    batch_norm = entry.projection is not None and entry.projection.name == "mlp_batchnorm"
    no_distance = entry.smart is not None and not hasattr(head, "divergence")
    misfits += [
        (
            "head",
            entry.input not in wanted,
            f" takes {takes}: it needs {needs}, not {entry.input!r}",
        ),
        (
            "projection",
            one_row and batch_norm,
            ": `mlp_batchnorm` is for pairs and views, as one row has no variance: take `mlp`",
        ),
        (
            "smart",
            no_distance,
            f" has no distance between two outputs: set `tasks.{task}.smart: null`",
        ),
        (
            "metric",
            entry.metric not in (None, *kind.selects),
            f" has the metrics {known}, not {entry.metric!r}",
        ),
    ]
    for key, wrong, message in misfits:
        if wrong:
            raise config.error(("tasks", task, key), f"head {entry.head.name!r}{message}")
    return head


def _tokens(config: Config, task: str, head: Any) -> list[Misfit]:
    """List what does not fit a head that reads tokens."""
    entry, (wanted,) = config.tasks[task], INPUTS_TAKEN[head.takes]
    reads_windows = head.takes == "sequence"
    return [
        ("pooling", entry.pooling.name != "tokens", " looks at tokens: it needs `pooling: tokens`"),
        ("input", entry.input != wanted, f" looks at tokens: it needs `input: {wanted}`"),
        ("share_pooling", entry.share_pooling, ": its tokens are not pooled: leave this out"),
        ("eval_pooling", entry.eval_pooling, ": tokens are not pooled: leave this out"),
        (
            "stride",
            entry.stride is not None and not reads_windows,
            " reads no windows of a text: leave this out",
        ),
    ]


def _vectors(config: Config, task: str) -> list[Misfit]:
    """List what does not fit a head that reads vectors of texts."""
    entry = config.tasks[task]
    eval_pooling = entry.eval_pooling is not None and entry.eval_pooling.name
    return [
        ("pooling", entry.pooling.name == "tokens", " does not look at tokens: leave this out"),
        ("eval_pooling", eval_pooling == "tokens", ": no pooling"),
        ("stride", entry.stride is not None, " reads no windows of a text: leave this out"),
    ]


def _rows(config: Config, task: str, kind: TaskType) -> list[Misfit]:
    """List what does not fit the rows and labels of a task type."""
    entry = config.tasks[task]
    shared = [name for name, other in config.tasks.items() if other.data.same_rows_as == task]
    why = "that format has no such predictions" if kind.labelled else "there is nothing to hand in"
    return [
        (
            "data",
            not kind.per_row and (entry.data.same_rows_as or shared),
            ": it cannot share rows" + ("" if kind.labelled else ": see `data.texts_of`"),
        ),
        ("data", kind.labelled and entry.data.texts_of, ": it needs labels: leave out `texts_of`"),
        *(
            (file, not kind.one_value and getattr(entry, file), f": {why}: leave this out")
            for file in ("course_file", "glue_file")
        ),
    ]


def _contrastive(config: Config, task: str) -> list[Misfit]:
    """List what does not fit a loss that compares the rows of a batch."""
    entry = config.tasks[task]
    only_trains = entry.head.options.get("mlp_only_train")
    frozen = config.encoder.freeze is True and not entry.adapter  # it then runs without dropout
    return [
        (
            "data",
            entry.data.texts_of and entry.input != "single",
            ": `texts_of` gives single texts",
        ),
        (
            "dropout",
            frozen and entry.input == "single" and not entry.dropout,
            ": on a frozen encoder both views of a text are one vector unless this is above 0",
        ),
        ("projection", only_trains and not entry.projection, ": `mlp_only_train` needs one: `mlp`"),
        ("batch_size", entry.batch_size < 2, ": a batch of one text has nothing to compare with"),
    ]


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
            own, other = readers[name], readers[task.share_head]
            if (own.names, own.low, own.high) != (other.names, other.low, other.high):
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
