"""Entities in tagged words, by the scheme that the tags follow: what seqeval counts."""

from collections.abc import Sequence
from typing import Any

from multitask.tasks import token_classification as tagging
from multitask.tasks.examples import LabelReader
from multitask.utils.errors import UserError

OUTSIDE = "O"


def import_seqeval() -> Any:
    """The library's schemes, or a line that says how to get it."""
    try:
        import seqeval.scheme
    except ImportError as error:
        raise UserError("tagged words are scored with seqeval: pip install seqeval") from error
    return seqeval.scheme


def check_tags(names: Sequence[str], scheme: str) -> None:
    """Raise UserError unless the tags are those of a scheme, with one for words in no entity."""
    known = str(getattr(import_seqeval(), scheme).allowed_prefix).removeprefix("Prefix.").split("|")
    starts = [prefix for prefix in sorted(known) if prefix != OUTSIDE]
    shown = f"{OUTSIDE}, {', '.join(f'{prefix}-TYPE' for prefix in starts)}"
    for name in names:
        prefix, dash, kind = name.partition("-")
        if name != OUTSIDE and not (prefix in starts and dash and kind):
            raise UserError(
                f"{name!r} is no tag of {scheme} ({shown}): name the tags in `labels`, such as "
                "{0: O, 1: B-PER, 2: I-PER}, or set `tag_scheme`"
            )
    if OUTSIDE not in names:
        raise UserError(f"the tags lack {OUTSIDE}, for words in no entity")


def entities(tags: Sequence[str], scheme: str) -> set[tuple[str, int, int]]:
    """(type, first word, behind-last word) of each entity of a sentence, strictly by the scheme:
    what does not begin as it says is none."""
    made = import_seqeval()
    found = made.Tokens(list(tags), getattr(made, scheme)).entities
    return {entity.to_tuple()[1:] for entity in found}


def outcome(gold: Sequence[str], predicted: Sequence[str], scheme: str) -> tuple[int, ...]:
    """What is measured of one sentence: ``multitask.tasks.metric_names.OUTCOMES`` of tags."""
    known, found = entities(gold, scheme), entities(predicted, scheme)
    right = sum(one == other for one, other in zip(gold, predicted, strict=True))
    return len(known), len(found), len(known & found), len(gold), right


def outside(reader: LabelReader) -> int:
    """The tag of words in no entity, which a word that the encoder does not see gets."""
    return reader.names.index(tagging.OUTSIDE)
