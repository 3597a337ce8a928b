"""Read the nested file of the SQuAD site as a table with a row per question.

{"version": "v2.0", "data": [{"title": "Ada", "paragraphs": [{"context": "Ada wrote.", "qas": [
  {"id": "1", "question": "Who wrote?", "answers": [{"text": "Ada", "answer_start": 0}]}]}]}]}
"""

from collections.abc import Iterator
from typing import Any

from multitask.utils.errors import UserError, suggest


def is_nested(value: Any) -> bool:
    """Return True if a JSON value has the keys of the file: ``data`` is a list of objects."""
    articles = value.get("data") if isinstance(value, dict) else None
    return isinstance(articles, list) and all(isinstance(each, dict) for each in articles)


def columns_of_nested(value: Any, source: str) -> dict[str, list]:
    """Return the columns question, context, answers and id.

    A file in which no question has the key ``answers``, such as a hidden test set, has no such
    column. Raises UserError, with the place in ``source``, for a missing key.
    """
    columns: dict[str, list] = {"question": [], "context": [], "answers": [], "id": []}
    firsts: dict[bool, str] = {}  # the place of the first question with the key, and without it
    for article, where in _each(value, "data", source, "article"):
        for paragraph, inside in _each(article, "paragraphs", where, "paragraph"):
            context = _at(paragraph, "context", inside)
            for asked, place in _each(paragraph, "qas", inside, "question"):
                columns["context"].append(context)
                columns["question"].append(_at(asked, "question", place))
                columns["id"].append(_at(asked, "id", place))
                columns["answers"].append(asked.get("answers"))
                firsts.setdefault("answers" in asked, place)
                if len(firsts) > 1:
                    lacks = "no key 'answers', which other questions have"
                    raise UserError(f"{firsts[False]}: {lacks}")
    if not columns["id"]:
        raise UserError(f"{source}: no questions")
    if True not in firsts:
        del columns["answers"]
    return columns


def _each(holder: Any, key: str, place: str, name: str) -> Iterator[tuple[Any, str]]:
    """Yield the objects in a list, each with its place. Raises UserError for other values."""
    values = _at(holder, key, place)
    if not isinstance(values, list):
        raise UserError(f"{place}: {key!r} is {values!r:.60}: expected a list of objects")
    for number, value in enumerate(values, 1):
        where = f"{place}, {name} {number}"
        if not isinstance(value, dict):
            raise UserError(f"{where}: expected an object, not {value!r:.60}")
        yield value, where


def _at(holder: Any, key: str, place: str) -> Any:
    """Return the value of a key. Raises UserError if it is missing."""
    if key not in holder:
        raise UserError(f"{place}: no key {key!r}{suggest(key, tuple(holder))}")
    return holder[key]
