"""Rows from every format, labels mapped and checked, unlabelled rows dropped and counted."""

import json
from pathlib import Path

import numpy as np
import pytest

from multitask.config import Config, load_config
from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.data.load import label_reader, load_rows, texts_from_file
from multitask.tasks.examples import LabelReader, Rows, canonical
from multitask.utils.errors import UserError
from tests.conftest import ROOT, write_tsv

TABLE = [
    {"id": "a1", "sentence": "good film", "label": "1"},
    {"id": "a2", "sentence": " bad film", "label": "0.0"},
    {"id": "a3", "sentence": "None", "label": ""},
    {"id": "a4", "sentence": 'say ""', "label": "1.0"},
]
BINARY = LabelReader(task_type("binary"), {"0": 0, "1": 1}, ("no", "yes"))


def make(directory: Path, data: dict, head: str = "binary", **task: object) -> Config:
    """A config with one task `t`, its files under ``directory``."""
    given = {"train": "train.csv", "dev": "dev.csv", "id": "id", **data}
    entry = {"data": given, "head": head, **task}
    file = directory / "config.yaml"
    file.write_text(dump_yaml({"data_dir": str(directory), "tasks": {"t": entry}}))
    return load_config(file)


def csv_text(rows: list[dict], separator: str = ",") -> str:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    return "\n".join(separator.join(line) for line in quoted) + "\n"


def rows_of(directory: Path, text: str | bytes, name: str = "train.csv", **data: object) -> Rows:
    """The training rows of a file with this text, labels 0 and 1."""
    raw = text if isinstance(text, bytes) else text.encode()
    (directory / name).write_bytes(raw)
    return load_rows(make(directory, {"train": name, **data}), "t", "train", BINARY)


def refusal(act, *arguments: object, **options: object) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError) as caught:
        act(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- formats ---


def write_parquet(directory: Path) -> dict:
    import pyarrow
    import pyarrow.parquet

    values = [{**row, "label": float(row["label"] or "nan")} for row in TABLE]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(values), directory / "x.parquet")
    return {"train": "x.parquet"}


def write_disk(directory: Path) -> dict:
    import datasets

    split = datasets.Dataset.from_list(TABLE)
    datasets.DatasetDict({"training": split}).save_to_disk(directory / "saved")
    return {"format": "disk", "path": "saved", "train": "training"}


def write_hub(directory: Path) -> dict:
    (directory / "local").mkdir()
    lines = [json.dumps(row) for row in TABLE]
    (directory / "local" / "train.jsonl").write_text("\n".join(lines))
    return {"format": "hub", "path": "local", "train": "train"}


def write_text(name: str, text: str, **data: object):  # type: ignore[no-untyped-def]
    def write(directory: Path) -> dict:
        (directory / name).write_text(text, encoding="utf-8")
        return {"train": name, **data}

    return write


AS_JSON = "\n".join(json.dumps(row) for row in TABLE)
FORMATS = {
    "csv": write_text("x.csv", csv_text(TABLE)),
    "csv, capital ending": write_text("X.CSV", csv_text(TABLE)),
    "csv with a byte order mark": write_text("x.csv", "\ufeff" + csv_text(TABLE)),
    "csv with blank lines": write_text("x.csv", csv_text(TABLE).replace("\n", "\n\n")),
    "tsv": write_text("x.tsv", csv_text(TABLE, "\t")),
    "tsv in .csv": write_text("x.csv", csv_text(TABLE, "\t"), format="tsv"),
    "tsv of no known ending": write_text("x.data", csv_text(TABLE, "\t"), format="tsv"),
    "jsonl": write_text("x.jsonl", AS_JSON),
    "json": write_text("x.json", AS_JSON + "\n\n"),
    "parquet": write_parquet,
    "disk": write_disk,
    "hub": write_hub,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name, tmp_path, monkeypatch):
    if name == "hub":
        import datasets

        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    config = make(tmp_path, FORMATS[name](tmp_path))
    rows = load_rows(config, "t", "train", BINARY)
    assert rows.texts == [("good film",), (" bad film",), ('say ""',)]
    assert rows.ids == ["a1", "a2", "a4"]
    assert rows.labels.tolist() == [1, 0, 1]
    assert rows.labels.dtype == np.int64
    assert rows.unlabelled_dropped == 1
    assert len(rows) == 3


@pytest.mark.parametrize(
    "cell",
    ["None", "NA", "nan", "null", "", " ", "  lead", "tail ", "a, b", "a\tb", 'the "x"', '"',
     "two\nlines", "café ☕", "x\u2028y\x85z", "'tis", "#1", "1.0", "\\"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_text_is_read_as_it_was_written(cell, kind, tmp_path):
    row = {"id": "1", "sentence": cell, "label": "1"}
    text = json.dumps(row, ensure_ascii=False) if kind == "jsonl" else None
    text = text or csv_text([row, row], "," if kind == "csv" else "\t")
    assert rows_of(tmp_path, text, f"x.{kind}").texts[0] == (cell,)


def test_quoting_off_takes_quotes_as_they_are(tmp_path):
    text = 'sentence\tlabel\n"Well" , he said\t1\n"open\t0\nit is ""so""\t1\n'
    rows = rows_of(tmp_path, text, "x.tsv", quoting=False, id=None)
    assert rows.texts == [('"Well" , he said',), ('"open',), ('it is ""so""',)]
    assert rows.ids == ["0", "1", "2"]


def test_columns_are_found_by_name_behind_two_index_columns(tmp_path):
    text = "0\t\tid\tsentence\tlabel\n1\t0.0\tx\t one\t1\n2\t1.0\ty\ttwo\t0\n"
    rows = rows_of(tmp_path, text, format="tsv")
    assert (rows.ids, rows.texts) == (["x", "y"], [(" one",), ("two",)])


def test_pairs_and_numeric_labels(tmp_path):
    (tmp_path / "p.csv").write_text("b,a,score\nsecond,first,2.5\n2,1,0\n")
    data = {"train": "p.csv", "id": None, "text": "a", "text2": "b", "label": "score"}
    config = make(tmp_path, {**data, "label_range": [0, 5]}, "regression", input="cross")
    rows = load_rows(config, "t", "train", label_reader(config, "t", task_type("number")))
    assert rows.texts == [("first", "second"), ("1", "2")]
    assert rows.labels.tolist() == [2.5, 0.0]
    assert rows.labels.dtype == np.float64


def test_of_two_columns_with_one_name_the_first_counts(tmp_path):
    text = "id,sentence,sentence,label\n1,first,second,1\n"
    assert rows_of(tmp_path, text).texts == [("first",)]


# --- rows without a label ---

PARTLY = "id,sentence,label\n1,a,1\n2,b,\n3,c,-\n4,d,0\n"


@pytest.mark.parametrize(("split", "dropped"), [("train", 2), ("dev", 2)])
def test_rows_without_a_label_are_dropped_and_counted(split, dropped, tmp_path):
    full = "id,sentence,label\n1,a,1\n2,b,0\n"
    other = "dev" if split == "train" else "train"
    (tmp_path / f"{split}.csv").write_text(PARTLY)
    (tmp_path / f"{other}.csv").write_text(full)
    config = make(tmp_path, {"unlabelled": ["", "-"]})
    rows = load_rows(config, "t", split, BINARY)
    assert rows.ids == ["1", "4"]
    assert rows.unlabelled_dropped == dropped
    # the other split loses nothing
    untouched = load_rows(config, "t", other, BINARY)
    assert (untouched.ids, untouched.unlabelled_dropped) == (["1", "2"], 0)


def test_a_number_may_mean_no_label(tmp_path):
    text = "id,sentence,label\n1,a,1\n2,b,-1\n3,c,0\n"
    rows = rows_of(tmp_path, text, unlabelled=[-1])
    assert (rows.ids, rows.unlabelled_dropped) == (["1", "3"], 1)


@pytest.mark.parametrize(
    ("text", "labelled"),
    [
        ("id,sentence\n1,a\n2,b\n", False),
        ("id,sentence,label\n1,a,\n2,b,\n", False),
        ("id,sentence,label\n1,a,1\n2,b,\n", False),
        ("id,sentence,label\n1,a,1\n2,b,0\n", True),
    ],
)
def test_a_test_split_keeps_every_row(text, labelled, tmp_path):
    (tmp_path / "test.csv").write_text(text)
    rows = load_rows(make(tmp_path, {"test": "test.csv"}), "t", "test", BINARY)
    assert rows.ids == ["1", "2"]
    assert rows.unlabelled_dropped == 0
    assert (rows.labels is not None) == labelled


# --- labels ---


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), (-1, "-1"), (2.5, "2.5"), ("+1", "1"),
        ("01", "01"), ("007", "007"), ("0", "0"), ("0.50", "0.5"), (2**53 + 1, str(2**53 + 1)),
        ("2.50", "2.5"), ("1e2", "100"), (None, ""), (float("nan"), ""), ("", ""), (" x ", "x"),
        ("nan", "nan"), ("inf", "inf"), (True, "true"), ("True", "true"), ("FALSE", "false"),
        ("contradiction", "contradiction"), ("-", "-"),
    ],
)  # fmt: skip
def test_one_spelling_a_value(value, expected):
    assert canonical(value) == expected


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("2", "label is '2': expected one of 0, 1"),
        ("good", "label is 'good': expected one of 0, 1"),
        ("0.5", "label is '0.5': expected one of 0, 1"),
    ],
)
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_label_that_is_no_class_names_file_and_row(label, message, split, tmp_path):
    before = "1" if split == "test" else ""  # a row that is dropped counts, too
    text = f"id,sentence,label\n1,a,{before}\nx7,b,{label}\n3,c,0\n"
    (tmp_path / f"{split}.csv").write_text(text)
    config = make(tmp_path, {"test": "test.csv"})
    found = refusal(load_rows, config, "t", split, BINARY)
    advice = "(`data.labels` gives others a meaning)"
    assert found == f"{tmp_path / split}.csv, row 2 (id x7): {message} {advice}"


@pytest.mark.parametrize("label", ["5.1", "-0.1", "high", "nan", "inf"])
def test_number_out_of_range_names_file_and_row(label, tmp_path):
    (tmp_path / "train.csv").write_text(f"id,sentence,label\n1,a,5\n2,b,{label}\n")
    config = make(tmp_path, {"label_range": [0, 5]}, "regression")
    found = refusal(load_rows, config, "t", "train", label_reader(config, "t", task_type("number")))
    assert found.startswith(f"{tmp_path / 'train.csv'}, row 2 (id 2): label is ")
    assert found.endswith("expected a number from 0 to 5")


@pytest.mark.parametrize(
    ("label_type", "labels", "names", "pairs"),
    [
        # as named, in the config's order
        ("class", {"pos": "good", "neg": "bad"}, ("good", "bad"), {"pos": 0, "neg": 1}),
        ("class", ["b", "a"], ("b", "a"), {"b": 0, "a": 1}),
        ("class", {"0": "no", "1.0": "yes"}, ("no", "yes"), {0.0: 0, "1": 1}),
        # two values, one class
        ("class", {0: "neg", 1: "neg", 2: "mid", 3: "pos", 4: "pos"}, ("neg", "mid", "pos"),
         {"0": 0, "1.0": 0, "2": 1, "3": 2, "4": 2}),
        ("binary", {0: "no", 1: "no", 2: "yes"}, ("no", "yes"), {1: 0, 2: 1}),
        # 0 and 1, or false and true, where nothing is said
        ("binary", None, ("0", "1"), {"0.0": 0, "1": 1, True: 1, "False": 0}),
        ("binary", {"false": "no", "true": "yes"}, ("no", "yes"), {True: 1, "FALSE": 0}),
        # found in train: numbers in their order, then words
        ("class", None, ("2", "10", "x", "y"), {2: 0, "10.0": 1, "x": 2, "y": 3}),
    ],
)  # fmt: skip
def test_label_maps(label_type, labels, names, pairs, tmp_path):
    values = ["y", "10", "2.0", "", "x", "2"]
    lines = [f"{i},text,{value}" for i, value in enumerate(values)]
    (tmp_path / "train.csv").write_text("\n".join(["id,sentence,label", *lines]))
    config = make(tmp_path, {} if labels is None else {"labels": labels})
    reader = label_reader(config, "t", task_type(label_type))
    assert reader.names == names
    assert {value: reader.read(canonical(value)) for value in pairs} == pairs


@pytest.mark.parametrize(
    ("label_type", "data", "part"),
    [
        ("binary", {"labels": ["a", "b", "c"]}, "data.labels: the head takes 2 classes, not 3"),
        ("number", {}, "needs `label_range: [low, high]`"),
        ("class", {"label_range": [0, 1]}, "tasks.t.data.label_range: the head predicts classes"),
        ("binary", {"label_range": [0, 1]}, "the head predicts classes"),
        ("class", {"labels": {"1": "a", "1.0": "b"}}, "are the same value"),
        ("class", {}, "column 'label' must hold two labels at least, found: "),
        ("class", {"label": "gold"}, "no column 'gold'"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_the_head(label_type, data, part, tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,1\n2,b,1.0\n")
    assert part in refusal(label_reader, make(tmp_path, data), "t", task_type(label_type))


@pytest.mark.parametrize("value", ['["a", "b"]', '{"a": 1}'])
@pytest.mark.parametrize("key", ["sentence", "label"])
def test_a_list_or_an_object_where_one_value_belongs(value, key, tmp_path):
    plain = '{"sentence": "one", "label": 1}'
    other = {"sentence": '"two"', "label": "0"} | {key: value}
    row = f'{{"sentence": {other["sentence"]}, "label": {other["label"]}}}'
    (tmp_path / "train.jsonl").write_text(f"{plain}\n{row}\n")
    config = make(tmp_path, {"train": "train.jsonl"})
    if key == "label":
        found = refusal(label_reader, config, "t", task_type("class"))
        assert "train.jsonl, row 2: label is a list or an object" in found
    else:
        found = refusal(load_rows, config, "t", "train", BINARY)
        assert "train.jsonl, row 2: sentence is no text: " in found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"where": {"label": "7"}}, "tasks.t.data.where: keeps none of the 2 rows of "),
        ({"dev": None, "dev_share": 1e-9}, "tasks.t.data.dev_share: of the 2 rows of "),
    ],
)
def test_rows_of_which_nothing_is_left(data, message, tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,1\n2,b,0\n")
    split = "dev" if "dev" in data else "train"
    found = refusal(load_rows, make(tmp_path, data), "t", split, BINARY)
    assert message in found


def test_a_dev_label_that_train_does_not_have_is_an_error(tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,x\n2,b,y\n")
    (tmp_path / "dev.csv").write_text("id,sentence,label\n1,a,z\n")
    config = make(tmp_path, {}, "classification")
    reader = label_reader(config, "t", task_type("class"))
    assert "row 1 (id 1): label is 'z': expected one of x, y" in refusal(
        load_rows, config, "t", "dev", reader
    )


# --- files that do not fit ---


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("", {}, "{file}: the file is empty"),
        ("\n\n", {}, "{file}: the file is empty"),
        ("id,sentence,label\n", {}, "{file}: no rows"),
        ("id,sentence,label\n1,a,\n2,b,\n", {}, "{file}: no labelled rows (2 without a label)"),
        ("id,sentense,label\n1,a,1\n", {}, "no column 'sentence' (did you mean 'sentense'?)"),
        ("id,x,y\n1,a,1\n", {}, "{file}: no column 'sentence' (known: id, x, y)"),
        ("id,sentence,gold\n1,a,1\n", {}, "{file}: no column 'label' (known: id, sentence, gold)"),
        ("no,sentence,label\n1,a,1\n", {}, "{file}: no column 'id' (known: no, sentence, label)"),
        # the wrong separator, whatever the rows hold
        ("id\tsentence\tlabel\n1\ta\t1\n", {}, "separated by tabs: set `data.format: tsv`"),
        ("id\tsentence\tlabel\n1\ta, b\t1\n2\ta, b, c\t1\n", {}, "set `data.format: tsv`"),
        ("id,sentence,label\n1,a\tb,1\n", {"format": "tsv"}, "by commas: set `data.format: csv`"),
        # an unquoted separator never shifts or drops cells, in the first row or later
        ("id,sentence,label\n1,oh, no,1\n", {}, "line 2: 4 cells, but the header has 3: quote"),
        ("id,sentence,label\n1,a,1\n\n2,b,c,1\n", {}, "line 4: 4 cells, but the header has 3"),
        # quotes
        ('id,sentence,label\n1,a,1\n2,"open,0\n3,c,1\n', {},
         "{file}, line 3: a quote is opened and never closed; where a quote is an ordinary "
         "character, set `data.quoting: false`"),
        ('id,sentence,label\n1,"a,1\n2,b" c,0,1\n', {},
         "{file}, line 2: a cell goes on after its closing quote: double the quotes inside a text; "
         "where a quote is an ordinary character, set `data.quoting: false`"),
        ('id,sentence,label\n1,"a,1\n2,b",c,0,1\n', {},
         "{file}, line 2: 5 cells, but the header has 3: where a quote is an ordinary character, "
         "set `data.quoting: false`"),
        # GLUE's RTE: the quoted beginning of a text that goes on
        ('id\tsentence\tlabel\n1\t"That film" was good\t1\n2\t"b\t1\n', {"format": "tsv"},
         "{file}, line 2: a cell goes on after its closing quote"),
        ("id,sentence,label\n", {}, "{file}: no rows"),
        (b"id,sentence,label\n1,caf\xe9,1\n", {}, "{file}: not UTF-8 at byte 23: save it as UTF-8"),
    ],
)  # fmt: skip
def test_table_that_cannot_be_used(text, data, message, tmp_path):
    found = refusal(rows_of, tmp_path, text, **data)
    assert message.format(file=tmp_path / "train.csv") in found
    assert str(tmp_path / "train.csv") in found


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"sentence": "a"}\n{broken\n', "x.jsonl, line 2: not JSON"),
        ("x.jsonl", '{"sentence": "a"}\n[1]\n', "x.jsonl, line 2: expected an object a line"),
        ("x.jsonl", "\n", "x.jsonl: the file is empty"),
        ("x.parquet", "no parquet", "x.parquet: not a readable Parquet file"),
        ("x.xlsx", "x", "tasks.t.data.train: cannot tell the format of x.xlsx: set `data.format`"),
    ],
)
def test_other_files_that_cannot_be_used(name, text, message, tmp_path):
    assert message in refusal(rows_of, tmp_path, text, name)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": "none.csv"}, "data.train: no such file: {dir}/none.csv (is `data_dir` right?)"),
        ({"train": None}, "data.train: the task has no train data: name it as `train:`"),
        ({"train": "."}, "data.train: no such file: {dir}"),
        ({"format": "disk", "path": "nowhere"}, "data.path: cannot load the data set 'nowhere'"),
        ({"format": "hub", "path": "no/where"}, "data.path: cannot load the data set 'no/where'"),
    ],
)
def test_missing_data_names_the_key(data, message, tmp_path):
    config = make(tmp_path, data)
    found = refusal(load_rows, config, "t", "train", BINARY)
    assert found.startswith(f"{tmp_path / 'config.yaml'}:")
    assert message.format(dir=tmp_path) in found


def test_a_missing_test_file_may_be_left_out(tmp_path):
    found = refusal(load_rows, make(tmp_path, {"test": "none.csv"}), "t", "test", BINARY)
    assert found.endswith("none.csv (is `data_dir` right?; null where there is none)")


def test_saved_data_set_without_the_split(tmp_path):
    import datasets

    split = datasets.Dataset.from_list(TABLE)
    datasets.DatasetDict({"training": split}).save_to_disk(tmp_path / "saved")
    split.save_to_disk(tmp_path / "single")
    data = {"format": "disk", "path": "saved", "train": "train"}
    assert "its splits are training" in refusal(
        load_rows, make(tmp_path, data), "t", "train", BINARY
    )
    # one Dataset would serve as train and as dev
    data["path"] = "single"
    assert "it has no splits" in refusal(load_rows, make(tmp_path, data), "t", "train", BINARY)


# --- texts of one's own ---


@pytest.mark.parametrize(
    ("name", "text", "pair", "texts"),
    [
        ("x.txt", "one\n\n two \n", False, [("one",), (" two ",)]),
        ("x.txt", "one\ttwo\nthree\tfour", True, [("one", "two"), ("three", "four")]),
        ("x.txt", "x\u2028y\n", False, [("x\u2028y",)]),
        # whatever the task's own format, the header tells the separator
        ("x.csv", "a,b\none,two\n", True, [("one", "two")]),
        ("x.csv", "a\tb\none\ttwo\n", True, [("one", "two")]),
        ("x.TSV", "a\tb\none, 1\ttwo\n", True, [("one, 1", "two")]),
        ("x.csv", "a\none\n", False, [("one",)]),
        ("x.jsonl", '{"a": "one", "b": "two"}', True, [("one", "two")]),
    ],
)
def test_texts_of_ones_own(name, text, pair, texts, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = {"format": "tsv", "text": "a", "id": None, "label": "unknown"}
    config = make(
        tmp_path, data | ({"text2": "b"} if pair else {}), input="cross" if pair else "single"
    )
    rows = texts_from_file(config.tasks["t"].data, tmp_path / name)
    assert rows.texts == texts
    assert rows.labels is None
    lines = [str(i) for i, line in enumerate(text.split("\n")) if line.strip()]
    assert rows.ids == (lines if name == "x.txt" else [str(i) for i in range(len(texts))])


@pytest.mark.parametrize(
    ("name", "text", "pair", "message"),
    [
        ("x.txt", "\n", False, "x.txt: no texts"),
        ("x.txt", "one\ttwo\n", False, "x.txt, line 1: expected one text, without a tab"),
        ("x.txt", "one\ttwo\n\nthree\n", True, "x.txt, line 3: expected two texts with a tab"),
        ("x.docx", "one\n", False, "cannot tell the format: give it one of the endings .txt, .csv"),
        ("x.csv", "b\none\n", False, "no column 'a'"),
    ],
)
def test_texts_that_do_not_fit(name, text, pair, message, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = {"text": "a", "id": None} | ({"text2": "b"} if pair else {})
    config = make(tmp_path, data, input="cross" if pair else "single")
    assert message in refusal(texts_from_file, config.tasks["t"].data, tmp_path / name)


# --- the presets on the small and on the real files ---


def course_rows(directory: Path, task: str, split: str) -> Rows:
    config = load_config(ROOT / "configs" / "cs224n.yaml", [f"data_dir={directory}"])
    label_type = {"sst": "class", "qqp": "binary", "sts": "number"}[task]
    return load_rows(config, task, split, label_reader(config, task, task_type(label_type)))


def test_course_layout(course_files):
    sizes = {
        task: [len(course_rows(course_files, task, split)) for split in ("train", "dev", "test")]
        for task in ("sst", "qqp", "sts")
    }
    assert sizes == {task: [40, 12, 6] for task in ("sst", "qqp", "sts")}
    assert course_rows(course_files, "sst", "train").labels.tolist()[:6] == [0, 1, 2, 3, 4, 0]
    assert course_rows(course_files, "qqp", "train").labels.tolist()[:2] == [0, 1]
    assert course_rows(course_files, "sts", "test").labels is None
    assert course_rows(course_files, "sts", "dev").ids[0] == "tdev0"


REAL = {"sst": (8544, 1101, 2210), "qqp": (14475, 2918, 2819), "sts": (6040, 863, 1725)}


@pytest.mark.parametrize("task", REAL)
def test_real_course_files(task, course_data):
    splits = [course_rows(course_data, task, split) for split in ("train", "dev", "test")]
    assert tuple(map(len, splits)) == REAL[task]
    assert [rows.unlabelled_dropped for rows in splits] == [2 if task == "qqp" else 0, 0, 0]
    assert splits[2].labels is None
    assert all(len(set(rows.ids)) == len(rows.ids) for rows in splits)
    if task == "sst":
        assert splits[0].texts[0][0].startswith(" The Rock is destined")
        assert np.bincount(splits[0].labels).tolist() == [1092, 2218, 1624, 2322, 1288]
    if task == "qqp":
        quoted = splits[0].texts[1][0]
        assert quoted.startswith('"Which is correct grammar')
        assert '""the"" here?"' in quoted
    if task == "sts":
        assert (splits[0].labels.min(), splits[0].labels.max()) == (0.0, 5.0)


def test_a_bad_dev_row_costs_no_train_row(tmp_path):
    """Dropping goes by each file's own rows, never by a position in the other."""
    header = ["id", "sentence", "label"]
    write_tsv(tmp_path / "train.csv", header, [[f"r{i}", f"text {i}", i % 2] for i in range(6)])
    rows = [["d0", "x", 1], ["d1", "y", ""], ["d2", "z", 0]]
    write_tsv(tmp_path / "dev.csv", header, rows)
    config = make(tmp_path, {"format": "tsv"})
    train, dev = (load_rows(config, "t", split, BINARY) for split in ("train", "dev"))
    assert train.ids == [f"r{i}" for i in range(6)]
    assert train.labels.tolist() == [0, 1] * 3
    assert (dev.ids, dev.labels.tolist(), dev.unlabelled_dropped) == (["d0", "d2"], [1, 0], 1)


def test_take_keeps_rows_together():
    rows = Rows("f", ["a", "b", "c"], [("x",), ("y",), ("z",)], np.array([0, 1, 2]), 5)
    taken = rows.take([2, 0])
    assert (taken.ids, taken.texts, taken.labels.tolist()) == (["c", "a"], [("z",), ("x",)], [2, 0])
    assert Rows("f", ["a"], [("x",)], None).take([0]).labels is None
