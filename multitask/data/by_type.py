"""How the rows of each task type are read, and how its labels are found in the tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multitask.config import Config
from multitask.data import answers, masking, tags
from multitask.data.chosen_endings import chosen_rows
from multitask.data.load_rows import load_rows, rows_of_texts, texts_from_file
from multitask.data.texts import sample, unlabelled_rows
from multitask.data.tokenize import Split, Tokens
from multitask.tasks.base import Columns, NoLabels, RowLabels, TaskType
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


@dataclass(frozen=True)
class Reading:
    """The functions of a task type that need files or tokens.

    Attributes:
        load_rows: (config, task, split, reader) -> rows of a split.
        rows_of_file: (task config, file) -> rows without labels, from a file of the user.
        rows_of_texts: (texts, input, source) -> rows without labels, from texts in Python.
        mark_tokens: (rows, tokens) -> tokens with the labels marked, and the number of labels
            without a token.
        read_output: (output per row, rows, tokens) -> predictions, scores and mean loss.
        guess_loss: (training tokens, masking) -> loss of the trivial guess.
        guess: (training tokens, dev split, masking) -> columns of the trivial guess.
        words: True if the tokens need the numbers of their words.
        windows: True if a long text may be read in windows.
        cut_off: what happens to labels without a token, for `check`.
        drops_cut: True if a training row is left out whose label has no token.
    """

    load_rows: Callable[[Config, str, str, LabelReader], Rows] = load_rows
    rows_of_file: Callable[..., Rows] = texts_from_file
    rows_of_texts: Callable[..., Rows] = rows_of_texts
    mark_tokens: Callable[[Rows, Tokens], tuple[Tokens, int]] | None = None
    read_output: Callable[[Any, Rows, Tokens], tuple[Any, Any, float]] | None = None
    guess_loss: Callable[[Tokens, Any], float] | None = None
    guess: Callable[[Tokens, Split, Any], Columns] | None = None
    words: bool = False
    windows: bool = False
    cut_off: str = "labels are cut off"
    drops_cut: bool = False


# by the name of the type; a type that is not here has a label column of one label per row
READINGS = {
    "tags": Reading(
        tags.tagged_rows,
        tags.words_from_file,
        tags.words_rows,
        mark_tokens=tags.placed_tags,
        read_output=tags.tags_of_output,
        cut_off="words are cut off, and predicted as O",
    ),
    "span": Reading(
        answers.asked_rows,
        mark_tokens=answers.placed_answers,
        read_output=answers.answers_of_output,
        guess_loss=answers.guess_loss,
        windows=True,
        cut_off="answers are cut off",
        drops_cut=True,
    ),
    "choice": Reading(chosen_rows),
    "tokens": Reading(guess_loss=masking.guess_loss, guess=masking.guess, words=True),
}


def reading_of(task_type: TaskType) -> Reading:
    """Return how the rows of a task type are read."""
    return READINGS.get(task_type.name, Reading())


def shares_rows(task_type: TaskType) -> bool:
    """Return True if other tasks may train on the same rows; ``load_together`` reads them."""
    return isinstance(task_type, RowLabels) and reading_of(task_type).load_rows is load_rows


def split_rows(config: Config, task: str, split: str, readers: Mapping[str, LabelReader]) -> Rows:
    """Read a split of a task: rows with labels, or the texts of a task without labels.

    Of dev and of a labelled test split only ``max_dev_rows`` are returned. An unlabelled test split
    is returned whole, as its predictions are handed in, except in a trial (`--try`).
    """
    parts = [
        reading_of(readers[name].task_type).load_rows(config, name, split, readers[name])
        for name in config.tasks[task].data.texts_of or [task]
    ]
    if isinstance(readers[task].task_type, NoLabels):
        parts = [unlabelled_rows(config, task, parts, readers[task])]
    (rows, *_) = parts
    to_hand_in = split == "test" and rows.labels is None and not config.trial
    if split == "train" or to_hand_in:
        return rows
    return sample(rows, config.tasks[task].max_dev_rows)
