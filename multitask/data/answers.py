"""Rows of extractive question answering (SQuAD v1.1): answers as characters and as tokens."""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.data.labels import each_label
from multitask.data.readers.columns import Table
from multitask.data.tokenize import Tokens
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

OFFSET = re.compile(r"-?[0-9]{1,9}")


def asked_rows(
    config: Config, task: str, table: Table, rows: Rows, *, split: str, reader: LabelReader
) -> Rows:
    """Add the answers of each row.

    ``labels`` has the characters [start, end) of the first answer in the context, int64 [N, 2], -1
    without one. ``answers`` has the texts of all answers. Raises UserError with file and row if an
    answer has another form, is not at its offset, or is missing.
    """
    data = config.tasks[task].data

    def read(cell: Any, row: int) -> list[tuple[str, int]] | None:
        pairs = _answers_in(cell)
        if not pairs and (cell is None or split == "test"):
            return None
        if not pairs:
            raise ValueError(
                "has no answer: unanswerable questions (SQuAD v2) are not supported: leave the "
                "row out"
            )
        context = rows.texts[row][1]
        for text, start in pairs:
            if not text.strip() or context[start : start + len(text)] != text or start < 0:
                at = f"is not at character {start} of {data.text2}"
                raise ValueError(f"has the answer {text!r:.60}, which {at}")
        return pairs

    labels = np.full((len(rows), 2), -1, dtype=np.int64)
    answers: list[tuple[str, ...]] = [()] * len(rows)
    for row, pairs in each_label(data, table, rows, read, split=split):
        labels[row] = pairs[0][1], pairs[0][1] + len(pairs[0][0])
        answers[row] = tuple(dict.fromkeys(text for text, _ in pairs))
    return replace(rows, labels=labels, answers=answers)


def _answers_in(value: Any) -> list[tuple[str, int]]:
    """Read the answers of a row as (text, first character); docs/extending.md has the forms.

    Raises ValueError for any other form.
    """
    if value is None:
        return []
    try:
        if isinstance(value, dict):
            texts, starts = value["text"], value["answer_start"]
            several = isinstance(texts, list)
            answers = [*zip(texts, starts, strict=True)] if several else [(texts, starts)]
        else:
            answers = [(answer["text"], answer["answer_start"]) for answer in value]
        pairs = [(text, _offset(start)) for text, start in answers if isinstance(text, str)]
    except (KeyError, TypeError, ValueError):
        answers, pairs = [value], []
    if len(pairs) < len(answers):
        form = '{"text": [...], "answer_start": [...]}'
        raise ValueError(f"is {value!r:.60}: expected {form}")
    return pairs


def _offset(start: Any) -> int:
    """Return a whole number, which JSON lines give as text. Raises ValueError for others."""
    if isinstance(start, int) or (isinstance(start, str) and OFFSET.fullmatch(start)):
        return int(start)
    raise ValueError(start)


def placed_answers(rows: Rows, tokens: Tokens) -> tuple[Tokens, int]:
    """Mark each row's answer by its first and last token; also count the answers cut off.

    An answer is cut off if no input contains all of it; its tokens are -1. If only another window
    of the row contains the answer, the window is marked with its first token, as in BERT's code.
    Rows without labels get no marks.
    """
    assert tokens.spans is not None, "answers need tokens that were made with their characters"
    if rows.labels is None:
        return tokens, 0
    answers = np.full((len(tokens), 2), -1, dtype=np.int64)
    owners = tokens.row_of
    for i, owner in enumerate(owners):
        start, end = rows.labels[owner]
        begins, ends = tokens.spans[tokens.offsets[i] : tokens.offsets[i + 1]].T
        # tokens that share a character with the answer; some include the space before a word
        inside = begins >= 0
        touching = np.flatnonzero((begins < end) & (ends > start) & inside)
        later = i > 0 and owners[i - 1] == owner
        reaches_end = len(touching) and ends.max() >= end
        if reaches_end and (not later or begins[inside].min() <= start):
            answers[i] = touching[0], touching[-1]
    complete = np.zeros(len(rows), dtype=bool)
    complete[owners[answers[:, 0] >= 0]] = True
    answers[(answers[:, 0] < 0) & complete[owners]] = 0
    return replace(tokens, answers=answers), int((~complete).sum())


def characters_of(
    rows: Rows, tokens: Tokens, places: np.ndarray, windows: np.ndarray
) -> np.ndarray:
    """Convert predicted first and last tokens [N, 2] to characters [start, end) of the context.

    ``windows`` [N] has the row of ``tokens`` that each prediction is in. White space around an
    answer is removed. A row without a prediction (-1) gets [0, 0).
    """
    assert tokens.spans is not None, "answers need tokens that were made with their characters"
    characters = np.zeros((len(rows), 2), dtype=np.int64)
    for i, (first, last) in enumerate(places):
        if first < 0:
            continue
        begin = tokens.offsets[windows[i]]
        start, end = tokens.spans[begin + first, 0], tokens.spans[begin + last, 1]
        text = rows.texts[i][1][start:end]
        start += len(text) - len(text.lstrip())
        characters[i] = start, start + len(text.strip())
    return characters


def answers_of_output(
    output: np.ndarray, rows: Rows, tokens: Tokens
) -> tuple[np.ndarray, np.ndarray, float]:
    """Convert the head's best span per input [N, 5] to characters [N, 2], probability [N, 1], loss.

    If a row has several windows, the span with the highest logits counts. The loss is the mean over
    the inputs of rows whose answer is not cut off.
    """
    logits = np.where(output[:, 0] < 0, -np.inf, output[:, 4])
    windows = best_windows(logits, tokens.row_of)
    predictions = characters_of(rows, tokens, output[windows, :2].astype(np.int64), windows)
    loss = float("nan")
    if tokens.answers is not None and (tokens.answers[:, 0] >= 0).any():
        loss = float(output[tokens.answers[:, 0] >= 0, 3].mean())
    return predictions, output[windows, 2:3], loss


def guess_loss(train: Tokens, masking: object) -> float:
    """Return the mean loss of a uniform guess over the tokens of each input."""
    return float(np.log(train.lengths).mean())


def best_windows(scores: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """Return the window with the highest score of each row, the first of equals.

    Args:
        scores: float [W], a score per window.
        row_of: int64 [W], the row of each window.

    Returns:
        The numbers of the windows, int64 [rows], in the order of the rows.
    """
    order = np.lexsort((-scores, row_of))
    best: np.ndarray = order[np.unique(row_of[order], return_index=True)[1]]
    return best
