"""The texts of a task without labels (masked language modelling), and any task's rows by split."""

from collections.abc import Iterable, Mapping

import numpy as np

from multitask.config import Config
from multitask.data.load import LabelReader, Rows, load_rows
from multitask.errors import UserError


def distinct_texts(parts: Iterable[Rows]) -> Rows:
    """Each distinct text of some rows once, the sides of a pair apart; empty ones are left out.

    ``labels`` is the number of masked tokens of each text, 0 as long as none is masked. Raises
    UserError where no text is left.
    """
    parts = list(parts)
    texts = dict.fromkeys(text for part in parts for row in part.texts for text in row)
    kept: list[tuple[str, ...]] = [(text,) for text in texts if text.strip()]
    source = ", ".join(part.source for part in parts)
    if not kept:
        raise UserError(f"{source}: no texts")
    ids = [str(number) for number in range(len(kept))]
    return Rows(source, ids, kept, np.zeros(len(kept), dtype=np.int64))


def split_rows(config: Config, task: str, split: str, readers: Mapping[str, LabelReader]) -> Rows:
    """The rows of a split, as ``load_rows`` reads them; of a task without labels, its texts."""
    sources = config.tasks[task].data.texts_of
    if sources:
        return distinct_texts(load_rows(config, one, split, readers[one]) for one in sources)
    rows = load_rows(config, task, split, readers[task])
    return distinct_texts([rows]) if readers[task].label_type == "tokens" else rows
