"""Parse table cells that hold a list as text, such as ``[2, 6, 7]`` or ``['a', 'b']``."""

import ast
import json
import re
import warnings
from typing import Any

ITEM = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'",;()\[\]{}]+"""
# without quotes: the missing values of Python, JSON, numpy and pandas
MISSING = {"None", "null", "<NA>", "NaT", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"}
LIST = re.compile(rf"\[\s*(?:(?:{ITEM})\s*(?:,\s*(?:{ITEM})\s*)*(?:,\s*)?)?\]", re.DOTALL)
ITEMS = re.compile(ITEM, re.DOTALL)


def list_in(cell: str) -> list[str] | None:
    """Return the items of a cell with a list of JSON or Python; None for any other cell.

    Numbers and words without quotes are returned as written, and a missing value as "". Raises
    ValueError for an incomplete list, for a list of other values, and for a set or an object.
    """
    text = cell.strip()
    if not (text.startswith(("[", "{")) or text.endswith("]")):
        return None
    if not LIST.fullmatch(text):
        raise ValueError(f"is {cell!r:.60}: expected a list such as [2, 6] or ['a', 'b']")
    return [_unquoted(item) for item in ITEMS.findall(text)]


def _unquoted(item: str) -> str:
    if item == "...":
        raise ValueError("holds '...': the list was shortened when it was printed")
    if item[0] not in "'\"":
        return "" if item in MISSING else item
    try:
        text = str(_literal(item))
        text.encode()  # an escape may give half a character
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"holds {item!r:.60}, which is no text: {error}") from None
    return text


def _literal(item: str) -> Any:
    """Return the value of a text in the quotes of JSON or Python."""
    try:
        return json.loads(item)
    except ValueError:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a backslash that escapes nothing
        return ast.literal_eval(item)
