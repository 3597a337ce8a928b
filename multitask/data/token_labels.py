"""Tasks whose labels stand in the tokens, by label type: how rows are read, and marked there."""

from collections.abc import Callable, Mapping

from multitask.config import Config
from multitask.data.answers import asked_rows, placed_answers
from multitask.data.tags import placed_tags, tagged_rows
from multitask.data.tokenize import Tokens
from multitask.tasks.examples import LabelReader, Rows

READERS: Mapping[str, Callable[[Config, str, str, LabelReader], Rows]] = {
    "tags": tagged_rows,
    "span": asked_rows,
}
PLACED: Mapping[str, Callable[[Rows, Tokens], tuple[Tokens, int]]] = {
    "tags": placed_tags,
    "span": placed_answers,
}
