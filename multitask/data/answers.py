"""Rows of extractive question answering (SQuAD): answers as characters and as tokens."""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.data.labels import each_label
from multitask.data.readers.columns import Table
from multitask.data.tokenize import Tokens
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.question_answering import best_threshold, outcome
from multitask.tasks.rows import Rows

OFFSET = re.compile(r"-?[0-9]{1,9}")


def asked_rows(
    config: Config, task: str, table: Table, rows: Rows, *, split: str, reader: LabelReader
) -> Rows:
    """Add the answers of each row.

    ``labels`` has the characters [start, end) of the first answer in the context, int64 [N, 2]:
    (0, 0) for a question without an answer, -1 for a row without a label. ``answers`` has the texts
    of all answers. Raises UserError with file and row if an answer has another form, is not at its
    offset, or is missing where each question needs one.

    A test split in which no question has an answer has no labels.
    """
    data = config.tasks[task].data

    def read(cell: Any, row: int) -> list[tuple[str, int]] | None:
        pairs = _answers_in(cell)
        if cell is None or not (pairs or reader.no_answer or split != "test"):
            return None
        if not (pairs or reader.no_answer):
            option = f"`head: {{name: {config.tasks[task].head.name}, no_answer: true}}`"
            raise ValueError(f"has no answer: allow it with {option}, or leave the row out")
        context = rows.texts[row][1]
        for text, start in pairs:
            if not text.strip() or context[start : start + len(text)] != text or start < 0:
                at = f"is not at character {start} of {data.text2}"
                raise ValueError(f"has the answer {text!r:.60}, which {at}")
        return pairs

    labels = np.full((len(rows), 2), -1, dtype=np.int64)
    answers: list[tuple[str, ...]] = [()] * len(rows)
    for row, pairs in each_label(data, table, rows, read, split=split):
        text, start = pairs[0] if pairs else ("", 0)
        labels[row] = start, start + len(text)
        answers[row] = tuple(dict.fromkeys(text for text, _ in pairs))
    if split == "test" and not labels.any():
        labels[:] = -1
    return replace(rows, labels=labels, answers=answers)


def _answers_in(value: Any) -> list[tuple[str, int]]:
    """Read the answers of a row as (text, first character); docs/task-types.md has the forms.

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
    of the row contains the answer, the window is marked with its first token, as in BERT's code. So
    is every input of a question without an answer. Rows without labels get no marks.
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
        if end == 0:  # the question has no answer
            answers[i] = 0
        elif reaches_end and (not later or begins[inside].min() <= start):
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
    output: np.ndarray, rows: Rows, tokens: Tokens, threshold: float | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Convert the head's output per input to characters [N, 2], probability [N, 1] and mean loss.

    If a row has several windows, the span with the highest logits counts. With a ``threshold`` the
    row has this answer only if its ``null_difference`` is not above the threshold. The loss is the
    mean over the inputs of rows whose answer is not cut off.

    Args:
        output: best span per input, [N, 5], or [N, 7] with a threshold; see ``SpanHead.outcomes``
            and ``SpanHead.row_values``.
        rows: the rows.
        tokens: their tokens.
        threshold: that of the head; None if each question has an answer.
    """
    windows = best_windows(_span_scores(output), tokens.row_of)
    places, chances = output[windows, :2].astype(np.int64), output[windows, 2:3]
    if threshold is not None:
        difference, empty = null_difference(output, tokens)
        none = difference > threshold
        places[none], chances[none] = -1, output[empty[none], 6:7]
    predictions = characters_of(rows, tokens, places, windows)
    loss = float("nan")
    if tokens.answers is not None and (tokens.answers[:, 0] >= 0).any():
        loss = float(output[tokens.answers[:, 0] >= 0, 3].mean())
    return predictions, chances, loss


def null_difference(output: np.ndarray, tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of "no answer" minus that of the best span, and the window of the first.

    Of several windows the lowest score of "no answer" counts, as in BERT's code (``run_squad.py``).
    The difference is infinite for a row without a span.
    """
    windows = best_windows(_span_scores(output), tokens.row_of)
    empty = best_windows(-output[:, 5], tokens.row_of)
    return output[empty, 5] - _span_scores(output)[windows], empty


def threshold_of_output(output: np.ndarray, rows: Rows, tokens: Tokens) -> float:
    """Return the threshold with the highest F1 on labelled rows; see ``best_threshold``."""
    difference, _ = null_difference(output, tokens)
    spans, _, _ = answers_of_output(output, rows, tokens)
    golds = rows.answers or []
    texts = [texts[1][start:end] for texts, (start, end) in zip(rows.texts, spans, strict=True)]
    given, empty = (
        np.array([outcome(*pair, no_answer=True)[0] for pair in zip(guess, golds, strict=True)])
        for guess in (texts, [""] * len(rows))
    )
    known = np.isfinite(difference)
    return best_threshold(difference[known], given[known], empty[known])


def _span_scores(output: np.ndarray) -> np.ndarray:
    """Return the sum of the best span's logits per input, [N]; without a span minus infinity."""
    return np.where(output[:, 0] < 0, -np.inf, output[:, 4])


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
