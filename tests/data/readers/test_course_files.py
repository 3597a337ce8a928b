"""Prediction files of courses: each format is read as it was written, and damage is named."""

import random

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.data.readers.course_files import (
    can_hold,
    course_text,
    key_of,
    predictions_of,
    read_course_file,
)
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

FORMATS = ("cs224n", "dnlp", "csv")
NUMBERS = LabelReader(task_type("number"), {}, (), 0.0, 5.0)
BINARY = LabelReader(task_type("binary"), {"0": 0, "1": 1}, ("different", "same"))
WORDS = LabelReader(task_type("binary"), {"no": 0, "yes": 1}, ("no", "yes"))
# 0 and 1 in the file are one class: it is written as the first of them
MERGED = LabelReader(task_type("class"), {"0": 0, "1": 0, "2": 1}, ("bad", "good"))
SEVERAL = LabelReader(task_type("labels"), {"2": 0, "6": 1, "7": 2}, ("2", "6", "7"))
CHOICE = LabelReader(task_type("choice"), {}, ())

WRITTEN = [
    (NUMBERS, [2.5, 0.0, 4.12346], ["2.5", "0", "4.12346"]),
    (BINARY, [1, 0, 1], ["1.0", "0.0", "1.0"]),
    (WORDS, [1, 0, 1], ["1.0", "0.0", "1.0"]),
    (MERGED, [0, 1, 0], ["0", "2", "0"]),
    (SEVERAL, [[0, 1, 0], [0, 0, 0], [1, 0, 1]], ["[0, 1, 0]", "[0, 0, 0]", "[1, 0, 1]"]),
    (CHOICE, [1, 0, 1], ["1", "0", "1"]),
]


def rows_of(*names: str) -> Rows:
    return Rows("dev.csv", [*names], [("context", "left", "right")] * len(names), None)


def read(text: str | bytes, reader: LabelReader = MERGED, others: tuple[str, ...] = ()) -> list:
    raw = text if isinstance(text, bytes) else text.encode()
    file = read_course_file(raw, "sst.csv")
    return predictions_of(file, rows_of("a", "b", "c"), reader, others).tolist()


@pytest.mark.parametrize(("reader", "predictions", "values"), WRITTEN)
def test_the_formats_to_the_letter(reader, predictions, values):
    written = reader.task_type.course_values(np.array(predictions), reader)
    assert written == values
    quoted = [f'"{value}"' if "," in value else value for value in values]
    assert {form: course_text(form, "Predicted_X", "abc", written) for form in FORMATS} == {
        "cs224n": "id \t Predicted_X \n"
        + "".join(f"{name} , {value} \n" for name, value in zip("abc", values, strict=True)),
        "dnlp": "id,Predicted_X\n"
        + "".join(f"{name}\t{value}\n" for name, value in zip("abc", values, strict=True)),
        "csv": "id,Predicted_X\n"
        + "".join(f"{name},{value}\n" for name, value in zip("abc", quoted, strict=True)),
    }


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("reader", "predictions", "values"), WRITTEN)
def test_a_file_is_read_as_it_was_written(form, reader, predictions, values):
    assert read(course_text(form, "Predicted_X", "abc", values), reader) == predictions


@pytest.mark.parametrize("form", FORMATS)
def test_the_order_of_the_rows_does_not_matter(form):
    names = [f"id{number}" for number in range(50)]
    shuffled = random.Random(0).sample(range(50), 50)
    text = course_text(form, "X", [names[i] for i in shuffled], [f"{i / 10}" for i in shuffled])
    actual = predictions_of(read_course_file(text.encode(), "f"), rows_of(*names), NUMBERS)
    np.testing.assert_allclose(actual, np.arange(50) / 10)


@pytest.mark.parametrize("form", FORMATS)
def test_ids_may_have_commas_and_quotes(form):
    names = ['a,1" x', 'b, "', "c"]
    if form == "dnlp":
        names = [name.replace('"', "") for name in names]
    file = read_course_file(course_text(form, "X", names, ["0", "2", "1"]).encode(), "f")
    assert predictions_of(file, rows_of(*names), MERGED).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "id \t Predicted_Sentiment \na, 0 \nb, 2 \nc, 0 \n",  # the GPT-2 project
        "id,X\r\na,0\r\nb,2\r\nc,0\r\n",
        "\ufeffid,X\na,0\n\nb,2.0\nc,+0\n\n",
        'id,X\n"a","0"\n"b","2"\n"c","0"\n',
        'id\tX\n"a"\t"0"\nb\t"2"\nc\t0\n',
        "ID,X\nA,0\nB,2\nC,1\n",  # the courses lower the letters of ids
    ],
)
def test_relatives_of_the_formats(text):
    assert read(text) == [0, 1, 0]


def test_rows_without_a_label_may_have_a_prediction():
    assert read("id,X\na,0\nb,2\nd,2\nc,0\n", others=("d",)) == [0, 1, 0]


def test_a_number_may_leave_the_range_of_the_labels():
    assert read("id,X\na,-0.5\nb,5.2\nc,1e-3\n", NUMBERS) == [-0.5, 5.2, 1e-3]


@pytest.mark.parametrize(
    ("text", "reader", "parts"),
    [
        ("", MERGED, ["sst.csv", "no predictions"]),
        ("id,X\n", MERGED, ["sst.csv", "no predictions"]),
        ("a,0\nb,1\nc,2\n", MERGED, ["line 1", "header", "'a,0'"]),
        (",id,X\n0,a,0\n", MERGED, ["line 1", "header"]),
        ("id,X\na,0\nb\nc,0\n", MERGED, ["line 3, row 2", "'b'"]),
        ('id,X\na,0\n"b",1,2\nc,0\n', MERGED, ["line 3, row 2"]),
        ("id,X\na,0\n,1\nc,0\n", MERGED, ["line 3, row 2"]),
        ("id,X\na,0\nb,1\n", MERGED, ["1 of 3", "'c'"]),
        ("id,X\na,0\nb,1\nb,1\nc,0\n", MERGED, ["line 4, row 3", "'b'", "line 3"]),
        ("id,X\na,0\nb,1\nc,0\nd,0\n", MERGED, ["line 5, row 4", "'d'"]),
        ("id,X\n\na,0\n\nb,3\nc,0\n", MERGED, ["line 5, row 2", "id b", "'3'"]),
        ("id,X\na,0\nb,\nc,0\n", MERGED, ["line 3, row 2", "''"]),
        ("id,X\na,0\nb,0.7\nc,0\n", BINARY, ["line 3, row 2", "'0.7'"]),
        ("id,X\na,0\nb,nan\nc,0\n", NUMBERS, ["line 3, row 2", "'nan'", "number"]),
        ("id,X\na,0\nb,1e999\nc,0\n", NUMBERS, ["line 3, row 2", "'1e999'"]),
        ("id,X\na,0\nb,2\nc,0\n", CHOICE, ["line 3, row 2", "'2'", "0 to 1"]),
        ("id\tX\na\t[0, 1, 0]\nb\t[0, 1]\nc\t[]\n", SEVERAL, ["line 3, row 2", "3 numbers"]),
        ("id\tX\na\t[0, 2, 0]\n" + "b\t1\nc\t1\n", SEVERAL, ["line 2, row 1", "[0, 2, 0]"]),
        ("id\tX\na\t[0, 1\nb\t1\nc\t1\n", SEVERAL, ["line 2, row 1", "'[0, 1'"]),
        (b"id,X\na,0\nb\xff,1\n", MERGED, ["sst.csv", "line 3", "UTF-8"]),
    ],
)
def test_damage_is_named_with_its_row(text, reader, parts):
    with pytest.raises(UserError) as caught:
        read(text, reader)
    message = str(caught.value)
    assert "\n" not in message and all(part in message for part in parts), message


def test_a_file_cannot_hold_what_words_and_texts_have():
    assert all(can_hold(reader.task_type) for reader, *_ in WRITTEN)
    assert not any(map(can_hold, map(task_type, ("tags", "span", "tokens", "views"))))


def test_data_whose_ids_are_not_unique_cannot_be_matched():
    file = read_course_file(b"id,X\na,0\n", "f")
    with pytest.raises(UserError, match="two rows have the id 'A'"):
        predictions_of(file, rows_of("a", "A"), MERGED)
    assert key_of(" A1 ") == "a1"
