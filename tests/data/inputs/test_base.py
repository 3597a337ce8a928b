"""The contract of every registered input."""

import pytest

from multitask.config.data_config import TEXT_KEYS
from multitask.config.registry import HEADS, INPUTS, input_type, resolve, task_type
from multitask.data.tokenize import tokenize
from multitask.models.pretrained import load_tokenizer
from multitask.tasks.rows import Rows

TEXTS = ("a film", "the dog runs", "so sad")


def rows_for(form, count=2):
    """Texts of ``count`` rows, no two alike; as few texts per row as the input takes."""
    fewest = next(number for number in range(1, len(TEXTS) + 1) if form.fits(number))
    numbers = range(1, count + 1)
    return [tuple(" ".join([text] * number) for text in TEXTS[:fewest]) for number in numbers]


def encoded(tokenizer, texts):
    """Ids and token types of texts in one sequence: [CLS] a [SEP] b [SEP] c [SEP]."""
    ids, types = [tokenizer.cls_token_id], [0]
    for number, text in enumerate(texts):
        ids += [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]
        types += [min(number, 1)] * (len(ids) - len(types))
    return ids, types


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return load_tokenizer(str(tiny_encoder))


@pytest.fixture(params=INPUTS)
def form(request):
    return input_type(request.param)


def test_what_an_input_declares(form):
    assert INPUTS[type(form).__name__.lower()].endswith(f":{type(form).__name__}")
    assert form.columns and {*form.columns, *form.may_have} <= {*TEXT_KEYS, "choices"}
    assert form.items and form.line and form.reads and form.example
    heads = [resolve("head", name) for name in HEADS]
    fitting = [h for h in heads if h.reads(form, True) or h.reads(form, False)]
    assert fitting and form.sides in (None, len(form.sequences([""] * form.texts)))
    assert form.views or not any(task_type(h.task_type).compares_rows for h in fitting)


def test_every_text_is_in_a_sequence_of_its_row(form):
    rows = rows_for(form)
    sides = form.arrange(rows)
    for number, row in enumerate(rows):
        texts = [text for side in sides for text in side[number]]
        assert list(dict.fromkeys(texts)) == list(row)
        assert form.sequences(row) == [side[number] for side in sides]
    assert form.joins == any(len(texts) > 1 for side in sides for texts in side)


def test_the_tokens_are_those_of_the_tokenizer(form, tokenizer):
    rows = rows_for(form)
    tokens = tokenize(
        Rows("rows", ["0", "1"], rows, None), tokenizer, max_length=32, arrange=form.arrange
    )
    expected = [encoded(tokenizer, texts) for side in form.arrange(rows) for texts in side]
    assert tokens.sides == len(form.arrange(rows)) and len(tokens) == len(rows)
    for number, one in enumerate(expected):
        ids, types = tokens.sequence(number)
        assert (ids.tolist(), types.tolist()) == one


def test_equal_sequences_are_encoded_once(form, tokenizer):
    row = rows_for(form)[0]
    rows = Rows("rows", ["0", "1", "2"], [row, row, rows_for(form)[1]], None)
    tokens = tokenize(rows, tokenizer, max_length=32, arrange=form.arrange)
    texts, which = tokens.inputs
    for number in range(len(rows)):
        for side in range(tokens.sides):
            once = texts.sequence(which[number, side])
            again = tokens.sequence(side * len(rows) + number)
            assert all((a == b).all() for a, b in zip(once, again, strict=True))
    assert tokens.sides == 1 or len(texts) == 2 * tokens.sides


def test_a_row_from_python(form):
    row = rows_for(form)[0]
    assert form.row_of(row) == row
    assert form.row_of(list(row)) == row
    for unfit in (row[:-1], 5, None, dict.fromkeys(row), {*row}, (*row[:-1], 5)):
        assert form.row_of(unfit) is None
    assert (form.row_of((*row, "more")) is not None) == form.fits(len(row) + 1)
    assert form.texts > 1 or form.row_of(row[0]) == row


def test_a_row_from_a_line(form):
    row = rows_for(form)[0]
    assert form.row_of_line("\t".join(row)) == row
    assert (form.row_of_line("\t".join([*row, "more"])) is not None) == form.fits(len(row) + 1)
    assert len(row) == 1 or form.row_of_line("\t".join(row[:-1])) is None
