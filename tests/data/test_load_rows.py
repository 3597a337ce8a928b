"""Labels mapped and checked, unlabelled rows dropped and counted, texts from a user's file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.inputs.cross import Cross
from multitask.data.inputs.single import Single
from multitask.data.load_rows import label_reader, load_rows, rows_of_texts, texts_from_file
from multitask.data.tags import words_rows
from multitask.tasks.label_reader import label_text
from multitask.tasks.rows import Rows
from multitask.utils import limits
from multitask.utils.errors import UserError
from tests.conftest import ROOT, write_tsv
from tests.support.data_files import BINARY, make, refusal, rows_of


def test_pairs_and_numeric_labels(tmp_path):
    (tmp_path / "p.csv").write_text("b,a,score\nsecond,first,2.5\n2,1,0\n")
    data = {"train": "p.csv", "id": None, "text": "a", "text2": "b", "label": "score"}
    config = make(tmp_path, {**data, "label_range": [0, 5]}, "regression", input="cross")
    rows = load_rows(config, "t", "train", label_reader(config, "t", task_type("number")))
    assert rows.texts == [("first", "second"), ("1", "2")]
    assert rows.labels.tolist() == [2.5, 0.0]
    assert rows.labels.dtype == np.float64


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


@pytest.mark.parametrize("label", ["2", "good", "0.5", "-1", "?"])
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_label_that_is_no_class_names_file_and_row(label, split, tmp_path):
    before = "1" if split == "test" else ""  # a row that is dropped counts, too
    text = f"id,sentence,label\n1,a,{before}\nx7,b,{label}\n3,c,0\n"
    (tmp_path / f"{split}.csv").write_text(text)
    config = make(tmp_path, {"test": "test.csv"})
    error = refusal(load_rows, config, "t", split, BINARY)
    message = f"label is '{label}': expected one of 0, 1 (`data.labels` gives others a meaning)"
    hint = f'; if it means \'no label\', set `data.unlabelled: ["", "{label}"]`'
    message += hint if split == "test" or label == "-1" else ""
    assert error == f"{tmp_path / split}.csv, line 3, row 2 (id x7): {message}"


@pytest.mark.parametrize("label", ["5.1", "-0.1", "high", "nan", "inf", "1_1", "٤", "0x1", "1,5"])
def test_number_out_of_range_names_file_and_row(label, tmp_path):
    (tmp_path / "train.csv").write_text(f'id,sentence,label\n1,a,5\n2,b,"{label}"\n')
    config = make(tmp_path, {"label_range": [0, 5]}, "regression")
    error = refusal(load_rows, config, "t", "train", label_reader(config, "t", task_type("number")))
    assert error.startswith(f"{tmp_path / 'train.csv'}, line 3, row 2 (id 2): label is ")
    assert error.endswith("expected a number from 0 to 5")


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
        # each spelling by its own name
        ("class", {"1": "one", "1.0": "float", "1e0": "power"}, ("one", "float", "power"),
         {"1": 0, "1.0": 1, "1e0": 2}),
        # found in train: numbers in their order, then words
        ("class", None, ("2", "2.0", "10", "x", "y"),
         {2: 0, "2.0": 1, "10.0": 2, "x": 3, "y": 4, " y ": 4}),
    ],
)  # fmt: skip
def test_label_maps(label_type, labels, names, pairs, tmp_path):
    values = ["y", "10", "2.0", "", "x", "2"]
    lines = [f"{i},text,{value}" for i, value in enumerate(values)]
    (tmp_path / "train.csv").write_text("\n".join(["id,sentence,label", *lines]))
    config = make(tmp_path, {} if labels is None else {"labels": labels})
    reader = label_reader(config, "t", task_type(label_type))
    assert reader.names == names
    assert {value: reader.read(label_text(value)) for value in pairs} == pairs


@pytest.mark.parametrize("head", ["class", "labels"])
def test_two_different_texts_are_two_classes(head, tmp_path):
    values = ["1_1", "11", "5E2", "500", "1.0", "1", "1.50", "1.5", "True", "true", "01", "١", "+1"]
    (tmp_path / "train.csv").write_text("\n".join(["sentence,label", *(f"a,{v}" for v in values)]))
    reader = label_reader(make(tmp_path, {"id": None}), "t", task_type(head))
    assert sorted(reader.names) == sorted(values)
    assert {value: reader.names[reader.ids[value]] for value in values} == dict(
        zip(values, values, strict=True)
    )


@pytest.mark.parametrize(
    ("label_type", "data", "part"),
    [
        ("binary", {"labels": ["a", "b", "c"]}, "data.labels: the head takes 2 classes, not 3"),
        ("number", {}, "needs `label_range: [low, high]`"),
        ("class", {"label_range": [0, 1]}, "tasks.t.data.label_range: the head predicts classes"),
        ("binary", {"label_range": [0, 1]}, "the head predicts two classes"),
        ("class", {}, "column 'label' needs at least two labels and has: "),
        ("class", {"label": "gold"}, "no column 'gold'"),
        ("binary", {"ordered": True}, "tasks.t.data.ordered: the head takes no ordered classes"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_the_head(label_type, data, part, tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,1\n2,b,1\n")
    assert part in refusal(label_reader, make(tmp_path, data), "t", task_type(label_type))


@pytest.mark.parametrize("name", ["class", "labels"])
def test_a_column_of_texts_is_no_column_of_classes(name, tmp_path):
    """100,000 of them once took minutes and more memory than there is."""
    lines = [f"{i},text,what the text {i} says" for i in range(limits.CLASSES + 1)]
    file = tmp_path / "train.csv"
    config = make(tmp_path, {})
    file.write_text("\n".join(["id,sentence,label", *lines[:-1]]) + "\n")
    assert len(label_reader(config, "t", task_type(name)).names) == limits.CLASSES
    file.write_text("\n".join(["id,sentence,label", *lines]) + "\n")
    error = refusal(label_reader, config, "t", task_type(name))
    assert "tasks.t.data.label: 'label' has 1,001 different labels" in error
    assert "at most 1,000 classes: name another column" in error


@pytest.mark.parametrize("value", ['["a", "b"]', '{"a": 1}'])
@pytest.mark.parametrize("key", ["sentence", "label"])
def test_a_list_or_an_object_where_one_value_belongs(value, key, tmp_path):
    plain = '{"sentence": "one", "label": 1}'
    other = {"sentence": '"two"', "label": "0"} | {key: value}
    row = f'{{"sentence": {other["sentence"]}, "label": {other["label"]}}}'
    (tmp_path / "train.jsonl").write_text(f"{plain}\n{row}\n")
    config = make(tmp_path, {"train": "train.jsonl"})
    if key == "label":
        error = refusal(label_reader, config, "t", task_type("class"))
        assert "train.jsonl, line 2, row 2: label is a list or an object" in error
    else:
        error = refusal(load_rows, config, "t", "train", BINARY)
        assert "train.jsonl, line 2, row 2: sentence is no text: " in error


def test_a_dev_label_that_train_does_not_have_is_an_error(tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,x\n2,b,y\n")
    (tmp_path / "dev.csv").write_text("id,sentence,label\n1,a,z\n")
    config = make(tmp_path, {}, "classification")
    reader = label_reader(config, "t", task_type("class"))
    assert "row 1 (id 1): label is 'z': expected one of x, y" in refusal(
        load_rows, config, "t", "dev", reader
    )


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
def test_texts_of_the_user(name, text, pair, texts, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = {"format": "tsv", "text": "a", "id": None, "label": "unknown"}
    config = make(
        tmp_path, data | ({"text2": "b"} if pair else {}), input="cross" if pair else "single"
    )
    rows = texts_from_file(config.tasks["t"], tmp_path / name)
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
    assert message in refusal(texts_from_file, config.tasks["t"], tmp_path / name)


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


# --- several labels per row ---

LISTS = "sentence\tlabel\na\t[2, 6, 0]\nb\t[0, 0, 0]\nc\t['10', \"2\"]\nd\t6,0\n"


def test_a_cell_written_as_a_list_is_a_list(tmp_path):
    (tmp_path / "train.csv").write_text(LISTS)
    config = make(tmp_path, {"id": None, "padding_label": 0}, "multi_label")
    reader = label_reader(config, "t", task_type("labels"))
    assert reader.names == ("2", "6", "10")
    rows = load_rows(config, "t", "train", reader)
    assert rows.labels.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0]]
    without = make(tmp_path, {"id": None}, "multi_label")
    assert label_reader(without, "t", task_type("labels")).names == ("0", "2", "6", "10")


@pytest.mark.parametrize("cell", ["[2", "0]", "[2 6]", "['a' 'b']"])
def test_half_a_list_is_refused_with_file_and_row(cell, tmp_path):
    (tmp_path / "train.csv").write_text(f'{LISTS}e\t"{cell}"\n')
    config = make(tmp_path, {"id": None, "labels": [0, 2, 6, 10]}, "multi_label")
    reader = label_reader(config, "t", task_type("labels"))
    error = refusal(load_rows, config, "t", "train", reader)
    where = f"{tmp_path / 'train.csv'}, line 6, row 5 (id 4)"
    assert error.startswith(f"{where}: label is {cell!r}: expected")


@pytest.mark.parametrize("kind", ["class", "binary", "number"])
def test_padding_is_refused_where_a_row_has_one_label(kind, tmp_path):
    scale = {"label_range": [0, 5]} if kind == "number" else {}
    config = make(tmp_path, {"padding_label": 0, **scale})
    error = refusal(label_reader, config, "t", task_type(kind))
    assert "tasks.t.data.padding_label: the head takes one label per row: leave this out" in error


def test_paraphrase_types_of_the_real_files(tmp_path):
    """ETPC of the course in Goettingen: separated by tabs under the name .csv, lists in cells."""
    if not (directory := ROOT.parent / "shared" / "data" / "dnlp").is_dir():
        pytest.skip(f"the files are not at hand ({directory})")
    files = {name: str(directory / f"etpc-paraphrase-{name}.csv") for name in ("train", "dev")}
    keys = {"text": "sentence1", "text2": "sentence2", "label": "paraphrase_types"}
    config = make(tmp_path, {**files, **keys, "padding_label": 0}, "multi_label", input="cross")
    reader = label_reader(config, "t", task_type("labels"))
    assert reader.names == ("1", "2", "3", "4", "5", "6", "7")
    train, dev = (load_rows(config, "t", split, reader) for split in files)
    assert (len(train), len(dev), train.unlabelled_dropped) == (2019, 505, 0)
    assert train.labels.sum(axis=0).tolist() == [422, 1663, 428, 344, 527, 2011, 1680]


# --- texts from Python ---


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        ("a", "b"),
        (letter for letter in "ab"),
        map(str, ["a", "b"]),
        {"a": 1, "b": 2}.keys(),
        np.array(["a", "b"]),
        pd.Series(["a", "b"], index=[4, 9]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Index(["a", "b"]),
    ],
)
def test_any_iterable_of_texts(texts):
    assert rows_of_texts(texts, Single(), "task t").texts == [("a",), ("b",)]


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "b"), ["c", "d"]],
        zip("ac", "bd", strict=True),
        np.array([["a", "b"], ["c", "d"]]),
        pd.DataFrame({"x": ["a", "c"], "y": ["b", "d"]}).itertuples(index=False),
    ],
)
def test_any_iterable_of_pairs(pairs):
    assert rows_of_texts(pairs, Cross(), "task t").texts == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("rows", [rows_of_texts, words_rows])
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "expected a list of .*, not str"),
        (b"a text", "expected a list of .*, not bytes"),
        ({"text": ["a"]}, "expected a list of .*, not dict"),
        (None, "expected a list of .*, not NoneType"),
        (3, "expected a list of .*, not int"),
        (iter([]), "expected a list of .*, not an empty one"),
        (pd.DataFrame({"text": ["a"]}), "expected a list of .*, not a table: pass one of its col"),
        (pd.Series(["a", None], index=[4, 9]), "item 1 is (nan|None)|row 2: words is (nan|None)"),
        (["a", pd.NA], "item 1 is <NA>|row 2: words is <NA>"),
        (["a", None], "item 1 is None|row 2: words is None"),
        (["a", 5], "item 1 is 5|row 2: words is 5"),
        ([b"a"], "item 0 is b'a'|row 1: words is "),
        ([{"text": "a"}], "item 0 is {|row 1: words is {"),
        ([{"a"}], "item 0 is {|row 1: words is {"),  # a set has no order
        (["so \ud83d sad"], "item 0 holds half a character|row 1: words holds half a character"),
    ],
)
def test_what_is_no_list_of_texts(texts, message, rows):
    with pytest.raises(UserError, match=f"task t.*({message})") as caught:
        rows(texts, Single(), "task t")
    assert "\n" not in str(caught.value)
