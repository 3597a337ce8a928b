"""Score a guess that looks at no text, to compare trained scores with."""

from typing import Any

from multitask.data.by_type import reading_of
from multitask.data.collate import label_tensor
from multitask.data.masking import Masking
from multitask.data.tokenize import Split
from multitask.tasks import metrics
from multitask.tasks.label_reader import LabelReader


def trivial_scores(
    head: Any, train: Split, dev: Split, reader: LabelReader, masking: Masking | None = None
) -> dict[str, float]:
    """Compute dev metrics of a guess that knows only the training labels.

    ``TaskType.trivial`` defines the guess. A contrastive task guesses among the candidates of each
    row; masked tokens are guessed by their frequency in the training texts.
    """
    kind = reader.task_type
    if kind.compares_rows:
        return dict.fromkeys(kind.metrics, head.chance(label_tensor(dev.rows.gold)))
    if guess_tokens := reading_of(kind).guess:
        return metrics.compute(kind, guess_tokens(train.tokens, dev, masking))
    guess = kind.trivial(train.rows, dev.rows, reader)
    return metrics.compute(kind, kind.columns(dev.rows, reader, *guess), reader.metrics)
