"""Which classes a task has: of the config, of the files' features, of the column, of vectors."""

import csv
import io
import json

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.data.classes import label_reader, label_readers
from multitask.data.load_rows import load_rows, load_together
from multitask.data.splits import load_splits
from multitask.tasks.label_reader import label_text
from multitask.utils import limits
from tests.support.data_files import make, refusal

ONE, OTHER = ["bad", "good"], ["good", "bad"]
FILES = {"train": "train-*.parquet", "dev": "dev.parquet", "id": None}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


# --- of the column, or of the config ---


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
    assert all(reader.names[reader.ids[value]] == value for value in values)


@pytest.mark.parametrize(
    ("label_type", "data", "key"),
    [
        ("binary", {"labels": ["a", "b", "c"]}, "data.labels: the head takes 2 classes, not 3"),
        ("number", {}, "data.label_range: "),
        ("class", {"label_range": [0, 1]}, "data.label_range: the head predicts classes"),
        ("number", {"labels": ["a", "b"]}, "data.labels: the head predicts a number"),
        ("binary", {"ordered": True}, "data.ordered: "),
        ("class", {"padding_label": 0}, "data.padding_label: "),
        ("binary", {"label_vectors": True}, "data.label_vectors: "),
        ("tags", {"label_vectors": True}, "data.label_vectors: "),
        ("class", {}, "train.csv: column 'label' needs at least two labels and has: 1"),
        ("class", {"label": "gold"}, "train.csv: no column 'gold'"),
    ],
)
def test_keys_that_do_not_fit_the_head(label_type, data, key, tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,1\n2,b,1\n")
    assert key in refusal(label_reader, make(tmp_path, data), "t", task_type(label_type))


@pytest.mark.parametrize("name", ["class", "labels"])
def test_a_column_of_texts_is_no_column_of_classes(name, tmp_path):
    """100,000 of them once took minutes and more memory than there is."""
    lines = [f"{i},text,what the text {i} says" for i in range(limits.CLASSES + 1)]
    file, config = tmp_path / "train.csv", make(tmp_path, {})
    file.write_text("\n".join(["id,sentence,label", *lines[:-1]]) + "\n")
    assert len(label_reader(config, "t", task_type(name)).names) == limits.CLASSES
    file.write_text("\n".join(["id,sentence,label", *lines]) + "\n")
    error = refusal(label_reader, config, "t", task_type(name))
    assert "tasks.t.data.label: 'label' has 1,001 different labels" in error


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "null"])
@pytest.mark.parametrize("unlabelled", [[""], [], [-1]])
def test_a_missing_label_is_no_class(value, unlabelled, tmp_path):
    labels = ('"a"', '"NaN"', value, '"b"')
    lines = [f'{{"sentence": "t", "label": {label}}}' for label in labels]
    (tmp_path / "x.json").write_text(f"[{', '.join(lines)}]")
    config = make(tmp_path, {"train": "x.json", "id": None, "unlabelled": unlabelled})
    reader = label_reader(config, "t", task_type("class"))
    rows = load_rows(config, "t", "train", reader)
    assert [reader.names[number] for number in rows.gold] == ["a", "NaN", "b"]
    assert rows.unlabelled_dropped == 1


@pytest.mark.parametrize("unlabelled", [[""], []])
@pytest.mark.parametrize("head", ["labels", "tags"])
def test_a_missing_item_of_a_list_is_no_class(head, unlabelled, tmp_path):
    texts = {"labels": '"v w"', "tags": '["v", "w"]'}[head]
    rows = [f'{{"sentence": {texts}, "label": {one}}}' for one in ('["O", "B-X"]', '[NaN, "O"]')]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    config = make(tmp_path, {"train": "x.jsonl", "id": None, "unlabelled": unlabelled})
    reader = label_reader(config, "t", task_type(head))
    assert sorted(reader.names) == ["B-X", "O"]
    assert "row 2 (id 1): label " in refusal(load_rows, config, "t", "train", reader)


# --- of the features of files ---


def data_set(names, label=(1, 0, 1)):
    """A data set with a column of classes, or of their numbers if it has no names."""
    kind = ClassLabel(names=names) if names else Value("int64")
    columns = {"sentence": [f"text {i}" for i in range(len(label))], "label": list(label)}
    return Dataset.from_dict(columns, Features({"sentence": Value("string"), "label": kind}))


def write(directory, **named):
    directory.mkdir(exist_ok=True)
    for name, names in named.items():
        data_set(names).to_parquet(directory / f"{name.replace('_', '-')}.parquet")


def names_of(config):
    readers = label_readers(config)
    load_splits(config, readers, lambda: None)
    return readers["t"].names


def classes(directory, data, head="classification"):
    return names_of(make(directory, data, head, pooling="mean"))


@pytest.mark.parametrize("labels", [{}, {"labels": {0: "no", 1: "yes"}}])
@pytest.mark.parametrize(
    "shards",
    [
        {"train_0": ONE, "train_1": OTHER, "dev": ONE},
        {"train_0": ONE, "train_1": ONE, "train_2": OTHER, "dev": ONE},
        {"train_0": ONE, "train_1": ONE, "dev": OTHER},
        {"train_0": ["bad", "good", "fair"], "train_1": ["bad", "fair", "good"], "dev": ONE},
        {"train_0": None, "train_1": ONE, "dev": OTHER},
        {"train_0": ONE, "train_1": ["bad", "fair"], "dev": ONE},
    ],
)
def test_files_that_name_a_number_differently_are_refused(shards, labels, tmp_path):
    write(tmp_path, **shards)
    result = refusal(classes, tmp_path, FILES | labels)
    named = [names for names in shards.values() if names]
    other = next(names for names in named if names[: len(named[0])] != named[0][: len(names)])
    assert f".parquet are {', '.join(other)}, of " in result
    assert f".parquet {', '.join(named[0])}: number " in result
    assert f"tasks.t.data.{'labels' if labels else 'label'}: " in result


def test_a_file_may_lack_names_or_the_last_classes(tmp_path):
    longer = [*ONE, "fair"]
    write(tmp_path, train_0=ONE, train_1=longer, train_2=None, dev=ONE)
    assert classes(tmp_path, FILES) == tuple(longer)
    write(tmp_path, train_0=None, train_1=None, train_2=None, dev=ONE)
    assert classes(tmp_path, FILES) == tuple(ONE)


def test_splits_of_a_data_set_are_compared(tmp_path):
    hub = {"format": "hub", "path": "set", "train": "train", "dev": "validation", "id": None}
    write(tmp_path / "set", train=ONE, validation=ONE)
    assert classes(tmp_path, hub) == tuple(ONE)
    parts = datasets.DatasetDict({"train": data_set(ONE), "validation": data_set(OTHER)})
    parts.save_to_disk(tmp_path / "saved")
    result = refusal(classes, tmp_path, hub | {"format": "disk", "path": "saved"})
    assert "the classes of validation are good, bad, of train bad, good" in result


SAME = {"train": "train.parquet", "dev": "train.parquet", "test": "train.parquet", "id": None}


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({0: "good", 1: "bad"}, False),
        ({0: "Good", 1: "Bad"}, False),
        ({1: "bad", 0: "good"}, False),
        ({0: "fine", 1: "bad"}, False),
        ({0: "bad", 1: "bad", 2: "good"}, False),
        ({0: "bad", 1: "good"}, True),
        ({0: "BAD", 1: "Good"}, True),
        ({0: "negative", 1: "positive"}, True),
        ({0: "not good", 1: "good"}, True),
        ({1: "good", 0: "bad"}, True),
        (["1", "0"], True),
    ],
)
def test_labels_may_rename_the_classes_of_a_file_but_not_swap_them(labels, fits, tmp_path):
    write(tmp_path, train=ONE)
    config = make(tmp_path, SAME | {"labels": labels}, "classification")
    reader = label_reader(config, "t", task_type("class"))
    for split in ("train", "dev", "test"):
        if fits:
            assert load_rows(config, "t", split, reader).gold is not None
        else:
            result = refusal(load_rows, config, "t", split, reader)
            assert "train.parquet are bad, good, of `labels` " in result
            assert result.partition("tasks.")[2].startswith("t.data.labels: ")


def test_labels_may_merge_the_classes_of_a_file_and_list_their_numbers(tmp_path):
    write(tmp_path, train=["very bad", "bad", "fair", "good", "very good"])
    labels = {0: "bad", 1: "bad", 2: "fair", 3: "good", 4: "good"}
    assert classes(tmp_path, SAME | {"labels": labels}) == ("bad", "fair", "good")
    write(tmp_path, train=["1", "2", "3"])  # stars from 1, whose numbers begin at 0
    assert classes(tmp_path, SAME | {"labels": [0, 1, 2]}) == ("0", "1", "2")


def test_a_class_that_means_no_label_is_its_number(tmp_path):
    write(tmp_path, train=["negative", "none"])
    found = refusal(classes, tmp_path, SAME | {"unlabelled": ["none"]})
    assert "data.unlabelled: " in found and found.endswith("write 1 instead of 'none'")


def test_names_that_look_alike_are_told_apart(tmp_path):
    write(tmp_path, train_0=["a\u200b", "b"], train_1=["a", "b"], dev=None)
    result = refusal(classes, tmp_path, FILES)
    assert "number 0 is 'a' in one and 'a\\u200b' in the other" in result
    assert "it looks like 'a\\u200b', but has U+200B left out" in result


@pytest.mark.parametrize(("names", "fits"), [(ONE, True), (OTHER, False), (["no", "yes"], True)])
def test_a_task_with_the_head_of_another_has_its_names(names, fits, tmp_path):
    write(tmp_path, train=ONE, other=names)
    entry = {"data": {"train": "train.parquet", "dev": "train.parquet", "id": None}}
    entry |= {"pooling": "mean", "head": "classification"}
    other = {"data": {"dev": "other.parquet", "id": None}, "share_head": "t", "evaluate_only": True}
    file = tmp_path / "two.yaml"
    file.write_text(dump_yaml({"data_dir": str(tmp_path), "tasks": {"t": entry, "u": other}}))
    if fits:
        assert names_of(load_config(file)) == tuple(ONE)
    else:
        result = refusal(names_of, load_config(file))
        assert "other.parquet are good, bad, of `labels` bad, good" in result


@pytest.mark.parametrize("kind", ["tags", "labels"])
def test_lists_of_classes_are_compared(kind, tmp_path):
    names = ["O", "B-PER", "I-PER"]
    for name, given_names in (("train-0", names), ("train-1", [names[0], *names[:0:-1]])):
        label = datasets.Sequence(ClassLabel(names=given_names))
        words = kind == "tags"
        text = datasets.Sequence(Value("string")) if words else Value("string")
        kinds = {"sentence": text, "label": label}
        texts = [["a", "b"], ["c"]] if words else ["a b", "c"]
        columns = {"sentence": texts, "label": [[0, 1], [2]]}
        Dataset.from_dict(columns, Features(kinds)).to_parquet(tmp_path / f"{name}.parquet")
    data = FILES | {"dev": "train-0.parquet"}
    result = refusal(label_reader, make(tmp_path, data), "t", task_type(kind))
    assert "number 1 is 'I-PER' in one and 'B-PER' in the other" in result
    labels = {"labels": {0: "O", 1: "I-PER", 2: "B-PER"}, "train": "train-0.parquet"}
    config = make(tmp_path, data | labels)
    reader = label_reader(config, "t", task_type(kind))
    assert "of `labels` O, I-PER, B-PER" in refusal(load_rows, config, "t", "train", reader)


# --- of label vectors ---

SETS = task_type("labels")
VECTORS = [[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1]]
NAMED = {"label_vectors": True, "labels": ["joy", "fear", "rage"]}


def write_cells(directory, cells, name="train.jsonl"):
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
    ("train.parquet", lambda cell: list(map(float, cell))),
    ("train.parquet", lambda cell: list(map(bool, cell))),
    ("train.csv", str),
    ("train.csv", lambda cell: ",".join(map(str, cell))),
    ("train.csv", lambda cell: str(list(map(bool, cell)))),
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_the_key_decides_what_0_and_1_are(name, form, tmp_path):
    data = write_cells(tmp_path, map(form, VECTORS), name)
    rows, reader = read(tmp_path, data | NAMED)
    assert (rows.gold.tolist(), reader.names) == (VECTORS, ("joy", "fear", "rage"))
    rows, reader = read(tmp_path, data | {"label_vectors": True})
    assert (rows.gold.tolist(), reader.names) == (VECTORS, ("0", "1", "2"))


def test_0_and_1_alone_need_the_key(tmp_path):
    data = write_cells(tmp_path, VECTORS)
    assert "tasks.t.data.label_vectors: " in refusal(read, tmp_path, data)
    rows, reader = read(tmp_path, data | {"label_vectors": False})
    assert (rows.gold.tolist(), reader.names) == ([[1, 1], [1, 1], [1, 0], [1, 1]], ("0", "1"))
    rows, _ = read(tmp_path, data | {"labels": {0: "no", 1: "yes"}})
    assert rows.gold.tolist() == [[1, 1], [1, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("cell", [[0, 1], [0, 1, 2], [0, float("nan"), 1], ["joy"], [], 1, "joy"])
def test_a_wrong_vector_names_file_and_row(split, cell, tmp_path):
    data = write_cells(tmp_path, VECTORS)
    write_cells(tmp_path, [*VECTORS, cell], "other.jsonl")
    result = refusal(read, tmp_path, data | NAMED | {split: "other.jsonl"}, split)
    place = f"{tmp_path}/other.jsonl, line 5, row 5 (id 4): label is "
    assert result.startswith(place) and "expected 3 numbers, 0 or 1" in result


@pytest.mark.parametrize("missing", [None, "", float("nan")])
def test_a_row_without_a_vector_is_dropped_and_counted(missing, tmp_path):
    for names in (NAMED, {"label_vectors": True}):
        rows, _ = read(tmp_path, write_cells(tmp_path, [missing, *VECTORS]) | names)
        assert (rows.gold.tolist(), rows.unlabelled_dropped) == (VECTORS, 1)


@pytest.mark.parametrize(
    ("cells", "data", "message"),
    [
        ([[0], [1]], {}, "'label' needs at least two labels"),
        (VECTORS, {"padding_label": 0}, "data.padding_label: "),
        ([[0] * 1001] * 2, {}, "'label' has 1,001 different labels"),
    ],
)
def test_what_is_no_vector_of_classes(cells, data, message, tmp_path):
    given = write_cells(tmp_path, cells) | {"label_vectors": True} | data
    assert message in refusal(read, tmp_path, given)


def test_lists_that_are_filled_up(tmp_path):
    """ETPC: a list of types, with zeros after them."""
    cells = [[2, 6, 7, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    rows, reader = read(tmp_path, write_cells(tmp_path, cells) | {"padding_label": 0})
    assert (reader.names, rows.gold.sum()) == (("1", "2", "6", "7"), 4)


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
