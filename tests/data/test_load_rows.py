"""Labels mapped and checked, unlabelled rows dropped and counted, texts from a user's file."""

from pathlib import Path

import numpy as np
import pytest

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.tasks.rows import Rows
from tests.conftest import ROOT
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


def test_a_dev_label_that_train_does_not_have_is_an_error(tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,x\n2,b,y\n")
    (tmp_path / "dev.csv").write_text("id,sentence,label\n1,a,z\n")
    config = make(tmp_path, {}, "classification")
    reader = label_reader(config, "t", task_type("class"))
    assert "row 1 (id 1): label is 'z': expected one of x, y" in refusal(
        load_rows, config, "t", "dev", reader
    )


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
