"""The rows of one split: texts and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass
class Rows:
    """One split of one task.

    ``labels`` is int64 class ids, 0/1, or float64 numbers [N]; of several classes at once float64
    0/1 [N, C]; None where the split has none. Of a contrastive task it numbers the texts of each
    row [N, texts], equal texts alike.
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
