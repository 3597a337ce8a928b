"""JSON lines: numbers as they are written, the classes of CSV, and what is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config import DataConfig
from multitask.config.registry import task_type
from multitask.data.by_type import reading_of
from multitask.data.load_rows import label_reader, load_rows
from multitask.data.readers.json_lines import read_json_lines
from multitask.utils.limits import COLUMNS
from tests.support.data_files import make, refusal, rows_of

# each is one value of a CSV cell, and one of JSON
VALUES = ["1", "1.0", "1.00", "01", "1e5", "1E5", "100000", "-0", "0", "1E400", "true", "false",
          "12345678901234567890", "12345678901234567891", "0.1", "0.10", "9" * 5000]  # fmt: skip


def as_json(value: str) -> str:
    """The value without quotes, or a text where JSON has no such value."""
    try:
        json.loads(value, parse_int=str)
    except ValueError:
        return json.dumps(value)
    return value


def rows_and_names(directory, name, **data):
    config = make(directory, {"train": name, "dev": name, "id": None, **data})
    reader = label_reader(config, "t", task_type("class"))
    rows = load_rows(config, "t", "train", reader)
    return rows.texts, [reader.names[number] for number in rows.gold]


def test_values_without_quotes_are_texts_and_classes_as_in_csv(tmp_path):
    lines = [f'{{"sentence": {as_json(v)}, "label": {as_json(v)}}}' for v in VALUES]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    (tmp_path / "x.csv").write_text("sentence,label\n" + "".join(f"{v},{v}\n" for v in VALUES))
    texts, labels = rows_and_names(tmp_path, "x.jsonl")
    assert (texts, labels) == ([(value,) for value in VALUES], VALUES)
    assert rows_and_names(tmp_path, "x.csv") == (texts, labels)


def test_labels_of_the_config_name_each_value(tmp_path):
    (tmp_path / "x.jsonl").write_text(
        '{"sentence": "a", "label": 1}\n{"sentence": "b", "label": 1.0}\n'
        '{"sentence": "c", "label": 1e0}\n{"sentence": "d", "label": true}\n'
    )
    names = {"1": "one", "1.0": "float", "1e0": "power", "true": "yes"}
    _, labels = rows_and_names(tmp_path, "x.jsonl", labels=names)
    assert labels == list(names.values())
    # another spelling of a value that is named
    _, labels = rows_and_names(tmp_path, "x.jsonl", labels={"1": "a", "1e0": "b", "True": "b"})
    assert labels == ["a", "a", "b", "b"]


def test_escapes_are_decoded(tmp_path):
    line = r'{"id": "1", "sentence": "\u00e9\t\"\\\/\ud83d\ude00", "label": "\u0031"}'
    rows = rows_of(tmp_path, line, "x.jsonl")
    assert (rows.texts, rows.gold.tolist()) == ([('é\t"\\/😀',)], [1])


def test_a_list_of_objects_over_several_lines(tmp_path):
    records = [{"id": "1", "sentence": "a", "label": 1}, {"id": "2", "sentence": "b", "label": 0}]
    rows = rows_of(tmp_path, "\n" + json.dumps(records, indent=1), "x.json")
    assert (rows.texts, rows.ids, rows.gold.tolist()) == ([("a",), ("b",)], ["1", "2"], [1, 0])


GOOD = '{"id": 1, "sentence": "a", "label": 1}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + '{"id": 2, "sentence": null, "label": 1}', "line 2: 'sentence' is missing or null"),
        (GOOD + '\n{"id": 2, "label": 1}', "line 3: 'sentence' is missing or null: write \"\""),
        ('{"id": 2, "label": 1}', "no column 'sentence'"),
        (GOOD + '{"id": 2, "sentence": [1], "label": 1}', "row 2: sentence is no text: ['1']"),
        (GOOD + '{"id": 2, "sentence": {"a": 1}, "label": 1}', "row 2: sentence is no text"),
        (GOOD + '{"id": 2, "sentence": "b", "label": [1]}', "row 2 (id 2): label is a list"),
        (GOOD + '{"id": 2, "sentence": "b", "label": 2.0}', "row 2 (id 2): label is '2.0'"),
        (GOOD + '{"id": 2, "sentence": NaN, "label": 1}', "line 2: 'sentence' is missing or null"),
        (GOOD + '{"id": 2, "sentence": -Infinity}', "line 2: 'sentence' is missing or null"),
        (GOOD + '{"id": 2, "sentence": [NaN], "label": 1}', "row 2: sentence is no text: [None]"),
        (GOOD + "NaN", "line 2: expected an object"),
        ('{"sentence": "a", "label": 1, "label": 0}', "line 1: not JSON: the key 'label' is rep"),
        (GOOD + '{"a": {"b": 1, "b": 1}}', "line 2: not JSON: the key 'b' is repeated"),
        ('[{"sentence": "a"},\n {"sentence": }]', "line 2: not JSON: Expecting value"),
        ('[{"sentence": "a"}, 1]', "row 2: expected an object"),
        ('[{"sentence": "a"}, {"id": 1}]', "row 2: 'sentence' is missing or null"),
        ("[]", "the file is empty"),
    ],
)
def test_what_is_refused(text, message, tmp_path):
    result = refusal(rows_of, tmp_path, text, "x.jsonl")
    assert message in result and result.startswith(str(tmp_path / "x.jsonl"))


def test_rows_that_where_leaves_out_may_lack_the_text(tmp_path):
    other = '{"kind": 2, "question": "b"}\n'
    text = '{"kind": 1.0, "id": 1, "sentence": "a", "label": 1}\n' + other
    rows = rows_of(tmp_path, text, "x.jsonl", where={"kind": 1})
    assert rows.texts == [("a",)]
    assert "line 2: 'sentence' is missing" in refusal(rows_of, tmp_path, text, "x.jsonl")


def test_json_lines_have_only_so_many_keys(tmp_path):
    lines = "\n".join(f'{{"k{i}": 1}}' for i in range(COLUMNS + 1))
    assert "x.jsonl: 1,001 different keys" in refusal(rows_of, tmp_path, lines, "x.jsonl")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "null"])
def test_a_number_that_json_does_not_have_is_a_missing_label(value, tmp_path):
    lines = [f'{{"sentence": "t", "label": {label}}}' for label in ('"a"', '"NaN"', value, '"b"')]
    for text in ("\n".join(lines), f"[{', '.join(lines)}]"):
        (tmp_path / "x.json").write_text(text)
        texts, labels = rows_and_names(tmp_path, "x.json")
        assert (len(texts), labels) == (3, ["a", "NaN", "b"])
    config = make(tmp_path, {"train": "x.json", "id": None, "labels": ["a", "b", "NaN"]})
    reader = label_reader(config, "t", task_type("class"))
    assert load_rows(config, "t", "train", reader).unlabelled_dropped == 1


@pytest.mark.parametrize("unlabelled", [[""], [], [-1]])
def test_a_missing_label_is_no_class_whatever_else_means_no_label(unlabelled, tmp_path):
    lines = [f'{{"sentence": "t", "label": {label}}}' for label in ('"a"', "NaN", '"b"', "null")]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    _, labels = rows_and_names(tmp_path, "x.jsonl", unlabelled=unlabelled)
    assert labels == ["a", "b"]


@pytest.mark.parametrize("unlabelled", [[""], []])
@pytest.mark.parametrize(("head", "name"), [("labels", "names ''"), ("tags", "tag of 'v' is ''")])
def test_a_missing_item_of_a_list_is_no_class(head, name, unlabelled, tmp_path):
    texts = {"labels": '"v w"', "tags": '["v", "w"]'}[head]
    rows = [
        f'{{"sentence": {texts}, "label": {given}}}' for given in ('["O", "B-X"]', '[NaN, "O"]')
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    config = make(tmp_path, {"train": "x.jsonl", "id": None, "unlabelled": unlabelled})
    reader = label_reader(config, "t", task_type(head))
    assert sorted(reader.names) == ["B-X", "O"]
    read = reading_of(reader.task_type).load_rows
    assert f"row 2 (id 1): {name}" in refusal(read, config, "t", "train", reader).replace(
        "label names", "names"
    ).replace("the tag", "tag")


@given(st.recursive(
    st.sampled_from([math.nan, math.inf, -math.inf, None, "NaN", "Infinity", 1.5, True]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
))  # fmt: skip
def test_nan_is_null_wherever_it_is(value):
    def expected(one):
        if isinstance(one, list):
            return [*map(expected, one)]
        if isinstance(one, dict):
            return {key: expected(item) for key, item in one.items()}
        if isinstance(one, float):
            return str(one) if math.isfinite(one) else None
        return one

    text = json.dumps({"text": "t", "x": value})
    columns = read_json_lines(text, "x.jsonl", DataConfig(text="text"))
    assert columns == {"text": ["t"], "x": [expected(value)]}
