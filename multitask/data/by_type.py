"""How the rows of each task type are read, and how its labels are found in the tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from multitask.config import Config, DataConfig
from multitask.data import answers, masking, tags
from multitask.data.chosen_endings import chosen_rows
from multitask.data.labels import row_labels
from multitask.data.readers.columns import Table
from multitask.data.texts import rows_of, rows_of_texts, texts_from_file
from multitask.data.tokenize import Split, Tokens
from multitask.tasks.base import Columns, RowLabels, TaskType
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


def labelled_rows(
    config: Config, task: str, table: Table, rows: Rows, *, split: str, reader: LabelReader
) -> Rows:
    """Add one label per row; see ``row_labels``."""
    data = config.tasks[task].data
    return replace(rows, labels=row_labels(data, table, rows, reader, split=split))


@dataclass(frozen=True)
class Reading:
    """The functions of a task type that need files or tokens.

    Attributes:
        rows_of: (how to read, table) -> rows without labels.
        labelled_rows: (config, task, table, rows; split, reader) -> the rows with labels.
        rows_of_file: (task config, file) -> rows without labels, from a file of the user.
        rows_of_texts: (texts, input, source) -> rows without labels, from texts in Python.
        mark_tokens: (rows, tokens) -> tokens with the labels marked, and the number of labels
            without a token.
        read_output: (output per row, rows, tokens) -> predictions, scores and mean loss; also
            takes the ``threshold`` of a head that has one.
        threshold: (output per row, rows, tokens) -> the threshold of a head that has one.
        guess_loss: (training tokens, masking) -> loss of the trivial guess.
        guess: (training tokens, dev split, masking) -> columns of the trivial guess.
        words: True if the tokens need the numbers of their words.
        windows: True if a long text may be read in windows.
        cut_off: what happens to labels without a token, for `check`.
        drops_cut: True if a training row is left out whose label has no token.
    """

    rows_of: Callable[[DataConfig, Table], Rows] = rows_of
    labelled_rows: Callable[..., Rows] = labelled_rows
    rows_of_file: Callable[..., Rows] = texts_from_file
    rows_of_texts: Callable[..., Rows] = rows_of_texts
    mark_tokens: Callable[[Rows, Tokens], tuple[Tokens, int]] | None = None
    read_output: Callable[..., tuple[Any, Any, float]] | None = None
    threshold: Callable[[Any, Rows, Tokens], float] | None = None
    guess_loss: Callable[[Tokens, Any], float] | None = None
    guess: Callable[[Tokens, Split, Any], Columns] | None = None
    words: bool = False
    windows: bool = False
    cut_off: str = "labels are cut off"
    drops_cut: bool = False


# by the name of the type; a type that is not here has a label column of one label per row
READINGS = {
    "tags": Reading(
        tags.rows_of_words,
        tags.tagged_rows,
        tags.words_from_file,
        tags.words_rows,
        mark_tokens=tags.placed_tags,
        read_output=tags.tags_of_output,
        cut_off="words are cut off, and predicted as O",
    ),
    "span": Reading(
        labelled_rows=answers.asked_rows,
        mark_tokens=answers.placed_answers,
        read_output=answers.answers_of_output,
        threshold=answers.threshold_of_output,
        guess_loss=answers.guess_loss,
        windows=True,
        cut_off="answers are cut off",
        drops_cut=True,
    ),
    "choice": Reading(labelled_rows=chosen_rows),
    "tokens": Reading(guess_loss=masking.guess_loss, guess=masking.guess, words=True),
}


def reading_of(task_type: TaskType) -> Reading:
    """Return how the rows of a task type are read."""
    return READINGS.get(task_type.name, Reading())


def shares_rows(task_type: TaskType) -> bool:
    """Return True if other tasks may train on the same rows; ``load_together`` reads them."""
    one_per_row = reading_of(task_type).labelled_rows is labelled_rows
    return isinstance(task_type, RowLabels) and one_per_row
