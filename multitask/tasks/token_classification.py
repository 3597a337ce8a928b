"""One tag per word, scored by entities as in seqeval.

Labels are tag ids, int [N, longest], -1 after the last word of a row. Predictions have the same
shape; a word that the encoder does not see (cut off, or without a word piece) has -1 and counts as
outside of every entity. Scores are the probability of each predicted tag. Metrics are computed from
counts per row, over all entities and all words.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, Record, WordLabels, divide
from multitask.tasks.label_reader import LabelReader, canonical, is_missing, label_text
from multitask.tasks.list_cells import list_in
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

OUTSIDE = "O"
# scheme -> letter -> letters of the same type, one of which must be before it, and after it
SCHEMES = {
    "IOB2": {"B": ("", ""), "I": ("BI", "")},
    "IOB1": {"B": ("BI", ""), "I": ("", "")},
    "IOE2": {"E": ("", ""), "I": ("", "IE")},
    "IOE1": {"E": ("", "IE"), "I": ("", "")},
    "IOBES": {"B": ("", "IE"), "E": ("BI", ""), "I": ("BI", "IE"), "S": ("", "")},
    "BILOU": {"B": ("", "IL"), "I": ("BI", "IL"), "L": ("BI", ""), "U": ("", "")},
}
# `tag_scheme: repair`: broken rows are written anew in the first of these schemes that has all tags
REPAIR = "repair"
# scheme -> letters of the first, an inner and the last word of an entity, and of its only word
UNITS = {"IOB2": "BIIB", "IOE2": "IIEE", "IOBES": "BIES", "BILOU": "BILU"}


class TokenClassification(WordLabels):
    """Predict a tag per word."""

    name = "tags"
    predicts = "a tag for each word"
    gives = "a tag for each word"
    selects = ("f1", "precision", "recall", "accuracy")
    metrics = selects
    pipeline = "token-classification"
    figure_shows = "Confusion matrix of {task} on dev"
    counted = "words of dev"
    # entities in the gold tags, in the predicted tags, in both; words, words with the right tag
    measured = ("entities", "predicted", "right", "words", "right_words")
    described_by = "labels"

    def check_classes(self, names: Sequence[str], scheme: str) -> None:
        """Raise UserError if a tag does not fit the scheme, or the tag for no entity is missing."""
        import_seqeval()  # an error before the training if it is missing
        wrong = next((name for name in names if not _fits(name, scheme)), None)
        if wrong is not None:
            letters = ", ".join(f"{letter}-TYPE" for letter in SCHEMES[scheme])
            others = [s for s in SCHEMES if all(_fits(name, s) for name in names)]
            advice = f", or set `tag_scheme: {others[0]}`" if others else ""
            raise UserError(
                f"{wrong!r} is no tag of {scheme} ({OUTSIDE}, {letters}): name the tags in "
                "`labels`, such as {0: O, 1: B-PER, 2: I-PER}" + advice
            )
        if OUTSIDE not in names:
            raise UserError(f"the tags lack {OUTSIDE}, for words in no entity")

    def values_in(
        self, cell: Any, unlabelled: Collection[str], separator: str
    ) -> Sequence[str] | None:
        if is_missing(cell) or (isinstance(cell, str) and canonical(cell) in {"", *unlabelled}):
            return None
        tags = list_in(cell) if isinstance(cell, str) else cell
        if not isinstance(tags, list):
            raise ValueError(f"is {cell!r:.60}: expected a list of tags")
        return [label_text(tag) for tag in tags]

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        sums = [column[rows].sum(axis=1) for column in np.asarray(columns[2], float).T]
        gold, predicted, right, words, right_words = sums
        every = {
            "f1": 2 * right / np.maximum(gold + predicted, 1),
            "precision": right / np.maximum(predicted, 1),
            "recall": right / np.maximum(gold, 1),
            "accuracy": divide(right_words, words),
        }
        return {name: np.where(words > 0, every[name], np.nan) for name in names}

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the most frequent tag of the training words for every word."""
        most = np.bincount(train.gold[train.gold >= 0]).argmax()
        return np.full(dev.gold.shape, most), np.ones(dev.gold.shape)

    def confusion_columns(
        self, rows: Rows, reader: LabelReader, predictions: Array
    ) -> tuple[Array, Array]:
        """Return the gold and the predicted tag of every word."""
        inside = rows.gold >= 0
        return rows.gold[inside], _seen(predictions, reader)[inside]

    def label(self, rows: Rows, i: int, reader: LabelReader) -> list[str] | None:
        if rows.labels is None:
            return None
        return [reader.names[tag] for tag in rows.labels[i] if tag >= 0]

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        """Yield records; ``scores`` are the probabilities of the tags, None for unseen words."""
        for i, words in enumerate(rows.words or []):
            tags = [reader.names[tag] for tag in _seen(predictions[i], reader)[: len(words)]]
            gold = self.label(rows, i, reader)
            counts = () if gold is None else outcome(gold, tags, reader.scheme)
            shown = scores[i, : len(words)].tolist()
            yield {
                "words": list(words),
                "label": gold,
                "prediction": tags,
                "scores": [None if np.isnan(chance) else round(chance, 6) for chance in shown],
                "measured": dict(zip(self.measured, counts, strict=True)) if counts else None,
            }

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        """List the words with a wrong tag; the size is the highest probability of those tags."""
        gold, predicted, scores = record["label"], record["prediction"], record["scores"]
        wrong = [i for i, tag in enumerate(gold) if tag != predicted[i]]
        if not wrong:
            return None
        size = max((scores[i] for i in wrong if scores[i] is not None), default=None)
        words = record["words"]
        named = (", ".join(f"{words[i]}: {tags[i]}" for i in wrong) for tags in (gold, predicted))
        return Mistake(size, *named)

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        return " ".join(self.label(rows, i, reader) or [])

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        pairs = zip(record["words"], record["prediction"], strict=True)
        named = [f"{word} ({tag})" for word, tag in pairs if tag != OUTSIDE]
        return {"prediction": ", ".join(named) or f"{OUTSIDE} alone"}


def _fits(name: str, scheme: str) -> bool:
    """Return True if a scheme has a tag's letter."""
    letter, _, kind = name.partition("-")
    return name == OUTSIDE or (letter in SCHEMES[scheme] and kind != "")


def scheme_of(names: Collection[str], chosen: str) -> str:
    """Return the scheme of ``data.tag_scheme``; for `repair`, the first one that has all tags."""
    fitting = (s for s in UNITS if all(_fits(name, s) for name in names))
    return next(fitting, "IOB2") if chosen == REPAIR else chosen


def tags_of_repairs(names: Collection[str], scheme: str) -> list[str]:
    """Return the tags that ``repaired`` may write in place of ``names``, as far as they are new."""
    letters = UNITS[scheme]  # of two letters, `I` is never written anew
    letters = letters if len({*letters}) > 2 else letters[-1]
    kinds = dict.fromkeys(name.partition("-")[2] for name in names if name != OUTSIDE)
    every = dict.fromkeys(f"{letter}-{kind}" for kind in kinds for letter in letters)
    return [tag for tag in every if tag not in names]


def repaired(tags: Sequence[str], scheme: str) -> list[str]:
    """Write the tags of a sentence as a scheme demands: a stray ``I-`` of IOB2 becomes ``B-``.

    Neighbours of one type are one entity, unless a letter says that one ends or begins there, as in
    the conlleval script of CoNLL-2000.
    """
    entities_in: list[list[int]] = []
    left, left_kind = OUTSIDE, ""
    for place, tag in enumerate(tags):
        letter, _, kind = tag.partition("-")
        begins = kind != left_kind or left in "ELSUO" or letter in "BSU"
        if tag != OUTSIDE and begins:
            entities_in.append([])
        if tag != OUTSIDE:
            entities_in[-1].append(place)
        left, left_kind = letter, kind
    first, inner, last, only = list(UNITS[scheme])
    made = list(tags)
    for places in entities_in:
        letters = [first, *inner * (len(places) - 2), last] if len(places) > 1 else [only]
        for place, letter in zip(places, letters, strict=True):
            made[place] = f"{letter}-{tags[place].partition('-')[2]}"
    return made


def breaks(labels: Array, names: Sequence[str], scheme: str) -> Array:
    """Mark the places in rows of tags where neighbours are impossible in a scheme.

    Args:
        labels: the tags, int [N, longest], -1 after the last word of a row.
        names: the names of the tags.
        scheme: a key of ``SCHEMES``.

    Returns:
        bool [N, longest + 1]: place j is between the words j - 1 and j.
    """
    tags = [name.partition("-")[::2] for name in (*names, OUTSIDE)]  # -1 is the last one
    rules = {OUTSIDE: ("", ""), **SCHEMES[scheme]}

    def impossible(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
        if left[0] not in rules or right[0] not in rules:
            return True
        before, after = rules[right[0]][0], rules[left[0]][1]
        fits = (not before or left[0] in before) and (not after or right[0] in after)
        return not fits or (left[1] != right[1] and bool(before or after))

    table = np.array([[impossible(left, right) for right in tags] for left in tags])
    padded = np.pad(labels, ((0, 0), (1, 1)), constant_values=-1)
    marked: Array = table[padded[:, :-1], padded[:, 1:]]
    return marked


def _seen(predictions: Array, reader: LabelReader) -> Array:
    """Return the predicted tags, with the tag for no entity for unseen words."""
    return np.where(predictions < 0, reader.names.index(OUTSIDE), predictions)


def import_seqeval() -> Any:
    """Import ``seqeval.scheme``. Raises UserError if seqeval is missing."""
    return optional("seqeval.scheme", "tagged words are scored with seqeval", "tags")


def entities(tags: Sequence[str], scheme: str) -> set[tuple[str, int, int]]:
    """Return (type, first word, last word + 1) of each entity of a sentence.

    The scheme is strict: words that do not begin an entity as it says are not an entity.
    """
    schemes = import_seqeval()
    tokens = schemes.Tokens(list(tags), getattr(schemes, scheme))
    return {entity.to_tuple()[1:] for entity in tokens.entities}


def outcome(gold: Sequence[str], predicted: Sequence[str], scheme: str) -> tuple[int, ...]:
    """Count ``TokenClassification.measured`` in one sentence."""
    wanted, marked = entities(gold, scheme), entities(predicted, scheme)
    right = sum(tag == other for tag, other in zip(gold, predicted, strict=True))
    return len(wanted), len(marked), len(wanted & marked), len(gold), right
