"""Label vectors: a 0 or 1 per class, such as ``[0.0, 1.0, 0.0, 0.0]``.

Read as a list of classes, each vector would be the classes ``0`` and ``1``. So columns of vectors
are noticed, and read as vectors only if the config says so (``data.label_vectors``).
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from multitask.tasks.label_reader import label_text, number_of

BETWEEN = re.compile(r"[\s,;|]+")  # between the numbers of a vector in text
ODD = 0.1  # at most this share of a column of vectors is something else: rows with a mistake
WORDS = {"false": False, "true": True}


def vector_in(cell: Any, separator: str) -> list[bool] | None:
    """Return the 0 and 1 of a list, or of a text with several of them; None for any other cell.

    A text may be a list, too, such as ``[0, 1]`` or ``[0. 1.]`` (numpy). Without brackets it is
    split at ``separator``, or else at white space, commas, semicolons or bars.
    """
    if isinstance(cell, list):
        items = [label_text(item).strip() for item in cell]
    else:
        text = label_text(cell).strip()
        listed = text.startswith("[") and text.endswith("]")
        parts = [] if listed else [part for part in text.split(separator) if part.strip()]
        items = parts if len(parts) > 1 else BETWEEN.split(text.strip("[]").strip(",;| \t\r\n"))
        if len(items) < 2 and not listed:
            return None
    bits = [_bit(item) for item in items]
    return [bit for bit in bits if bit is not None] if bits and None not in bits else None


def _bit(item: str) -> bool | None:
    text = item.strip().strip("'\"").lower()
    number = number_of(text)
    return bool(number) if number in (0, 1) else WORDS.get(text)


def vector_length(
    cells: Sequence[Any], separator: str, padding: str | None = None, *, sure: bool = False
) -> int:
    """Return the length of the label vectors in a column; 0 if it does not hold vectors.

    Args:
        cells: the cells with a label.
        separator: between the labels in a text.
        padding: the value that fills up lists of classes, if there is one.
        sure: count only vectors that cannot be lists of the classes 0 and 1: they repeat a class,
            or name the same classes in two orders.
    """
    vectors = []
    for number, cell in enumerate(cells):
        vector = vector_in(cell, separator)
        if vector is not None:
            vectors.append(vector)
        elif number + 1 - len(vectors) > ODD * len(cells):
            return 0
    length, count = Counter(map(len, vectors)).most_common(1)[0] if vectors else (0, 0)
    if len(cells) - count > ODD * len(cells):
        return 0
    filler = None if padding is None else _bit(padding)
    if filler is not None and all(_filled_up(vector, filler) for vector in vectors):
        return 0
    alike = [tuple(vector) for vector in vectors if len(vector) == length]
    certain = length > 1 and (len(set(alike)) > 1 or len(set(alike[0])) < length)
    return length if certain or (not sure and count == len(cells)) else 0


def _filled_up(vector: Sequence[bool], filler: bool) -> bool:
    """Return True if nothing but the filler follows the first filler."""
    start = vector.index(filler) if filler in vector else len(vector)
    return all(bit is filler for bit in vector[start:])


def classes_in(cell: Any, values: Sequence[str], separator: str) -> list[str]:
    """Return the label values that are 1 in a vector. Raises ValueError for any other cell.

    The vector has one number per value: at the place of the value, or at the place that it names if
    the values are the numbers from 0.
    """
    vector = vector_in(cell, separator)
    if vector is None or len(vector) != len(values):
        raise ValueError(f"is {cell!r:.60}: expected {len(values)} numbers, 0 or 1: one per class")
    places = [str(place) for place in range(len(values))]
    named = places if set(values) == set(places) else values
    return [value for value, bit in zip(named, vector, strict=True) if bit]
