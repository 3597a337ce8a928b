"""The config of a Python program: a file, a dict or a ``Config``, with overrides and rows.

Rows become Parquet files: the kinds of tables, their names, and what is refused.
"""

from pathlib import Path

import datasets
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from multitask.api.read_source import SPLITS, arrow_table, parquet_bytes, read_source, row_files
from multitask.config import load_config
from multitask.config.yaml_merge import load_tree
from multitask.data.classes import label_readers
from multitask.data.load_rows import load_rows
from multitask.data.readers.arrow_tables import parquet_features, read_parquet
from multitask.utils.errors import UserError
from tests.conftest import ROOT

FILE = ROOT / "configs" / "cs224n.yaml"
GIVEN = {"sst": {"train": [{"id": "1", "sentence": "a", "sentiment": 0}]}}


def test_a_file_a_dict_and_a_config_are_one(tmp_path):
    changes = ["training.epochs=1", f"output_dir={tmp_path}"]
    expected = load_config(FILE, changes)
    config = load_config(FILE)
    sources = [FILE, str(FILE), {"extends": FILE}, config, config.resolved()]
    for source in sources:
        assert read_source(source, changes).dump() == expected.dump()
    assert read_source(config) is config


def test_rows_are_files_next_to_the_run(tmp_path):
    config = read_source(FILE, [f"output_dir={tmp_path / 'runs' / 'a'}"], GIVEN)
    (saved,) = (tmp_path / "runs" / "rows").iterdir()
    data = config.tasks["sst"].data
    assert data.train == str(saved)
    assert data.dev == "ids-sst-dev.csv"
    assert config.tasks["qqp"] == load_config(FILE).tasks["qqp"]


def test_rows_of_dev_replace_a_share_of_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = {"extends": FILE, "output_dir": "a", "tasks": {"sst": {"data": {"dev": None}}}}
    shared = read_source(source, ["tasks.sst.data.dev_share=0.1"], GIVEN).tasks["sst"].data
    assert (shared.dev_share, shared.dev) == (0.1, None)
    rows = {"sst": {"dev": GIVEN["sst"]["train"]}}
    given = read_source(source, ["tasks.sst.data.dev_share=0.1"], rows).tasks["sst"].data
    assert given.dev_share is None and Path(given.dev).parent == tmp_path / "rows"


def test_nothing_is_written_for_a_config_with_a_mistake(tmp_path):
    with pytest.raises(UserError, match=r"training\.lr"):
        read_source(FILE, [f"output_dir={tmp_path / 'a'}", "training.lr=fast"], GIVEN)
    assert not list(tmp_path.iterdir())


def test_an_error_in_what_rows_set_names_them(tmp_path):
    together = ["tasks.sst.data.same_rows_as=qqp", f"output_dir={tmp_path / 'a'}"]
    with pytest.raises(UserError, match=r"^rows: sst\.train: tasks\.sst\.data"):
        read_source(FILE, together, GIVEN)


TOPICS = [{"text": f"{n} is {w}", "label": w} for n in range(50) for w in ("good", "bad")]


def test_rows_alone_are_classification_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_source(None, [], {"topic": TOPICS})
    assert (config.output_dir, config.encoder.name) == ("runs/topic", "packaged-minilm")
    task, data = config.tasks["topic"], config.tasks["topic"].data
    columns = (data.text, data.label)
    assert (task.head.name, *columns, data.dev_share) == ("classification", "text", "label", 0.1)
    assert Path(data.train).parent == tmp_path / "runs" / "rows"
    several = read_source(None, [], {"topic": TOPICS, "mood": TOPICS})
    assert several.output_dir == "runs/topic-mood"
    with pytest.raises(UserError, match="no config and no rows"):
        read_source(None)


def test_messages_about_rows_name_their_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_source(None, ["tasks.topic.data.label=mood"], {"topic": TOPICS})
    with pytest.raises(UserError, match=r"^rows of task topic: no column 'mood'"):
        label_readers(config)
    config = read_source(None, ["tasks.topic.data.labels=[good, fine]"], {"topic": TOPICS})
    with pytest.raises(UserError, match=r"^rows of task topic, row \d+ \(id \d+\): label is 'bad'"):
        load_rows(config, "topic", "train", label_readers(config)["topic"])


ROWS = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
COLUMNS = {"text": ["a", "b"], "label": [0, 1]}
TABLES = {
    "dicts": ROWS,
    "columns": COLUMNS,
    "arrow": pyarrow.table(COLUMNS),
    "pandas": pandas.DataFrame(COLUMNS),
    "chunks": pyarrow.concat_tables([pyarrow.Table.from_pylist([row]) for row in ROWS]),
}


def bytes_of(table: object) -> bytes:
    return parquet_bytes(arrow_table(table, "rows: t.train"))


def read(content: bytes, directory: Path) -> dict[str, list]:
    (directory / "rows.parquet").write_bytes(content)
    return read_parquet(directory / "rows.parquet")


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_the_same_rows_are_one_file(kind, tmp_path):
    content = bytes_of(TABLES[kind])
    assert read(content, tmp_path) == COLUMNS
    if kind != "pandas":  # its texts have another type of Arrow
        assert content == bytes_of(ROWS)


def test_a_dataset_keeps_its_class_names_and_its_order(tmp_path):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    made = datasets.Dataset.from_dict(COLUMNS, features=features).select([1, 0])
    content = bytes_of(made)
    assert content == bytes_of(made.select([0, 1]))
    assert read(content, tmp_path) == {"text": ["b", "a"], "label": [1, 0]}
    assert parquet_features(tmp_path / "rows.parquet") == features


def test_a_key_that_a_row_lacks_is_missing(tmp_path):
    content = bytes_of([{"text": "a"}, {"text": "b", "label": 1}])
    assert read(content, tmp_path) == {"text": ["a", "b"], "label": [None, 1]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([{"label": 1}, {"label": "one"}], "rows: t.dev: column 'label': Could not convert 'one'"),
        ({"label": ["one", 1]}, "rows: t.dev: column 'label': .* values of one type per column"),
        (pandas.DataFrame({"label": [1, "one"]}), "rows: t.dev: .* column label .* of one type"),
        ({"a": [1], "b": [1, 2]}, "rows: t.dev: .* expected length 1 but got length 2"),
        ({1: ["a"]}, "rows: t.dev: column 1: "),
        ([{"a": 1}, "b"], "rows: t.dev: expected a list of dicts, but row 1 is str"),
        ([], "rows: t.dev: no rows"),
        (pyarrow.table({"a": pyarrow.array([], "string")}), "rows: t.dev: no rows"),
        ("dev.csv", "rows: t.dev: .*: "),
        (None, "rows: t.dev: .*: "),
    ],
)
def test_what_is_no_table(table, message):
    with pytest.raises(UserError, match=message) as caught:
        arrow_table(table, "rows: t.dev")
    assert "\n" not in str(caught.value)


def tree(**data: object):
    return load_tree({"tasks": {"sst": {"data": data}}})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"sts": {"train": ROWS}}, "rows: no task 'sts' .did you mean 'sst'"),
        ({"sst": {"validation": ROWS}}, "rows: sst: .*train, dev, test, not 'validation'"),
        ({"sst": "rows.csv"}, "rows: sst.train: .*: "),
        (ROWS, "rows: expected {task: table} .*, not list"),
    ],
)
def test_tasks_and_splits_that_there_are_not(rows, message):
    with pytest.raises(UserError, match=message):
        row_files(rows, tree())


def test_tasks_that_are_no_mapping_are_no_task():
    with pytest.raises(UserError, match="rows: no task 'sst'"):
        row_files({"sst": ROWS}, load_tree({"tasks": ["sst"]}))


@pytest.mark.parametrize(
    ("data", "share"),
    [({}, True), ({"dev": "dev.csv"}, False), ({"dev_share": 0.2}, False), ({"dev": None}, True)],
)
def test_a_tenth_of_train_is_dev_if_nothing_else_is(data, share):
    for train in (ROWS, {"train": ROWS}):  # a table is the train rows
        (file,) = row_files({"sst": train}, tree(**data))
        assert (file.task, file.split) == ("sst", "train")
    assert file.more.get("dev_share") == (0.1 if share else None)
    both = row_files({"sst": {"train": ROWS, "dev": ROWS}}, tree())
    assert all("dev_share" not in file.more for file in both)


def test_the_column_text_is_taken_if_the_config_names_none():
    sentences = [{"sentence": "a", "text": "b", "label": 0}]
    for rows, data, text in (
        (ROWS, {}, "text"),
        (ROWS, {"text": "label"}, None),
        (sentences, {}, None),
    ):
        (file,) = row_files({"sst": rows}, tree(**data))
        assert file.more.get("text") == text


def test_rows_are_read_next_to_splits_of_any_format(tmp_path):
    (tmp_path / "dev.txt").write_text("O O\n\nB-X B-X\n")
    data = {"format": "conll", "dev": "dev.txt", "text": "text", "label": "label"}
    tree = {"data_dir": str(tmp_path), "tasks": {"t": {"head": "token_classification"}}}
    tree["output_dir"] = str(tmp_path / "run")
    tree["tasks"]["t"] |= {"data": data, "pooling": "tokens"}
    words = [{"text": ["a", "b"], "label": ["O", "B-X"]}]
    config = read_source(tree, rows={"t": words})
    reader = label_readers(config)["t"]
    assert load_rows(config, "t", "train", reader).source == "rows of task t"
    assert load_rows(config, "t", "dev", reader).words == [("O",), ("B-X",)]


@pytest.mark.parametrize("split", SPLITS)
def test_a_file_is_written_once_and_mended(split, tmp_path):
    (file,) = row_files({"sst": {split: ROWS}}, tree())
    file.write(tmp_path / "rows")
    (saved,) = (tmp_path / "rows").iterdir()
    assert saved.name == file.name and saved.read_bytes() == file.content
    before = saved.stat().st_mtime_ns
    file.write(tmp_path / "rows")
    assert saved.stat().st_mtime_ns == before
    saved.write_bytes(file.content[:-1])
    file.write(tmp_path / "rows")
    assert saved.read_bytes() == file.content
