"""Cells of a table that are written as a list, such as ``[2, 6, 7]`` or ``['a', 'b']``."""

import ast
import json
import re
import warnings

ITEM = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'",\[\]]+"""
LIST = re.compile(rf"\[\s*(?:(?:{ITEM})\s*(?:,\s*(?:{ITEM})\s*)*(?:,\s*)?)?\]", re.DOTALL)
ITEMS = re.compile(ITEM, re.DOTALL)


def list_in(cell: str) -> list[str] | None:
    """The items of a cell that is written as a list, as JSON or Python write it; else None.

    Numbers and words without quotes are text as they are written. Raises ValueError for half a
    list, and for one that holds anything else.
    """
    text = cell.strip()
    if not (text.startswith("[") or text.endswith("]")):
        return None
    if not LIST.fullmatch(text):
        raise ValueError(f"is {cell!r:.60}: expected a list such as [2, 6] or ['a', 'b']")
    return [_unquoted(item) for item in ITEMS.findall(text)]


def _unquoted(item: str) -> str:
    if item[0] not in "'\"":
        return "" if item in ("None", "null") else item
    try:
        return str(json.loads(item))
    except ValueError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a backslash that escapes nothing
            return str(ast.literal_eval(item))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"holds {item!r:.60}, which is no text: {error}") from None
