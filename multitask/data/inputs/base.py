"""Inputs: the texts of a row, and how they become sequences for the encoder.

Each ``input`` of a task is a subclass of ``Input`` in its own file, and
``multitask.config.registry.INPUTS`` maps its name to the class. No other code decides by the name.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from string import ascii_lowercase
from typing import Any, ClassVar

from multitask.config import TaskConfig
from multitask.config.registry import input_type

Texts = tuple[str, ...]  # the texts of a row, in the order of ``columns``
# One list of sequences per side, with one sequence per row: one text, or several read together
Sides = list[list[Texts]]


def together(texts: Sequence[Texts]) -> Sides:
    """Read all texts of a row in one sequence."""
    return [list(texts)]


class Input:
    """The base class of inputs; its objects have no state.

    The methods here fit rows with a fixed number of texts, which ``columns`` names.
    """

    # The keys of `data` that name a column of texts.
    columns: ClassVar[tuple[str, ...]]
    # Keys of columns that a task may name or leave out.
    may_have: ClassVar[tuple[str, ...]] = ()
    # True if a sequence has several texts, so that none is read without the others.
    joins: ClassVar[bool] = False
    # True if a score compares the vectors of the two texts of a row, as similarity tasks do; side s
    # is then text s, read alone.
    compares: ClassVar[bool] = False

    # A row in words, for error messages about texts in Python, ...
    items: ClassVar[str]
    # ... about a line of a text file, ...
    line: ClassVar[str]
    # ... and for `serve`.
    reads: ClassVar[str]
    # What a contrastive task compares, for `check`.
    views: ClassVar[str] = ""
    # Arguments of the tokenizer for a row, for the model card of an export.
    example: ClassVar[str] = '"A man is running."'

    @property
    def texts(self) -> int:
        """The number of texts of a row, at least."""
        return len(self.columns)

    @property
    def sides(self) -> int | None:
        """The number of sequences of a row; None if rows of other data may have another one."""
        return len(self.sequences([""] * self.texts))

    def arrange(self, texts: Sequence[Texts]) -> Sides:
        """Arrange the texts of the rows in sequences, side by side; see ``sequences``."""
        return [list(side) for side in zip(*map(self.sequences, texts), strict=True)]

    def side_name(self, side: int) -> str:
        """Return the name of one of several sides, for `check`."""
        return ascii_lowercase[(20 + side) % 26]  # u, v, w and on

    def sequences(self, texts: Sequence[str]) -> list[Texts]:
        """Return the sequences of one row; some texts may be missing, unless it ``joins``."""
        return [tuple(texts)] if self.joins else [(text,) for text in texts]

    def row_of(self, item: Any) -> Texts | None:
        """Return the texts of a row that is given in Python; None if it has another form."""
        several = isinstance(item, Iterable) and not isinstance(item, Mapping | Set)  # no order
        row = (item,) if isinstance(item, str) else tuple(item) if several else ()
        fits = self.fits(len(row)) and all(isinstance(text, str) for text in row)
        return row if fits else None

    def fits(self, count: int) -> bool:
        """Return True if a row can have this number of texts."""
        return count == self.texts

    def row_of_typed(self, texts: Sequence[str]) -> Texts:
        """Return the texts of a row that is typed in the fields of `serve`."""
        return tuple(texts)

    def typed(self, texts: Sequence[str]) -> Texts:
        """Return the texts of a row as they are typed: the inverse of ``row_of_typed``."""
        return tuple(texts)

    def row_of_line(self, line: str) -> Texts | None:
        """Return the texts of a line of a text file, separated by tabs; None if they do not fit."""
        row = tuple(line.split("\t"))
        return row if self.fits(len(row)) else None


def input_of(task: TaskConfig) -> Input:
    """Return the input of a task."""
    made: Input = input_type(task.input)
    return made
