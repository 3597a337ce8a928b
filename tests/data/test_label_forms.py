"""Vectors of 0 and 1 are refused, or read as the config says, in every format and split."""

import csv
import io
import json

import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.data.load_rows import label_reader, label_readers, load_rows, load_together
from tests.support.data_files import make, refusal

SETS = task_type("labels")
VECTORS = [[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1]]
NAMED = {"label_vectors": True, "labels": ["joy", "fear", "rage"]}


def write(directory, cells, name="train.jsonl"):
    """Write rows with these labels, in the format of the file's ending."""
    rows = [{"sentence": f"text {i}", "label": cell} for i, cell in enumerate(cells)]
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), directory / name)
    elif name.endswith("jsonl"):
        (directory / name).write_text("\n".join(map(json.dumps, rows)))
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, ["sentence", "label"])
        writer.writeheader()
        writer.writerows(rows)
        (directory / name).write_text(text.getvalue())
    return {"train": name, "dev": name, "id": None}


def read(directory, data, split="train"):
    config = make(directory, data, "multi_label")
    reader = label_reader(config, "t", SETS)
    return load_rows(config, "t", split, reader), reader


FORMS = [
    ("train.jsonl", list),
    ("train.jsonl", lambda cell: list(map(float, cell))),
    ("train.jsonl", lambda cell: list(map(bool, cell))),
    ("train.parquet", list),
    ("train.parquet", lambda cell: list(map(float, cell))),
    ("train.parquet", lambda cell: list(map(bool, cell))),
    ("train.csv", str),
    ("train.csv", lambda cell: ",".join(map(str, cell))),
    ("train.csv", lambda cell: " ".join(map(str, cell))),
    ("train.csv", lambda cell: f"[{' '.join(f'{bit}.' for bit in cell)}]"),
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_vectors_are_refused_with_the_remedy_or_read(name, form, tmp_path):
    data = write(tmp_path, map(form, VECTORS), name)
    for labels in ({}, {"labels": {0: "a", 1: "b", 2: "c"}}):
        result = refusal(read, tmp_path, data | labels)
        assert "tasks.t.data.label_vectors: " in result and f"{name}: 'label' has vectors" in result
        assert "set `label_vectors: true`, and name the classes" in result
    rows, reader = read(tmp_path, data | NAMED)
    assert (rows.gold.tolist(), reader.names) == (VECTORS, ("joy", "fear", "rage"))
    rows, reader = read(tmp_path, data | {"label_vectors": True})
    assert (rows.gold.tolist(), reader.names) == (VECTORS, ("0", "1", "2"))


def test_lists_of_the_classes_0_and_1_on_demand(tmp_path):
    rows, reader = read(tmp_path, write(tmp_path, VECTORS) | {"label_vectors": False})
    assert (rows.gold.tolist(), reader.names) == ([[1, 1], [1, 1], [1, 0], [1, 1]], ("0", "1"))


def test_lists_of_classes_of_other_lengths_are_read_as_before(tmp_path):
    rows, reader = read(tmp_path, write(tmp_path, [[0, 1], [1], [], [0]]))
    assert (rows.gold.tolist(), reader.names) == ([[1, 1], [0, 1], [0, 0], [1, 0]], ("0", "1"))
    write(tmp_path, [[0, 1], [0, 1]], "dev.jsonl")  # a small dev set may be all of one length
    config = make(tmp_path, {"train": "train.jsonl", "dev": "dev.jsonl", "id": None}, "multi_label")
    assert load_rows(config, "t", "dev", reader).gold.tolist() == [[1, 1], [1, 1]]


def test_lists_of_named_classes_may_have_one_length(tmp_path):
    data = write(tmp_path, [[0], [1], [1]])
    assert "'label' has lists of one number, 0 or 1, such as [0]" in refusal(read, tmp_path, data)
    rows, _ = read(tmp_path, data | {"labels": {0: "no", 1: "yes"}})
    assert rows.gold.tolist() == [[1, 0], [0, 1], [0, 1]]
    names = Features({"sentence": Value("string"), "label": Sequence(ClassLabel(names=["a", "b"]))})
    columns = {"sentence": ["x", "y"], "label": [[0], [1]]}
    Dataset.from_dict(columns, names).to_parquet(tmp_path / "x.parquet")
    rows, reader = read(tmp_path, {"train": "x.parquet", "dev": "x.parquet", "id": None})
    assert (rows.gold.tolist(), reader.names) == ([[1, 0], [0, 1]], ("a", "b"))


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("labels", [{}, {"labels": {0: "a", 1: "b", 2: "c"}}])
def test_vectors_of_another_split_are_refused(split, labels, tmp_path):
    data = write(tmp_path, [[0, 1], [2], [0]]) | labels
    write(tmp_path, VECTORS, "other.jsonl")
    result = refusal(read, tmp_path, data | {split: "other.jsonl"}, split)
    assert "other.jsonl: 'label' has vectors of 0 and 1, such as [0, 1, 0]: set `label_v" in result


def test_vectors_of_a_task_that_uses_the_rows_of_another_are_refused(tmp_path):
    data = write(tmp_path, VECTORS)
    config = make(tmp_path, data | {"labels": {0: "a", 1: "b"}}, "multi_label")
    reader = label_reader(config, "t", SETS)
    assert "label_vectors" in refusal(load_together, config, ["t"], "train", {"t": reader})


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ([0, 1], "[0, 1]"),
        ([0, 1, 0, 1], "[0, 1, 0, 1]"),
        ([0, 1, 2], "[0, 1, 2]"),
        ([0, 0.5, 1], "[0, 0.5, 1]"),
        ([0, float("nan"), 1], "[0, None, 1]"),
        (["joy"], "['joy']"),
        ([], "[]"),
        (1, "1"),
        ("joy", "joy"),
    ],
)
def test_a_wrong_vector_names_file_and_row(split, cell, shown, tmp_path):
    data = write(tmp_path, VECTORS)
    write(tmp_path, [*VECTORS, cell], "other.jsonl")
    result = refusal(read, tmp_path, data | NAMED | {split: "other.jsonl"}, split)
    assert result.replace("'", "").startswith(
        f"{tmp_path}/other.jsonl, line 5, row 5 (id 4): label is {shown}: expected 3 numbers, 0 "
        "or 1: one per class".replace("'", "")
    )


@pytest.mark.parametrize("missing", [None, "", float("nan")])
def test_a_row_without_a_vector_is_dropped_and_counted(missing, tmp_path):
    rows, _ = read(tmp_path, write(tmp_path, [missing, *VECTORS]) | NAMED)
    assert (rows.gold.tolist(), rows.unlabelled_dropped) == (VECTORS, 1)
    # the row that is odd is named, not the other ones
    write(tmp_path, [[0, 1], *VECTORS])
    result = refusal(read, tmp_path, write(tmp_path, [[0, 1], *VECTORS]) | {"label_vectors": True})
    assert "row 1 (id 0): label is ['0', '1']: expected 3 numbers" in result


@pytest.mark.parametrize(
    ("cells", "data", "message"),
    [
        ([["joy"], ["fear"]], {}, "'label' has no vectors of 0 and 1, and a task has at least two"),
        ([[0], [1]], {}, "'label' has vectors of one number, and a task has at least two classes"),
        (VECTORS, {"padding_label": 0}, "padding_label: `label_vectors` need no padding"),
        ([[0] * 1001] * 2, {}, "'label' has 1,001 different labels, and a task has at most 1,000"),
    ],
)
def test_what_is_no_vector_of_classes(cells, data, message, tmp_path):
    given = write(tmp_path, cells) | {"label_vectors": True} | data
    assert message in refusal(read, tmp_path, given)


@pytest.mark.parametrize("head", ["class", "binary", "tags"])
@pytest.mark.parametrize("value", [True, False])
def test_heads_of_other_labels_take_no_vectors(head, value, tmp_path):
    config = make(tmp_path, {"label_vectors": value})
    result = refusal(label_reader, config, "t", task_type(head))
    assert "label_vectors: the head does not take any number of classes per row" in result


def test_lists_that_are_filled_up_are_read_as_before(tmp_path):
    """ETPC: a list of types, with zeros after them."""
    cells = [[2, 6, 7, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    rows, reader = read(tmp_path, write(tmp_path, cells) | {"padding_label": 0})
    assert (reader.names, rows.gold.sum()) == (("1", "2", "6", "7"), 4)
    data = write(tmp_path, [[1, 0], [2, 0]]) | {"padding_label": 0}
    write(tmp_path, [[1, 0], [0, 0], [1, 1]], "dev.jsonl")
    rows, _ = read(tmp_path, data | {"dev": "dev.jsonl"}, "dev")
    assert rows.gold.tolist() == [[1, 0], [0, 0], [1, 0]]


def test_a_task_that_shares_the_rows_has_its_own_labels(tmp_path):
    rows = [{"sentence": "a", "label": one, "mood": str(i % 2)} for i, one in enumerate(VECTORS)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = {"train": "train.jsonl", "dev": "train.jsonl", "id": None}
    one = {"data": data | NAMED, "head": "multi_label", "pooling": "mean"}
    other = {"data": {"same_rows_as": "one", "label": "mood"}, "head": "binary", "pooling": "mean"}
    file = tmp_path / "two.yaml"
    file.write_text(dump_yaml({"data_dir": str(tmp_path), "tasks": {"one": one, "other": other}}))
    config = load_config(file)
    rows_by_task = load_together(config, ["one", "other"], "train", label_readers(config))
    assert rows_by_task["one"].gold.tolist() == VECTORS
    assert rows_by_task["other"].gold.tolist() == [0, 1, 0, 1]
