"""Convert the label values of a file to numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.utils.look_alikes import looks_like

if TYPE_CHECKING:
    from multitask.tasks.base import TaskType
    from multitask.tasks.rows import Rows


NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# numbers with other spellings of the same value; `007` and `1e2` may be names
PLAIN_NUMBER = re.compile(r"\+?(-?(0|[1-9][0-9]*))(\.[0-9]+)?")

SHOWN = 20  # most label values in an error message


@dataclass(frozen=True)
class LabelReader:
    """Converts the label values of a task to numbers."""

    # type of the task
    task_type: "TaskType"
    # label value in the file -> class; empty without classes
    ids: dict[str, int]
    # the classes, in the order of their numbers
    names: tuple[str, ...]
    # lowest value of a numeric label
    low: float = 0.0
    # highest value of a numeric label
    high: float = 1.0
    # tag scheme of words, such as IOB2; "" for other tasks
    scheme: str = ""
    # True if the classes are in order, from the lowest to the highest
    ordered: bool = False
    # True if a question may have no answer (`no_answer` of the head)
    no_answer: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the task type that these labels have."""
        kind = self.task_type
        left = () if self.ordered else kind.of_ordered
        left += () if self.no_answer else kind.of_no_answer
        return tuple(name for name in kind.metrics if name not in left)

    def head_context(self, rows: "Rows | None" = None) -> dict[str, Any]:
        """Return constructor arguments for any head; without rows every class count is 1."""
        counts, row_count = dict.fromkeys(self.names, 1), 2
        if rows is not None:
            counts, row_count = self.task_type.label_counts(rows, self), len(rows)
        return {
            "num_labels": len(self.names),
            "class_counts": [*counts.values()],
            "row_count": row_count,
            "low": self.low,
            "high": self.high,
        }

    def read(self, value: str) -> float:
        """Return the number of a label value. Raises ValueError with what was expected.

        A value that is not in ``ids`` may be another spelling of one that is; see ``canonical``.
        """
        if self.ids:
            known_as = self.ids.get(value, self._spellings.get(canonical(value)))
            if known_as is None:
                advice = f"(`data.labels` gives others a meaning){looks_like(value, self.ids)}"
                raise ValueError(f"expected one of {some_of([*self.ids])} {advice}")
            return known_as
        number = number_of(value)
        if not self.low <= number <= self.high:  # NaN fails too
            raise ValueError(f"expected a number from {self.low:g} to {self.high:g}")
        return number

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The class of each canonical value whose spellings all have the same class."""
        classes: dict[str, set[int]] = {}
        for value, number in self.ids.items():
            classes.setdefault(canonical(value), set()).add(number)
        return {value: numbers.pop() for value, numbers in classes.items() if len(numbers) == 1}

    def clipped(self, predictions: Any) -> Any:
        """Clip saved predictions to the range of a numeric label."""
        in_range = self.task_type.described_by == "label_range"
        return np.clip(predictions, self.low, self.high) if in_range else predictions


def some_of(values: Sequence[str]) -> str:
    """Return values for an error message; the first ones of many."""
    return ", ".join(values[:SHOWN]) + (", ..." if len(values) > SHOWN else "")


def is_missing(value: Any) -> bool:
    """Return True for null, and for NaN and infinity: formats without a null write those."""
    if isinstance(value, str):  # most values of a file
        return False
    infinite = isinstance(value, float) and math.isinf(value)
    return value is None or infinite or bool(value != value)


def label_text(cell: Any) -> str:
    """Return the label in a cell as text; ``''`` if the cell is blank or missing.

    Text is unchanged. Numbers of a typed file get one spelling per value: ``1`` and ``1.0`` are
    ``'1'``. ``True`` is ``'true'``.
    """
    if is_missing(cell):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    text = str(cell)
    return text if text.strip() else ""


def canonical(value: Any) -> str:
    """Return the common spelling of a label value.

    ``1``, ``+1`` and ``' 1.0 '`` are ``'1'``, ``True`` is ``'true'``, a missing value is ``''``.
    ``007``, ``1e2`` and ``1_1`` are unchanged.
    """
    text = label_text(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    plain = PLAIN_NUMBER.fullmatch(text)
    if plain is None:
        return text
    return plain[1] + (plain[3] or "").rstrip("0").rstrip(".")


def number_of(text: str) -> float:
    """Return a number in the usual notation; NaN for any other text, such as ``1_1``."""
    return float(text) if NUMBER.fullmatch(text.strip()) else math.nan
