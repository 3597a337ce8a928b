"""How the label values of a file become numbers."""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from multitask.tasks.base import TaskType


NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# how a number is written that has one meaning only: `007` and `1e2` may be names
PLAIN_NUMBER = re.compile(r"\+?(-?(0|[1-9][0-9]*))(\.[0-9]+)?")

SHOWN = 20  # label values that an error names


@dataclass(frozen=True)
class LabelReader:
    """How a task's label values become numbers."""

    # what the task predicts
    task_type: "TaskType"
    # label value, as the file has it -> class; empty without classes
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
        classes = len(self.names)
        counts = [1] * classes
        if labels is not None:
            counts = self.task_type.class_counts(labels, classes)
        return {
            "num_labels": classes,
            "class_counts": counts,
            "low": self.low,
            "high": self.high,
        }

    def read(self, value: str) -> float:
        """The number of a label value. Raises ValueError saying what was expected.

        A value that is not among the classes may be another spelling of one; see ``canonical``.
        """
        if self.ids:
            known_as = self.ids.get(value, self._spellings.get(canonical(value)))
            if known_as is None:
                known = ", ".join([*self.ids][:SHOWN]) + (", ..." if len(self.ids) > SHOWN else "")
                raise ValueError(f"expected one of {known} (`data.labels` gives others a meaning)")
            return known_as
        number = number_of(value)
        if not self.low <= number <= self.high:  # NaN fails too
            raise ValueError(f"expected a number from {self.low:g} to {self.high:g}")
        return number

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The class of each canonical value, where all its spellings are of one class."""
        classes: dict[str, set[int]] = {}
        for value, number in self.ids.items():
            classes.setdefault(canonical(value), set()).add(number)
        return {value: found.pop() for value, found in classes.items() if len(found) == 1}

    def clipped(self, predictions: Any) -> Any:
        """Predictions (an array or one value), cut off at the ends of a range."""
        in_range = self.task_type.has_range
        return np.clip(predictions, self.low, self.high) if in_range else predictions


def label_text(cell: Any) -> str:
    """A label as the file has it; ``''`` where the cell is blank.

    Text stays as it is. The numbers of a typed file have one spelling per value: ``1`` and ``1.0``
    are ``'1'``. ``True`` is ``'true'``.
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        if math.isnan(cell):
            return ""
        return str(int(cell)) if cell.is_integer() else repr(cell)
    text = str(cell)
    return text if text.strip() else ""


def canonical(value: Any) -> str:
    """One spelling for what is written in several ways: ``1``, ``+1`` and ``' 1.0 '`` are ``'1'``,
    ``True`` is ``'true'``, missing is ``''``. ``007``, ``1e2`` and ``1_1`` stay as they are."""
    text = label_text(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    plain = PLAIN_NUMBER.fullmatch(text)
    if plain is None:
        return text
    return plain[1] + (plain[3] or "").rstrip("0").rstrip(".")


def number_of(text: str) -> float:
    """The number that a text is in the usual notation; NaN where it is none, such as ``1_1``."""
    return float(text) if NUMBER.fullmatch(text.strip()) else math.nan
