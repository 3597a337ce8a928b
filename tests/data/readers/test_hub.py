"""Data sets that the `datasets` library loads: texts as they are in the file, classes by name."""

import json

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from multitask.config.registry import task_type
from multitask.data.load_rows import label_reader, load_rows
from tests.support.data_files import make, refusal

HUB = {"format": "hub", "path": "set", "id": None}
DISK = {"format": "disk", "path": "saved", "id": None}
SPLITS = {"train": "train", "dev": "validation"}
CELLS = ["NA", "None", "null", "nan", "N/A", "007", "1_1", "5E2", "2020-01-01", "1.50", "true"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def rows_and_names(config, head="class"):
    reader = label_reader(config, "t", task_type(head))
    return load_rows(config, "t", "train", reader), reader.names


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_cells_of_a_local_set_are_texts_as_in_the_file(kind, tmp_path):
    (tmp_path / "set").mkdir()
    separator = "\t" if kind == "tsv" else ","
    lines = [separator.join(["sentence", "label"]), *(separator.join([c, c]) for c in CELLS)]
    if kind == "jsonl":
        lines = [json.dumps({"sentence": cell, "label": cell}) for cell in CELLS]
    for name in SPLITS.values():
        (tmp_path / "set" / f"{name}.{kind}").write_text("\n".join(lines))
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert rows.texts == [(cell,) for cell in CELLS]
    assert sorted(names) == sorted(CELLS)


def test_a_part_of_a_split_keeps_the_words_that_pandas_reads_as_missing(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").write_text("sentence,label\nNA,None\nnull,nan\n,x\nb,\n")
    config = make(tmp_path, HUB | {"train": "train[:4]", "dev": "train[1:]"})
    rows, names = rows_and_names(config)
    assert (rows.texts, names) == ([("NA",), ("null",), ("",)], ("None", "nan", "x"))
    assert rows.unlabelled_dropped == 1


def test_a_set_that_is_no_table_of_separated_values(tmp_path):
    (tmp_path / "set").mkdir()
    columns = {"sentence": ["NA", "b"], "label": ["None", "x"]}
    for name in SPLITS.values():
        Dataset.from_dict(columns).to_parquet(tmp_path / "set" / f"{name}.parquet")
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert (rows.texts, names) == ([("NA",), ("b",)], ("None", "x"))


def saved(directory, **names):
    """A saved data set whose splits number their classes after ``names``."""
    splits = {
        split: Dataset.from_dict(
            {"sentence": ["a", "b", "c"], "label": [1, 0, 1]},
            Features({"sentence": Value("string"), "label": ClassLabel(names=given)}),
        )
        for split, given in names.items()
    }
    DatasetDict(splits).save_to_disk(directory / "saved")
    return splits


@pytest.mark.parametrize("head", ["class", "binary"])
def test_classes_have_the_names_of_the_column(head, tmp_path):
    names = ["negative", "positive"]
    splits = saved(tmp_path, train=names, validation=names)
    rows, found = rows_and_names(make(tmp_path, DISK | SPLITS), head)
    assert (found, rows.labels.tolist()) == (("negative", "positive"), [1, 0, 1])
    # the config may still name the numbers
    named = make(tmp_path, DISK | SPLITS | {"labels": {0: "bad", 1: "good"}})
    assert rows_and_names(named, head)[1] == ("bad", "good")
    # a Parquet file of the library says the names, too
    splits["train"].to_parquet(tmp_path / "x.parquet")
    parquet = make(tmp_path, {"train": "x.parquet", "id": None})
    assert rows_and_names(parquet, head)[1] == ("negative", "positive")


def test_splits_that_number_their_classes_in_another_order_are_refused(tmp_path):
    saved(tmp_path, train=["negative", "positive"], validation=["positive", "negative"])
    config = make(tmp_path, DISK | SPLITS)
    found = refusal(label_reader, config, "t", task_type("class"))
    assert "the classes of validation are positive, negative, of train negative, positive" in found


def test_a_split_that_is_not_there(tmp_path):
    saved(tmp_path, train=["a", "b"], validation=["a", "b"])
    config = make(tmp_path, DISK | {"train": "training"})
    assert "its splits are train, validation" in refusal(rows_and_names, config)
