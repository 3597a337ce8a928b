"""The rows of one split, and how its label values become numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from multitask.tasks.base import TaskType


@dataclass
class Rows:
    """One split of one task.

    ``labels`` is int64 class ids, 0/1, or float64 numbers [N]; of several classes at once float64
    0/1 [N, C]; None where the split has none. Of a
    contrastive task it numbers the texts of each row [N, texts], equal texts alike.
    ``texts`` holds one text a row, two for a pair, three for a triplet. Where words are tagged,
    ``words`` are those of each row, its text has spaces between them, and ``labels`` are their tags
    [N, longest], -1 behind a row's last. Of questions ``answers`` are the texts of each row's
    answers, ``labels`` the first and behind-last character of its first one [N, 2].
    """

    source: str
    ids: list[str]
    texts: list[tuple[str, ...]]
    labels: np.ndarray | None
    unlabelled_dropped: int = 0
    words: list[tuple[str, ...]] | None = None
    answers: list[tuple[str, ...]] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def gold(self) -> np.ndarray:
        """The labels of a split that must have them. Raises ValueError where it has none."""
        if self.labels is None:
            raise ValueError(f"{self.source} has no labels")
        return self.labels

    def take(self, index: np.ndarray | Sequence[int]) -> "Rows":
        """The rows at ``index``, in that order."""
        labels = None if self.labels is None else self.labels[np.asarray(index, dtype=np.int64)]
        return replace(
            self,
            ids=[self.ids[i] for i in index],
            texts=[self.texts[i] for i in index],
            labels=labels,
            unlabelled_dropped=0,
            words=self.words and [self.words[i] for i in index],
            answers=self.answers and [self.answers[i] for i in index],
        )


@dataclass(frozen=True)
class LabelReader:
    """How a task's label values become numbers."""

    # what the task predicts
    task_type: "TaskType"
    # canonical label value -> class; empty without classes
    ids: dict[str, int]
    # the classes, in the order of their numbers
    names: tuple[str, ...]
    # the range of numbers
    low: float = 0.0
    high: float = 1.0
    # how tags of words mark entities
    scheme: str = ""

    def head_context(self, labels: np.ndarray | None = None) -> dict[str, Any]:
        """What a head may be built with; class counts are those of ``labels`` (1 without)."""
        classes = range(len(self.names))
        counts = [1 for _ in classes] if labels is None else class_counts(labels, len(classes))
        return {
            "num_labels": len(classes),
            "class_counts": counts,
            "low": self.low,
            "high": self.high,
        }

    def read(self, value: str) -> float:
        """The number of a canonical label value. Raises ValueError saying what was expected."""
        if self.ids:
            if value not in self.ids:
                known = ", ".join(self.ids)
                raise ValueError(f"expected one of {known} (`data.labels` gives others a meaning)")
            return self.ids[value]
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not self.low <= number <= self.high:  # NaN fails too
            raise ValueError(f"expected a number from {self.low:g} to {self.high:g}")
        return number

    def clipped(self, predictions: Any) -> Any:
        """Predictions (an array or one value), cut off at the ends of a range."""
        in_range = self.task_type.has_range
        return np.clip(predictions, self.low, self.high) if in_range else predictions


def canonical(value: Any) -> str:
    """One spelling per value: ``1``, ``1.0`` and ``' 1.0 '`` are ``'1'``, ``True`` is ``'true'``;
    missing is ``''``. ``007`` stays as it is."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if re.fullmatch(r"[+-]?0\d.*", text):  # `007` is no number
        return text
    try:
        return str(int(text))
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):  # a class may be called `nan`
        return text
    return str(int(number)) if number.is_integer() else repr(number)


def class_counts(labels: np.ndarray, classes: int) -> list[int]:
    """How many rows, or tagged words, have each class; ``labels`` as in ``Rows``."""
    if labels.ndim == 2 and labels.dtype.kind == "f":
        return np.nansum(labels, axis=0).astype(int).tolist()
    return [int((labels == number).sum()) for number in range(classes)]


def is_missing(labels: np.ndarray) -> np.ndarray:
    """Which labels [N] are absent: NaN among numbers, negative among classes; no row of texts.

    Of several classes at once [N, C], where one is NaN all are.
    """
    if labels.ndim == 2:
        several = labels.dtype.kind == "f"
        return np.isnan(labels).any(axis=1) if several else np.zeros(len(labels), dtype=bool)
    return np.isnan(labels) if labels.dtype.kind == "f" else labels < 0
