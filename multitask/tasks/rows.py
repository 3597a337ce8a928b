"""The rows of one split: texts and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

ORDINALS = "first second third fourth fifth sixth seventh eighth ninth".split()


def ordinal(number: int) -> str:
    """Return the name of a text of a row by its number from 0, such as "first"."""
    return ORDINALS[number] if number < len(ORDINALS) else f"{number + 1}th"


@dataclass
class Rows:
    """One split of one task.

    Attributes:
        source: where the rows come from, for messages.
        ids: the id of each row.
        texts: the texts of each row: one, two for a pair, three for a triplet.
        labels: the labels, None for a split without labels:

            - classes: int64 [N], also 0/1
            - numbers: float64 [N]
            - any number of classes: float64 0/1 [N, C]
            - tags of words: int64 [N, longest], -1 after the last word of a row
            - answers: the start and end of the first one in characters, end excluded, [N, 2]
            - contrastive: a number per text [N, texts]; equal texts have the same number
        unlabelled_dropped: number of rows that were dropped because they have no label.
        words: the words of each row, if words are tagged; its text joins them with spaces.
        answers: the texts of all answers of each row, for questions.
        tokens: the tokens of the rows, if they were needed before the rows were split.
    """

    source: str
    ids: list[str]
    texts: list[tuple[str, ...]]
    labels: np.ndarray | None
    unlabelled_dropped: int = 0
    words: list[tuple[str, ...]] | None = None
    answers: list[tuple[str, ...]] | None = None
    tokens: Any = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def gold(self) -> np.ndarray:
        """The labels of a split that must have them. Raises ValueError if it has none."""
        if self.labels is None:
            raise ValueError(f"{self.source} has no labels")
        return self.labels

    def take(self, index: np.ndarray | Sequence[int]) -> "Rows":
        """Return the rows at ``index``, in that order."""
        index = np.asarray(index, dtype=np.int64)
        numbers = index.tolist()
        return replace(
            self,
            ids=[self.ids[i] for i in numbers],
            texts=[self.texts[i] for i in numbers],
            labels=None if self.labels is None else self.labels[index],
            unlabelled_dropped=0,
            words=self.words and [self.words[i] for i in numbers],
            answers=self.answers and [self.answers[i] for i in numbers],
            tokens=None if self.tokens is None else self.tokens.take(index),
        )
