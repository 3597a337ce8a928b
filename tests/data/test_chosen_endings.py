"""Rows with several endings, in the layouts of public data sets; errors have file and row."""

import csv
import json

import pytest

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.chosen_endings import place_of
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.data.splits import load_splits
from multitask.data.texts import texts_from_file
from multitask.utils.errors import UserError
from tests.support.choices_run import write_choices
from tests.support.token_run import write_lines

ENDINGS = [["a cat", "a dog", "a bird"], ["it runs", "it sleeps", "it eats"]]
COLUMNS = ["one", "two", "three"]


@pytest.fixture
def config(tiny_encoder, tmp_path):
    """Load the config of several choices with other settings of `data`."""
    file = write_choices(tmp_path, tiny_encoder, train=4, dev=3)

    def load(**data):
        changes = [f"tasks.ending.data.{key}={json.dumps(v)}" for key, v in data.items()]
        return load_config(file, changes)

    return load


def read(config, split="dev"):
    reader = label_reader(config, "ending", task_type("choice"))
    return load_rows(config, "ending", split, reader)


def write_csv(file, rows):
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def written(form, directory, rows):
    """Write a file in a format; return its name."""
    name = f"made.{form}"
    if form == "csv":
        write_csv(directory / name, rows)
    elif form == "jsonl":
        write_lines(directory / name, rows)
    else:
        pytest.importorskip("pyarrow")
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), directory / name)
    return name


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_column_per_ending_as_in_swag(form, config, tmp_path):
    """SWAG: `sent1`, `sent2` (the start of each ending), `ending0` to `ending3`, `label`."""
    rows = [
        {"sent1": f"context {i}", "sent2": "then", **dict(zip(COLUMNS, e, strict=True)), "label": i}
        for i, e in enumerate(ENDINGS)
    ]
    keys = {"text": "sent1", "text2": "sent2", "choices": COLUMNS}
    made = read(config(dev=written(form, tmp_path, rows), **keys))
    assert made.texts == [
        (f"context {i}", *(f"then {ending}" for ending in row)) for i, row in enumerate(ENDINGS)
    ]
    assert made.gold.tolist() == [0, 1]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("labels", [["2", "1"], ["C", "B"]], ids=["HellaSwag", "RACE"])
def test_a_column_of_lists(form, labels, config, tmp_path):
    """HellaSwag: the label is a number in text; RACE: it is a letter."""
    rows = [
        {"ctx": f"context {i}", "endings": e, "label": label}
        for i, (e, label) in enumerate(zip(ENDINGS, labels, strict=True))
    ]
    made = read(config(dev=written(form, tmp_path, rows), text="ctx"))
    assert made.texts == [(f"context {i}", *row) for i, row in enumerate(ENDINGS)]
    assert made.gold.tolist() == [2, 1]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("names", ["ABC", "123"], ids=["CommonsenseQA", "ARC"])
def test_named_endings(form, names, config, tmp_path):
    """Labels are the names of the endings: 1 is the first one of 1, 2, 3."""
    rows = [
        {"question": "where ?", "choices": {"label": [*names], "text": e}, "answerKey": name}
        for e, name in zip(ENDINGS, (names[0], names[2]), strict=True)
    ]
    keys = {"text": "question", "choices": "choices", "label": "answerKey"}
    made = read(config(dev=written(form, tmp_path, rows), **keys))
    assert made.texts == [("where ?", *row) for row in ENDINGS]
    assert made.gold.tolist() == [0, 2]


def test_copa_has_two_columns_and_a_question(config, tmp_path):
    row = {"premise": "it runs", "question": "cause", "choice1": "a cat", "choice2": "a dog"}
    write_csv(tmp_path / "copa.csv", [{**row, "label": 1}, {**row, "label": 0}])
    keys = {"text": "premise", "text2": "question", "choices": ["choice1", "choice2"]}
    made = read(config(dev="copa.csv", **keys))
    assert made.texts == [("it runs", "cause a cat", "cause a dog")] * 2
    assert made.gold.tolist() == [1, 0]


def test_rows_without_a_label_are_dropped_and_counted_but_not_of_a_test_split(config, tmp_path):
    rows = [
        {"context": "where ?", "endings": e, "label": label}
        for e, label in zip(ENDINGS, (None, 1), strict=True)
    ]
    write_lines(tmp_path / "some.jsonl", rows)
    made = read(config(dev="some.jsonl"))
    assert (len(made), made.unlabelled_dropped, made.gold.tolist()) == (1, 1, [1])
    test = read(config(test="some.jsonl"), "test")
    assert len(test) == 2 and test.labels is None


BROKEN = {
    "another number": (ENDINGS[1][:2], 0, r"row 2: endings has 2 endings, but row 1 has 3"),
    "one ending": (["a"], 0, r"row 2: endings has 1 endings"),
    "no list": ("cats", 0, r"row 2: endings has no list: expected a list of texts, or "),
    "null": (None, 0, r"row 2: endings has no list"),
    "an ending of null": (["a", None, "b"], 0, r"row 2: endings .* no text: None"),
    "an ending of lists": (["a", "b", ["c"]], 0, r"row 2: endings .* no text: \['c'\]"),
    "an empty ending": (["a", " ", "b"], 0, r"row 2: endings has an empty ending"),
    "unequal lists": ({"label": ["A"], "text": ["a", "b"]}, "A", r"row 2: endings has no list"),
    "label too high": (
        ENDINGS[1],
        3,
        r"row 2 \(id 1\): label is '3': expected one of 0, 1, 2 or A",
    ),
    "label of no ending": (
        ENDINGS[1],
        "D",
        r"row 2 \(id 1\): label is 'D': expected one of 0, 1, ",
    ),
    "a hidden label": (ENDINGS[1], -1, r"set `data.unlabelled: \[\"\", \"-1\"\]`"),
    "a list as label": (ENDINGS[1], [1], r"row 2 \(id 1\): label is a list or an object"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_is_one_line_with_file_and_row(name, config, tmp_path):
    endings, label, message = BROKEN[name]
    good = {"context": "where ?", "endings": ENDINGS[0], "label": 0}
    write_lines(tmp_path / "bad.jsonl", [good, {**good, "endings": endings, "label": label}])
    with pytest.raises(UserError, match=message) as raised:
        read(config(dev="bad.jsonl"))
    said = str(raised.value)
    assert said.startswith(f"{tmp_path / 'bad.jsonl'}, line 2, row 2") and "\n" not in said


def test_an_empty_cell_of_a_column_is_named(config, tmp_path):
    rows = [{"context": "where ?", **dict(zip(COLUMNS, ENDINGS[0], strict=True)), "label": 0}]
    write_csv(tmp_path / "bad.csv", [*rows, {**rows[0], "two": ""}])
    with pytest.raises(UserError, match=r"bad.csv, line 3, row 2: .*two.* has an .*ending"):
        read(config(dev="bad.csv", choices=COLUMNS))


def test_a_missing_column_is_named_with_its_key(config):
    with pytest.raises(UserError, match=r"no column 'ending'.*`data.choices` names it"):
        read(config(choices="ending"))


def test_another_number_in_another_split_is_refused(config, tmp_path):
    write_lines(tmp_path / "three.jsonl", [{"context": "?", "endings": ENDINGS[0], "label": 0}] * 2)
    made = config(dev="three.jsonl")
    readers = {"ending": label_reader(made, "ending", task_type("choice"))}
    message = r"three.jsonl, row 1: its rows have 3 endings, but those of .*train.jsonl have 4"
    with pytest.raises(UserError, match=message):
        load_splits(made, readers, lambda: None)


def test_texts_of_a_user_are_read_from_a_table_and_from_lines(config, tmp_path):
    task = config().tasks["ending"]
    write_lines(tmp_path / "mine.jsonl", [{"context": "where ?", "endings": ENDINGS[0]}])
    (tmp_path / "mine.txt").write_text("where ?\ta cat\ta dog\ta bird\n")
    for name in ("mine.jsonl", "mine.txt"):
        rows = texts_from_file(task, tmp_path / name)
        assert rows.texts == [("where ?", *ENDINGS[0])] and rows.labels is None
    (tmp_path / "mine.txt").write_text("where ?\ta cat\ta dog\nwhy ?\ta cat\n")
    with pytest.raises(UserError, match=r"mine.txt, line 2: expected a context and at least two"):
        texts_from_file(task, tmp_path / "mine.txt")
    (tmp_path / "mine.txt").write_text("where ?\ta cat\ta dog\nwhy ?\ta\tb\tc\n")
    with pytest.raises(UserError, match=r"mine.txt, line 2: 4 texts, the first row has 3"):
        texts_from_file(task, tmp_path / "mine.txt")


@pytest.mark.parametrize(
    ("label", "names", "place"),
    [("0", [], 0), ("1.0", [], 1), ("C", [], 2), ("B", ["A", "B", "C"], 1), ("1", ["1", "2"], 0)],
)
def test_a_label_names_a_place(label, names, place):
    assert place_of(label, names, 3) == place
