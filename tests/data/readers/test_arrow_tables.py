"""Parquet files, and data sets of the library: texts as in the file, numbers, classes by name."""

import bz2
import gzip
import json
import math
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.data.readers.arrow_tables import read_parquet
from tests.support.data_files import BINARY, make, refusal

ODD = b"caf\xe9"
HUB = {"format": "hub", "path": "set", "id": None}
DISK = {"format": "disk", "path": "saved", "id": None}
SPLITS = {"train": "train", "dev": "validation"}
CELLS = ["NA", "None", "null", "nan", "N/A", "007", "1_1", "5E2", "2020-01-01", "1.50", "true"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "EXTRACTED_DATASETS_PATH", tmp_path / "extracted")


# --- Parquet ---


def write(directory, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), directory / "x.parquet")
    return directory / "x.parquet"


def train_rows(directory, head="class", data=None, **columns):
    """The training rows of a Parquet file with these columns, and their class names."""
    texts = {name: pyarrow.array(["0", "1", "0"]) for name in ("sentence", "label", "id")}
    write(directory, **{**texts, **columns})
    config = make(directory, {"train": "x.parquet", **(data or {})}, "classification")
    reader = label_reader(config, "t", task_type(head))
    return load_rows(config, "t", "train", reader), reader.names


def not_utf8():
    """A column of text whose second cell is not UTF-8."""
    return pyarrow.array([b"fine", ODD, None]).view(pyarrow.string())


@pytest.mark.parametrize("kind", [pyarrow.binary(), pyarrow.large_binary(), pyarrow.string()])
def test_bytes_are_text(kind, tmp_path):
    texts = ["café ☕", "", None]
    cells = [text and text.encode() for text in texts]
    repeated = pyarrow.array([b"x", b"y", b"x"]).dictionary_encode()
    file = write(tmp_path, a=pyarrow.array(cells, kind), b=pyarrow.array([cells] * 3), c=repeated)
    assert read_parquet(file) == {"a": texts, "b": [texts] * 3, "c": ["x", "y", "x"]}


@pytest.mark.parametrize("key", ["sentence", "label", "id"])
@pytest.mark.parametrize("cells", [pyarrow.array([b"fine", ODD, None]), not_utf8()])
def test_cells_that_are_not_utf8_are_refused_by_row(key, cells, tmp_path):
    result = refusal(train_rows, tmp_path, **{key: cells})
    assert result.startswith(f"{tmp_path}/x.parquet, row 2: {key} holds bytes")


def test_a_column_that_nobody_asks_for_may_be_anything(tmp_path):
    far = pyarrow.array([2**62, 1, None], pyarrow.timestamp("us"))  # a time that Python has not
    more = {"picture": pyarrow.array([ODD] * 3), "broken": not_utf8(), "far": far}
    assert train_rows(tmp_path, **more)[0].gold.tolist() == [0, 1, 0]


@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_missing_text_is_empty_with_a_warning(missing, tmp_path, capsys):
    texts = ["0", None, "1"] if missing is None else [0.5, missing, 1.5]
    rows, _ = train_rows(tmp_path, sentence=pyarrow.array(texts))
    assert rows.texts[1] == ("",)
    assert "1 without sentence (null), the first one is row 2" in capsys.readouterr().err


def test_a_file_that_is_not_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    assert "x.parquet: " in refusal(read_parquet, tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "label",
    [
        pyarrow.array([[b"a"], [ODD], [b"c"]]),
        pyarrow.array(
            [[("a", 1)], [("b", 2)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())
        ),
    ],
)
def test_items_of_a_list_that_are_no_labels_are_refused(label, tmp_path):
    found = refusal(train_rows, tmp_path, "labels", label=label)
    assert ": label is [" in found and found.endswith("expected a list of labels")


def test_a_narrow_number_is_the_shortest_one(tmp_path):
    """As `str(numpy.float32(0.1))`; its digits in float64 would be another class name."""
    cells = [0.1, None, 5.2, 3.0, 1e-9, 16777216.0, float("inf")]
    assert read_parquet(write(tmp_path, a=pyarrow.array(cells, pyarrow.float32())))["a"] == cells
    wide = np.array([np.float32(0.1), 0.1], np.float64)
    assert read_parquet(write(tmp_path, a=wide))["a"] == [0.10000000149011612, 0.1]


@pytest.mark.parametrize("head", ["class", "number"])
def test_a_narrow_label_is_named_as_it_was_written(head, tmp_path):
    label = pyarrow.array([0.1, 0.9, 0.1], pyarrow.float32())
    data = {"label_range": [0.1, 0.9]} if head == "number" else {}
    rows, names = train_rows(tmp_path, head, data, label=label)
    assert (names, rows.gold.tolist()) in [(("0.1", "0.9"), [0, 1, 0]), ((), [0.1, 0.9, 0.1])]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("unlabelled", [[""], [], [-1]])
@pytest.mark.parametrize(("head", "classes"), [("class", [1, 0]), ("labels", [[0, 1], [1, 0]])])
def test_a_missing_number_is_a_missing_label(value, unlabelled, head, classes, tmp_path):
    data = {"unlabelled": unlabelled, "label_vectors": False if head == "labels" else None}
    rows, names = train_rows(tmp_path, head, data, label=[1.0, value, 0.0])
    assert (names, rows.gold.tolist()) == (("0", "1"), classes)
    assert rows.unlabelled_dropped == 1


# --- data sets ---


def rows_and_names(config, head="class"):
    reader = label_reader(config, "t", task_type(head))
    return load_rows(config, "t", "train", reader), reader.names


def texts_of(config) -> list[str]:
    return [text for (text,) in rows_and_names(config)[0].texts]


def write_set(directory: Path, card: str = "", **texts: str) -> Path:
    """A directory with CSV files of these splits."""
    (directory / "set").mkdir(exist_ok=True)
    for split, text in texts.items():
        (directory / "set" / f"{split}.csv").write_text(text)
    if card:
        (directory / "set" / "README.md").write_text(f"---\n{card}---\n")
    return directory / "set"


def csv_of(cells: list[str]) -> str:
    return "sentence,label\n" + "".join(f"{cell},{cell}\n" for cell in cells)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "csv.gz", "csv.bz2", "parquet"])
def test_cells_of_a_local_set_are_texts_as_in_the_file(kind, tmp_path):
    place = write_set(tmp_path)
    separator = "\t" if kind == "tsv" else ","
    text = csv_of(CELLS).replace(",", separator)
    if kind == "jsonl":
        text = "\n".join(json.dumps({"sentence": cell, "label": cell}) for cell in CELLS)
    pack = {"csv.gz": gzip.compress, "csv.bz2": bz2.compress}.get(kind, bytes)
    for name in SPLITS.values():
        file = place / f"{name}.{kind}"
        if kind == "parquet":
            Dataset.from_dict({"sentence": CELLS, "label": CELLS}).to_parquet(file)
        else:
            file.write_bytes(pack(text.encode()))
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert rows.texts == [(cell,) for cell in CELLS]
    assert sorted(names) == sorted(CELLS)
    assert rows.source == f"{place}[train]"


@pytest.mark.parametrize("split", ["train", "train[:50%]", "train[-3:]+validation[:1]", "all"])
def test_a_part_of_a_split_has_the_rows_of_the_library(split, tmp_path):
    place = write_set(tmp_path, train=csv_of(CELLS), validation=csv_of(CELLS[::-1]))
    same = datasets.load_dataset(str(place), split=split)
    texts = texts_of(make(tmp_path, HUB | {"train": split, "dev": "train"}))
    assert len(texts) == len(same) and set(texts) <= set(CELLS)


def test_an_empty_label_is_dropped_and_a_row_may_be_short(tmp_path):
    write_set(tmp_path, train="sentence,label\nNA,None\nnull,nan\n,x\nb,\nc\n")
    rows, names = rows_and_names(make(tmp_path, HUB | {"train": "train", "dev": "train"}))
    assert (rows.texts, names) == ([("NA",), ("null",), ("",)], ("None", "nan", "x"))
    assert rows.unlabelled_dropped == 2


def test_without_a_network_the_files_of_an_earlier_load_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    config, revision = make(tmp_path, HUB | SPLITS | {"path": "user/set"}), "0123456789" * 4
    assert "cannot load the data set 'user/set'" in refusal(texts_of, config)
    saved_set = tmp_path / "hub" / "datasets--user--set"
    for folder in ("refs", f"snapshots/{revision}"):
        (saved_set / folder).mkdir(parents=True)
    (saved_set / "refs" / "main").write_text(revision)
    write_set(tmp_path, train=csv_of(CELLS), validation=csv_of(CELLS))
    (tmp_path / "set").rename(saved_set / "snapshots" / revision / "set")
    assert texts_of(config) == CELLS


CARD = """configs:
- config_name: default
  data_files: [{{split: train, path: train.csv}}, {{split: validation, path: validation.csv}}]
  {option}
"""


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ('sep: "|"', "sentence|label\n007|1_1\nNA|5E2\n"),
        ("names: [sentence, label]", "007,1_1\nNA,5E2\n"),
        ("skiprows: 1", "made by us\nsentence,label\n007,1_1\nNA,5E2\n"),
    ],
)
def test_what_a_card_says_about_its_files(option, text, tmp_path):
    write_set(tmp_path, CARD.format(option=option), train=text, validation=text)
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert (rows.texts, names) == ([("007",), ("NA",)], ("5E2", "1_1"))


CLASSES = """dataset_info:
  features:
  - name: sentence
    dtype: string
  - name: label
    dtype: {class_label: {names: {'0': bad, '1': good}}}
"""


def test_declared_classes_have_names_and_numbers(tmp_path):
    write_set(tmp_path, CLASSES, train="sentence,label\n007,1\nNA,bad\nb,\nc,good\n")
    config = make(tmp_path, HUB | {"train": "train", "dev": "train"})
    rows, names = rows_and_names(config)
    assert (rows.texts, rows.gold.tolist(), names) == (
        [("007",), ("NA",), ("c",)],
        [1, 0, 1],
        ("bad", "good"),
    )
    write_set(tmp_path, train="sentence,label\n007,1\nNA,worse\n")
    assert "data.path: cannot load" in refusal(texts_of, config)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (HUB | {"train": "training"}, "Unknown split"),
        (HUB | {"train": "train[:50%"}, ""),
        (HUB | {"path": "no/where"}, "'no/where'"),
        (DISK | {"train": "training"}, "training"),
        (DISK | {"path": "single"}, "train"),  # one Dataset would serve as train and as dev
        (DISK | {"path": "nowhere"}, "nowhere"),
    ],
)
def test_a_split_that_cannot_be_read(data, part, tmp_path):
    write_set(tmp_path, train=csv_of(CELLS))
    split = saved(tmp_path, train=["a", "b"])["train"]
    split.save_to_disk(tmp_path / "single")
    result = refusal(texts_of, make(tmp_path, {"train": "train", **data}))
    assert "data.path: cannot load the data set" in result and part in result


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
    rows, result = rows_and_names(make(tmp_path, DISK | SPLITS), head)
    assert (result, rows.labels.tolist()) == (("negative", "positive"), [1, 0, 1])
    # the config may still name the numbers
    named = make(tmp_path, DISK | SPLITS | {"labels": {0: "bad", 1: "good"}})
    assert rows_and_names(named, head)[1] == ("bad", "good")
    # a Parquet file of the library says the names, too
    splits["train"].to_parquet(tmp_path / "x.parquet")
    parquet = make(tmp_path, {"train": "x.parquet", "id": None})
    assert rows_and_names(parquet, head)[1] == ("negative", "positive")


def test_a_test_split_of_a_data_set_may_lack_the_label(tmp_path):
    test = Dataset.from_dict({"sentence": ["a"]})
    DatasetDict({"test": test}).save_to_disk(tmp_path / "saved")
    rows = load_rows(make(tmp_path, DISK | {"test": "test"}), "t", "test", BINARY)
    assert rows.labels is None and rows.texts == [("a",)]
