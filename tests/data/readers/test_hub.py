"""Data sets that the `datasets` library loads: texts as they are in the file, classes by name."""

import bz2
import gzip
import json
import zipfile
from pathlib import Path

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from multitask.config.registry import task_type
from multitask.data.load_rows import label_reader, load_rows
from multitask.utils.errors import warn
from tests.support.data_files import make, refusal

HUB = {"format": "hub", "path": "set", "id": None}
DISK = {"format": "disk", "path": "saved", "id": None}
SPLITS = {"train": "train", "dev": "validation"}
CELLS = ["NA", "None", "null", "nan", "N/A", "007", "1_1", "5E2", "2020-01-01", "1.50", "true"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "EXTRACTED_DATASETS_PATH", tmp_path / "extracted")


def rows_and_names(config, head="class"):
    reader = label_reader(config, "t", task_type(head))
    return load_rows(config, "t", "train", reader), reader.names


def write_set(directory: Path, **texts: str) -> Path:
    """A directory with CSV files of these splits."""
    directory.mkdir(exist_ok=True)
    for split, text in texts.items():
        (directory / f"{split}.csv").write_text(text)
    return directory


def csv_of(cells: list[str]) -> str:
    return "sentence,label\n" + "".join(f"{cell},{cell}\n" for cell in cells)


def texts_of(config) -> list[str]:
    return [text for (text,) in rows_and_names(config)[0].texts]


def write_card(directory: Path, text: str) -> None:
    (directory / "README.md").write_text(f"---\n{text}---\n")


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


@pytest.mark.parametrize(
    "split",
    ["train", "train[:50%]", "train[5:]", "train[-3:]", "train[10%:20%]+validation[:1]",
     "validation+train", "train[:2]+train[:2]", "all", "train[:0]+validation"],
)  # fmt: skip
def test_a_part_of_a_split_has_the_rows_of_the_library(split, tmp_path):
    halves = {"train": CELLS, "validation": CELLS[::-1]}
    write_set(tmp_path / "set", **{name: csv_of(cells) for name, cells in halves.items()})
    (tmp_path / "same").mkdir()
    for name, cells in halves.items():
        Dataset.from_dict({"a": cells}).to_parquet(tmp_path / "same" / f"{name}.parquet")
    same = datasets.load_dataset(str(tmp_path / "same"), split=split)
    assert texts_of(make(tmp_path, HUB | {"train": split, "dev": "train"})) == list(same["a"])


def test_a_part_of_a_split_drops_rows_without_a_label(tmp_path):
    write_set(tmp_path / "set", train="sentence,label\nNA,None\nnull,nan\n,x\nb,\n")
    config = make(tmp_path, HUB | {"train": "train[:4]", "dev": "train[1:]"})
    rows, names = rows_and_names(config)
    assert (rows.texts, names) == ([("NA",), ("null",), ("",)], ("None", "nan", "x"))
    assert rows.unlabelled_dropped == 1


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("training", 'Unknown split "training"'),
        ("train[:50%", "Unrecognized instruction format"),
        ("train[:50%](pct1_dropremainder)", "less than 100 elements is forbidden"),
    ],
)
def test_a_split_that_cannot_be_read(split, message, tmp_path):
    write_set(tmp_path / "set", train=csv_of(CELLS))
    result = refusal(texts_of, make(tmp_path, HUB | {"train": split, "dev": "train"}))
    assert f"data.path: cannot load the data set '{tmp_path}/set', split '{split}'" in result
    assert message in result


SHORT = "sentence,label\na,b\nc\n"
REFUSED = "line 3: 1 cells, but the header has 2: write an empty cell"


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A directory whose files seem to be on the hub, as `user/set`."""
    directory, address = tmp_path / "remote", "hf://datasets/user/set@0123abc"
    open_builder = datasets.load_dataset_builder
    download = datasets.download.download_manager.cached_path

    def builder_of(where, *args, **options):
        assert where == "user/set"
        made = open_builder(str(directory), *args, **options)
        for files in made.config.data_files.values():
            files[:] = [file.replace(str(directory), address) for file in files]
        return made

    def local(file, **options):
        return download(file.replace(address, str(directory)), **options)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder_of)
    monkeypatch.setattr(datasets.download.download_manager, "cached_path", local)
    return directory


REMOTE = HUB | SPLITS | {"path": "user/set"}


def test_files_on_the_hub_are_texts_as_in_the_file(remote, tmp_path):
    write_set(remote, train=csv_of(CELLS), validation=csv_of(CELLS[:2]))
    rows, names = rows_and_names(make(tmp_path, REMOTE))
    assert rows.texts == [(cell,) for cell in CELLS]
    assert sorted(names) == sorted(CELLS)
    assert rows.source == "user/set[train]"
    half = make(tmp_path, REMOTE | {"train": "validation[:50%]+train[:50%]"})
    assert texts_of(half) == CELLS[:1] + CELLS[:6]


def test_a_set_on_the_hub_that_is_no_table_of_text(remote, tmp_path):
    remote.mkdir()
    for name in SPLITS.values():
        Dataset.from_dict({"sentence": ["NA", "b"], "label": ["None", "x"]}).to_parquet(
            remote / f"{name}.parquet"
        )
    config = make(tmp_path, REMOTE | {"train": "train[1:]+validation"})
    rows, names = rows_and_names(config)
    assert (rows.texts, names) == ([("b",), ("NA",), ("b",)], ("None", "x"))


def test_a_short_row_is_refused_with_the_name_on_the_hub(remote, tmp_path):
    write_set(remote, train=SHORT, validation=SHORT)
    result = refusal(texts_of, make(tmp_path, REMOTE))
    assert result.startswith(f"hf://datasets/user/set@0123abc/train.csv, {REFUSED}")


@pytest.mark.parametrize("kind", ["gz", "bz2", "zip"])
def test_packed_files(kind, remote, tmp_path):
    remote.mkdir()
    for name, text in (("train", csv_of(CELLS)), ("validation", SHORT)):
        if kind == "zip":
            with zipfile.ZipFile(remote / f"{name}.zip", "w") as packed:
                packed.writestr("one.csv", text)
        else:
            pack = {"gz": gzip, "bz2": bz2}[kind].compress
            (remote / f"{name}.csv.{kind}").write_bytes(pack(text.encode()))
    assert texts_of(make(tmp_path, REMOTE)) == CELLS
    result = refusal(texts_of, make(tmp_path, REMOTE | {"train": "validation"}))
    name = "validation.zip/one.csv" if kind == "zip" else f"validation.csv.{kind}"
    assert result.startswith(f"hf://datasets/user/set@0123abc/{name}, {REFUSED}")


def test_several_files_of_a_split_have_the_same_columns(tmp_path):
    place = write_set(tmp_path / "set", validation=csv_of(["a"]))
    (place / "train-0.csv").write_text(csv_of(["007"]))
    (place / "train-1.csv").write_text(csv_of(["1_1", "7"]))
    config = make(tmp_path, HUB | SPLITS)
    assert texts_of(config) == ["007", "1_1", "7"]
    (place / "train-1.csv").write_text("text,label\na,b\n")
    assert "train-1.csv: no column 'sentence'" in refusal(texts_of, config) or (
        "train-1.csv: its columns are not those of" in refusal(texts_of, config)
    )


def test_json_is_not_reinterpreted(tmp_path):
    (tmp_path / "set").mkdir()
    lines = ['{"sentence": "2020-01-01", "label": 1.0}', '{"sentence": true, "label": 1}']
    (tmp_path / "set" / "train.json").write_text("\n".join(lines))
    (tmp_path / "set" / "validation.json").write_text(f"[{', '.join(lines)}]")
    for split in ("train", "validation"):
        rows, names = rows_and_names(make(tmp_path, HUB | SPLITS | {"train": split}))
        assert rows.texts == [("2020-01-01",), ("true",)]
        assert sorted(names) == ["1", "1.0"]


CARD = """configs:
- config_name: default
  data_files: [{{split: train, path: train.csv}}, {{split: validation, path: validation.csv}}]
  {option}
"""


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ('sep: "|"', "sentence|label\n007|1_1\nNA|5E2\n"),
        ('delimiter: "\\t"', "sentence\tlabel\n007\t1_1\nNA\t5E2\n"),
        ("names: [sentence, label]", "007,1_1\nNA,5E2\n"),
        ("column_names: [sentence, label]", "007,1_1\nNA,5E2\n"),
    ],
)
def test_what_a_card_says_about_its_files(option, text, tmp_path, capsys):
    write_card(write_set(tmp_path / "set", train=text, validation=text), CARD.format(option=option))
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert (rows.texts, names) == ([("007",), ("NA",)], ("5E2", "1_1"))
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("skiprows: 1", "made by us\nsentence,label\n007,1_1\nNA,5E2\n,null\n"),
        ('comment: "%"', "sentence,label\n%\n007,1_1\nNA,5E2\n,null\n"),
        ('sep: "::"\n  engine: python', "sentence::label\n007::1_1\nNA::5E2\n::null\n"),
    ],
)
def test_files_that_pandas_must_read_are_text_too_and_it_is_said(option, text, tmp_path, capsys):
    warn.cache_clear()
    write_card(write_set(tmp_path / "set", train=text, validation=text), CARD.format(option=option))
    rows, names = rows_and_names(make(tmp_path, HUB | SPLITS))
    assert (rows.texts, names) == ([("007",), ("NA",), ("",)], ("5E2", "1_1", "null"))
    said = capsys.readouterr().err
    assert "/set: pandas reads it (" in said and option.partition(":")[0] in said


CLASSES = """dataset_info:
  features:
  - name: sentence
    dtype: string
  - name: label
    dtype: {class_label: {names: {'0': bad, '1': good}}}
"""


def test_declared_classes_have_names_and_numbers(tmp_path):
    place = write_set(tmp_path / "set", train="sentence,label\n007,1\nNA,bad\nb,\nc, good\n")
    write_card(place, CLASSES)
    config = make(tmp_path, HUB | {"train": "train", "dev": "train"})
    rows, names = rows_and_names(config)
    assert (rows.texts, rows.gold.tolist(), names) == (
        [("007",), ("NA",), ("c",)],
        [1, 0, 1],
        ("bad", "good"),
    )
    write_set(place, train="sentence,label\n007,1\nNA,worse\n")
    assert "row 2: label is 'worse': expected one of bad, good" in refusal(texts_of, config)
    write_set(place, train="sentence,label\n007,1\nNA,bad\u200b\n")
    assert refusal(texts_of, config).endswith("looks like 'bad', but has U+200B added")


def test_without_a_network_the_files_of_an_earlier_load_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    config, revision = make(tmp_path, REMOTE), "0123456789" * 4
    assert "cannot load the data set 'user/set'" in refusal(texts_of, config)
    saved = tmp_path / "hub" / "datasets--user--set"
    (saved / "refs").mkdir(parents=True)
    (saved / "refs" / "main").write_text(revision)
    (saved / "snapshots" / revision).mkdir(parents=True)
    assert "cannot load the data set 'user/set'" in refusal(texts_of, config)
    write_set(saved / "snapshots" / revision, train=csv_of(CELLS), validation=csv_of(CELLS))
    assert texts_of(config) == CELLS


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
    rows, result = rows_and_names(make(tmp_path, DISK | SPLITS), head)
    assert (result, rows.labels.tolist()) == (("negative", "positive"), [1, 0, 1])
    # the config may still name the numbers
    named = make(tmp_path, DISK | SPLITS | {"labels": {0: "bad", 1: "good"}})
    assert rows_and_names(named, head)[1] == ("bad", "good")
    # a Parquet file of the library says the names, too
    splits["train"].to_parquet(tmp_path / "x.parquet")
    parquet = make(tmp_path, {"train": "x.parquet", "id": None})
    assert rows_and_names(parquet, head)[1] == ("negative", "positive")


def test_a_class_that_means_no_label_is_its_number(tmp_path):
    saved(tmp_path, train=["negative", "none"], validation=["negative", "none"])
    config = make(tmp_path, DISK | SPLITS | {"unlabelled": ["none"]})
    found = refusal(label_reader, config, "t", task_type("class"))
    assert found.endswith("unlabelled: the column has numbers: write 1 instead of 'none'")


@pytest.mark.parametrize("cell", ["01", "0_1", "\u0661", "1.0"])
def test_a_number_of_a_declared_class_has_one_spelling(cell, tmp_path):
    place = write_set(tmp_path / "set", train=f"sentence,label\na,1\nb, 0\nc,good\nd,{cell}\n")
    write_card(place, CLASSES)
    found = refusal(rows_and_names, make(tmp_path, HUB | {"train": "train", "dev": "train"}))
    assert found.endswith(f"row 4: label is {cell!r}: expected one of bad, good")


def test_splits_that_number_their_classes_in_another_order_are_refused(tmp_path):
    saved(tmp_path, train=["negative", "positive"], validation=["positive", "negative"])
    config = make(tmp_path, DISK | SPLITS)
    result = refusal(label_reader, config, "t", task_type("class"))
    assert "the classes of validation are positive, negative, of train negative, positive" in result


def test_a_split_that_is_not_there(tmp_path):
    saved(tmp_path, train=["a", "b"], validation=["a", "b"])
    config = make(tmp_path, DISK | {"train": "training"})
    assert "its splits are train, validation" in refusal(rows_and_names, config)
