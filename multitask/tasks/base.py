"""Task types: the labels, metrics and predictions of a task, with numpy alone.

Each task type is a ``RowLabels``, ``WordLabels`` or ``NoLabels`` in its own file. A head
names its type (``task_type``), ``multitask.config.registry.TASK_TYPES`` maps the name to the class,
and ``LabelReader`` holds the object. Code that needs tensors is in the head instead.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from multitask.tasks.label_reader import LabelReader, canonical, is_missing, label_text
from multitask.tasks.rows import Rows

Array = npt.NDArray[Any]
# labels, predictions and scores of N rows; the docstring of each type's module has the shapes
Columns = tuple[Array, Array, Array]


class Mistake(NamedTuple):
    """A wrong prediction.

    Attributes:
        size: how wrong it is, to sort mistakes; None if unknown.
        gold: the label in words.
        predicted: the prediction in words.
    """

    size: float | None
    gold: str
    predicted: str


class Record(TypedDict):
    """A prediction as JSON values; see ``multitask.tasks.records``. A type may add keys."""

    label: NotRequired[Any]  # as `TaskType.label` returns it
    prediction: Any  # a class, classes, a number or text
    scores: list[float | None]
    name: NotRequired[str]
    names: NotRequired[list[str]]
    words: NotRequired[list[str]]  # of tagged words
    start: NotRequired[int]  # of an answer: its characters in the second text
    end: NotRequired[int]
    measured: NotRequired[Mapping[str, float] | None]


class Answer(TypedDict):
    """A prediction on the page of `serve`."""

    prediction: str  # in words
    shares: NotRequired[Sequence[tuple[str, float, bool]]]  # name, probability, chosen
    number: NotRequired[float]  # between `low` and `high`
    low: NotRequired[float]
    high: NotRequired[float]
    notes: NotRequired[Sequence[str]]  # for the reader


class TaskType:
    """The base class of task types; its objects have no state.

    A type is a subclass of ``RowLabels``, ``WordLabels`` or ``NoLabels``. Code that needs its rows
    or tokens is in ``multitask/data/by_type.py``.

    The methods here fit a task with one label per row, a class or a number. Without a label, a row
    has the class -1 or the number NaN.
    """

    # Name of the type in saved files (``label_type``).
    name: ClassVar[str]
    # Description of what a head of the type predicts, for docs/configuration.md.
    predicts: ClassVar[str]
    # Description of a prediction, for `serve`; {count}, {names}, {low} and {high} are filled in.
    gives: ClassVar[str]
    # All metrics.
    metrics: ClassVar[tuple[str, ...]]
    # The metrics that `metric:` may name. Higher is better; the first is the default.
    selects: ClassVar[tuple[str, ...]]
    # The metrics that need scores; predictions are enough for the others.
    of_scores: ClassVar[tuple[str, ...]] = ()
    # The metrics that need ordered classes.
    of_ordered: ClassVar[tuple[str, ...]] = ()
    # Those metrics that need questions without an answer.
    of_no_answer: ClassVar[tuple[str, ...]] = ()
    # The pipeline tag of the hub, for model cards.
    pipeline: ClassVar[str] = "text-classification"
    # The alt text of the figure of the dev predictions, if `reporting/figures/figure_registry.py`
    # has one; {task} is filled in.
    figure_shows: ClassVar[str] = "Dev predictions of {task}"
    # The unit that the confusion matrix counts.
    counted: ClassVar[str] = "dev rows"
    # How the report sorts mistakes.
    mistakes_by: ClassVar[str] = "confidence"
    # What the table of mistakes calls the first texts of a row, and shows; (): all texts.
    shown_texts: ClassVar[tuple[str, ...]] = ()
    # Names of the values per row, if metrics are computed from these and not from labels.
    measured: ClassVar[tuple[str, ...]] = ()

    # The key of `data` that describes the labels: `labels` (classes), `label_range` (numbers); ""
    # if there are neither classes nor a range.
    described_by: ClassVar[str] = ""
    # Label values and classes if a config names none; None: the values in the training file.
    default_labels: ClassVar[Mapping[str, str] | None] = None
    # True if a prediction is one value, as in the files of GLUE.
    one_value: ClassVar[bool] = False
    # True if the loss and score of a row depend on the other rows of its batch.
    compares_rows: ClassVar[bool] = False

    def check_classes(self, names: Sequence[str], scheme: str) -> None:
        """Raise UserError if these cannot be the classes; ``scheme`` is the tag scheme of words."""

    def values_in(
        self, cell: Any, unlabelled: Collection[str], separator: str
    ) -> Sequence[str] | None:
        """Return the label values in a cell of a table; None if the cell has no label.

        Raises ValueError if the cell has another form.
        """
        if isinstance(cell, list | dict):
            raise ValueError("is a list or an object: this head takes one label a row")
        value = label_text(cell)
        return None if is_missing(cell) or canonical(value) in unlabelled else [value]

    def read(self, values: Sequence[str], reader: LabelReader) -> Any:
        """Return the label for the values of a cell. Raises ValueError with what was expected."""
        try:
            return reader.read(values[0])
        except ValueError as error:
            raise ValueError(f"is {values[0]!r:.60}: {error}") from None

    def unread(self, count: int, reader: LabelReader) -> Array:
        """Return the labels of ``count`` rows without labels."""
        return np.full(count, -1, dtype=np.int64)

    def missing(self, labels: Array) -> Array:
        """Return bool [N]: True for rows whose first label is -1 or NaN (``unread``)."""
        first = labels[:, 0] if labels.ndim > 1 else labels
        return np.isnan(first) if first.dtype.kind == "f" else first < 0

    def label_counts(self, rows: Rows, reader: LabelReader) -> dict[str, int]:
        """Count the rows, or tagged words, of each class by its name; the rows have labels."""
        return {name: int((rows.gold == i).sum()) for i, name in enumerate(reader.names)}

    def columns(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Columns:
        """Return labels, predictions and scores of labelled rows, as input for ``values``."""
        if self.measured:
            return self.read_records([*self.records(rows, reader, predictions, scores)])
        return rows.gold, predictions, scores

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        """Compute the metrics ``names`` for each set of rows: int [R, M] -> [R] per metric.

        An undefined metric is NaN. Raises ValueError for a label or prediction outside the classes.
        """
        raise NotImplementedError

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Return predictions and scores for the dev rows from the training labels alone.

        Raises ValueError without training labels.
        """
        raise NotImplementedError

    def confusion_columns(
        self, rows: Rows, reader: LabelReader, predictions: Array
    ) -> tuple[Array, Array] | None:
        """Return gold and predicted classes to count; None if a row has no single class."""
        return (rows.gold, predictions) if reader.names else None

    def label(self, rows: Rows, i: int, reader: LabelReader) -> Any:
        """Return the label of row i as a JSON value; None if the rows have no labels."""
        return None if rows.labels is None else rows.labels[i].tolist()

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        """Yield the prediction of each row as JSON values; see ``multitask.tasks.records``."""
        for i, (prediction, shown) in enumerate(zip(predictions, scores, strict=True)):
            record: Record = {
                "label": self.label(rows, i, reader),
                "prediction": prediction.item(),
                "scores": shown.tolist(),
            }
            if reader.names:
                record["name"] = reader.names[record["prediction"]]
            yield record

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Columns:
        """Return labels, predictions and scores of saved records, as input for ``values``.

        Metrics from values per row need these alone: they are the scores, and the first one is the
        label and the prediction.

        Raises KeyError, TypeError, IndexError or ValueError for damaged records.
        """
        if self.measured:
            values = [[record["measured"][name] for name in self.measured] for record in records]
            measured = np.array(values, dtype=float)
            return measured[:, 0], measured[:, 0], measured
        labels, predictions = (
            np.array([record[key] for record in records], dtype=np.int64)
            for key in ("label", "prediction")
        )
        return labels, predictions, saved_scores(records)

    def decide(self, scores: Array) -> Array:
        """Return the predictions for scores that were averaged over an ensemble."""
        raise NotImplementedError

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        """Describe a wrong saved prediction; None if it is right."""
        raise NotImplementedError

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        """Describe the label of row i, for `check`."""
        label = self.label(rows, i, reader)
        return f"label {reader.names[label] if reader.names else label}"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        """Describe the labels of the training rows, for `check`.

        ``views`` says what a contrastive task with this input compares.
        """
        return ", ".join(f"{name} {count}" for name, count in counts.items())

    def course_values(self, predictions: Array, reader: LabelReader) -> list[str]:
        """Return the predictions as texts of a course's files."""
        return [f"{prediction:.6g}" for prediction in predictions]

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        """Return a prediction for the page of `serve`, which draws ``shares`` or ``number``."""
        return {"prediction": str(record["prediction"])}


class RowLabels(TaskType):
    """A label per row: the scores of a row are averaged over runs, its vectors train a probe."""

    one_value = True


class WordLabels(TaskType):
    """Labels inside of a text, such as tags and answers: ``data/by_type.py`` finds their tokens."""


class NoLabels(TaskType):
    """No labels: the task trains on texts alone, to help other tasks."""


def saved_scores(records: Sequence[Mapping[str, Any]]) -> Array:
    """Return the scores of saved records, float64 [N, K]."""
    return np.array([record["scores"] for record in records], dtype=float)


def divide(numerator: Array, denominator: Array) -> Array:
    """Divide elementwise; 0 / 0 is NaN, without a warning."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.divide(numerator, denominator)
    return quotient


def count(cells: Array, size: int) -> Array:
    """Count each of ``size`` values in each row of ``cells`` [R, M]: int [R, size]."""
    shifted = cells + size * np.arange(len(cells))[:, None]
    return np.bincount(shifted.ravel(), minlength=size * len(cells)).reshape(len(cells), size)
