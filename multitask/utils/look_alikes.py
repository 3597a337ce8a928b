"""Texts that look alike but differ: NFC and NFD, no-break spaces, characters without a width."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher

# control characters, and the characters that Unicode calls `Default_Ignorable_Code_Point`: soft
# hyphens, zero-width spaces and joiners, directional marks, byte order marks, variation selectors
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
COMPARED = 200  # characters of a text in which differences are listed
SHOWN = 3  # most differences in a message


def look(text: str) -> str:
    """Return a key that is equal for texts that look alike.

    It ignores invisible characters, the Unicode form, case, and the kind and amount of white space.
    """
    visible = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", visible).split())


def difference(text: str, other: str) -> str:
    """List the code points in which ``text`` differs from ``other``, which looks like it.

    Return "" if the difference is plain ASCII, which a reader sees.
    """
    text, other = text[:COMPARED], other[:COMPARED]
    matcher = SequenceMatcher(None, other, text, autojunk=False)
    parts = []
    for _, start, end, first, last in matcher.get_opcodes():
        gone, new = other[start:end], text[first:last]
        if gone == new or ((gone + new).isascii() and (gone + new).isprintable()):
            continue
        if gone and new:
            parts.append(f"{_points(new)} instead of {_points(gone)}")
        else:
            parts.append(f"{_points(new)} added" if new else f"{_points(gone)} left out")
    return ", ".join(parts[:SHOWN]) + (", ..." if len(parts) > SHOWN else "")


def _points(letters: str) -> str:
    return " ".join(f"U+{ord(letter):04X}" for letter in letters)


def looks_like(text: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known text that ``text`` looks like; "" if there is none."""
    key = look(text)
    for other in known:
        if look(other) == key and (differing := difference(text, other)):
            return f"; it looks like {other!r}, but has {differing}"
    return ""
