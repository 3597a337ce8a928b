"""Task types: everything about a task's labels, metrics and predictions that needs numpy alone.

There is one subclass of ``TaskType`` per file of this room. A head names its type
(``task_type: ClassVar[str]``), ``multitask.config.registry.TASK_TYPES`` says where the class is,
and ``LabelReader`` carries the object. What needs tensors is a method of the head.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from multitask.tasks.label_reader import LabelReader, canonical, label_text
from multitask.tasks.rows import Rows

Array = npt.NDArray[Any]
# labels, predictions and scores of N rows; docs/extending.md says which arrays a type takes
Columns = tuple[Array, Array, Array]


class Mistake(NamedTuple):
    """A wrong prediction: how bad it is, and the gold and the predicted label in words."""

    size: float | None
    gold: str
    predicted: str


class TaskType:
    """What all tasks of one type have in common; an object of it has no state.

    The methods here serve a task with one label per row, a class or a number. Rows without a label
    have -1 for a class and NaN for a number.
    """

    # What the type is called in saved files, as ``label_type``.
    name: ClassVar[str]
    # What a head of the type predicts, for docs/configuration.md.
    predicts: ClassVar[str]
    # What it predicts of a text, for `serve`, with {count}, {names}, {low}, {high} of its labels.
    gives: ClassVar[str]
    # Every metric.
    metrics: ClassVar[tuple[str, ...]]
    # The metrics that `metric:` may name: higher is better, and the first is the default.
    selects: ClassVar[tuple[str, ...]]
    # The hub's name of what a model of this type does, for model cards.
    pipeline: ClassVar[str] = "text-classification"
    # The figure of the dev predictions, as "module:function"; "" for none.
    figure: ClassVar[str] = ""
    # What that figure shows, with {task}, for readers who do not see it.
    figure_shows: ClassVar[str] = "Dev predictions of {task}"
    # What the confusion matrix counts.
    counted: ClassVar[str] = "dev rows"
    # What the report's mistakes are sorted by.
    mistakes_by: ClassVar[str] = "confidence"
    # What is measured per row where metrics are not computed from labels and predictions.
    measured: ClassVar[tuple[str, ...]] = ()

    # A config names the classes (`labels`), or the range of the numbers (`label_range`).
    has_classes: ClassVar[bool] = False
    has_range: ClassVar[bool] = False
    # Why there is neither, for an error.
    no_classes: ClassVar[str] = ""
    # Label values and their classes where a config names none; None takes the training file's.
    default_labels: ClassVar[Mapping[str, str] | None] = None
    # The rows have labels. Otherwise the task trains on texts alone, for the other tasks' sake.
    labelled: ClassVar[bool] = True
    # A row has one label, predicted from one vector: its scores can be averaged over runs, a probe
    # can train on frozen vectors, a training batch has a score, and tasks can share rows.
    per_row: ClassVar[bool] = True
    # A prediction is one value, as the course's and GLUE's files hold it.
    one_value: ClassVar[bool] = True
    # The labels are masked tokens, drawn anew in every pass over the rows.
    masks_tokens: ClassVar[bool] = False
    # A row's loss and score depend on the other rows of its batch.
    compares_rows: ClassVar[bool] = False

    # Functions that need files or tokens, as "module:function"; "" for none.
    # (config, task, split, reader) -> the rows of a split
    load_rows: ClassVar[str] = "multitask.data.load:load_rows"
    # (data, file) -> rows without labels, from a file that the user names
    rows_of_file: ClassVar[str] = "multitask.data.load:texts_from_file"
    # (texts, sides, source) -> rows without labels, from Python
    rows_of_texts: ClassVar[str] = "multitask.data.load:rows_of_texts"
    # (rows, tokens) -> tokens with the labels marked, and how many labels have no token
    mark_tokens: ClassVar[str] = ""
    # (output per row, rows, tokens) -> predictions, scores and mean loss
    read_output: ClassVar[str] = ""
    # (training tokens, masking) -> the trivial loss; and with the dev split -> columns of a guess
    guess_loss: ClassVar[str] = ""
    guess: ClassVar[str] = ""

    def check_classes(self, names: Sequence[str], scheme: str) -> None:
        """Raise UserError unless these can be the classes; ``scheme`` is that of tagged words."""

    def values_in(
        self, cell: Any, unlabelled: Collection[str], separator: str
    ) -> Sequence[str] | None:
        """The label values in a table's cell; None where the cell has no label.

        Raises ValueError for a cell of another form.
        """
        if isinstance(cell, list | dict):
            raise ValueError("is a list or an object: this head takes one label a row")
        value = label_text(cell)
        return None if canonical(value) in unlabelled else [value]

    def read(self, values: Sequence[str], reader: LabelReader) -> Any:
        """The label that a cell's values name. Raises ValueError with what was expected."""
        try:
            return reader.read(values[0])
        except ValueError as error:
            raise ValueError(f"is {values[0]!r}: {error}") from None

    def unread(self, count: int, reader: LabelReader) -> Array:
        """The labels of ``count`` rows, all missing."""
        return np.full(count, -1, dtype=np.int64)

    def missing(self, labels: Array) -> Array:
        """True for each row [N] that has no label, as ``unread`` marks it."""
        return labels < 0

    def class_counts(self, labels: Array, classes: int) -> list[int]:
        """Count how many rows, or tagged words, have each class."""
        return [int((labels == number).sum()) for number in range(classes)]

    def columns(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Columns:
        """Labels, predictions and scores of labelled rows, as ``values`` takes them."""
        return rows.gold, predictions, scores

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        """The metrics ``names`` of each set of rows: ``rows`` is int [R, M], each value is [R].

        An undefined metric is NaN. Raises ValueError for a label or prediction outside the classes.
        """
        raise NotImplementedError

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predictions and scores for the dev rows by a model that looks at no text.

        Raises ValueError without training labels.
        """
        raise NotImplementedError

    def confusion_columns(
        self, rows: Rows, reader: LabelReader, predictions: Array
    ) -> tuple[Array, Array] | None:
        """Gold and predicted classes, to be counted; None where a row has no single class."""
        return (rows.gold, predictions) if reader.names else None

    def label(self, rows: Rows, i: int, reader: LabelReader) -> Any:
        """The label of row i as a JSON value; None where the rows have none."""
        return None if rows.labels is None else rows.labels[i].tolist()

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[dict[str, Any]]:
        """What is predicted of each row, as JSON values: see ``multitask.tasks.records``."""
        for i, (prediction, shown) in enumerate(zip(predictions, scores, strict=True)):
            record = {
                "label": self.label(rows, i, reader),
                "prediction": prediction.item(),
                "scores": shown.tolist(),
            }
            if reader.names:
                record["name"] = reader.names[record["prediction"]]
            yield record

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Columns:
        """Labels, predictions and scores of saved records, as ``values`` takes them.

        Raises KeyError, TypeError, IndexError or ValueError for damaged ones.
        """
        labels, predictions = (
            np.array([record[key] for record in records], dtype=np.int64)
            for key in ("label", "prediction")
        )
        return labels, predictions, saved_scores(records)

    def decide(self, scores: Array) -> Array:
        """Predictions from scores that were averaged over an ensemble."""
        raise NotImplementedError

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        """What is wrong with a saved prediction; None if it is right."""
        raise NotImplementedError

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        """The label of row i, for `check`."""
        label = self.label(rows, i, reader)
        return f"label {reader.names[label] if reader.names else label}"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, texts: str) -> str:
        """The labels of the training rows, for `check`; ``texts`` is the task's `input`."""
        return ", ".join(f"{name} {count}" for name, count in counts.items())

    def course_values(self, predictions: Array, reader: LabelReader) -> list[str]:
        """The predictions as a file of the course holds them."""
        return [f"{prediction:.6g}" for prediction in predictions]

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> dict[str, Any]:
        """A prediction for the page of `serve`: ``prediction`` in words, and what to draw.

        That is ``shares`` (name, probability, chosen) of classes or ``number``, ``low`` and
        ``high``, and ``notes`` for the reader.
        """
        return {"prediction": str(record["prediction"])}


def saved_scores(records: Sequence[Mapping[str, Any]]) -> Array:
    """The scores of saved records, float64 [N, K]."""
    return np.array([record["scores"] for record in records], dtype=float)


def divide(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient; 0 / 0 is NaN, silently."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.divide(numerator, denominator)
    return quotient


def count(cells: Array, size: int) -> Array:
    """How often each of ``size`` values occurs in each row of ``cells`` [R, M]: int [R, size]."""
    shifted = cells + size * np.arange(len(cells))[:, None]
    return np.bincount(shifted.ravel(), minlength=size * len(cells)).reshape(len(cells), size)
