"""Class names in files: every file, every split and the config give a number the same name."""

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.data.load_rows import label_reader, label_readers, load_rows
from multitask.data.splits import load_splits
from multitask.data.tags import tagged_rows
from tests.support.data_files import make, refusal

ONE, OTHER = ["bad", "good"], ["good", "bad"]
FILES = {"train": "train-*.parquet", "dev": "dev.parquet", "id": None}
HUB = {"format": "hub", "path": "set", "train": "train", "dev": "validation", "id": None}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


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


@pytest.mark.parametrize("labels", [{}, {"labels": {0: "no", 1: "yes"}}])
@pytest.mark.parametrize("train", ["train", "train[:50%]", "validation+train[2:]"])
def test_shards_of_the_hub_are_compared(train, labels, tmp_path):
    write(tmp_path / "set", train_00000=ONE, train_00001=ONE, validation=ONE)
    data = HUB | {"train": train} | labels
    assert classes(tmp_path, data) == tuple(labels.get("labels", {0: "bad", 1: "good"}).values())
    write(tmp_path / "set", train_00001=OTHER)
    result = refusal(classes, tmp_path, data)
    assert "train-00001.parquet are good, bad, of " in result and " bad, good: number 0" in result


def test_the_card_of_a_data_set_is_compared_with_its_files(tmp_path):
    write(tmp_path / "set", train=ONE, validation=ONE)
    (tmp_path / "set" / "README.md").write_text(
        "---\ndataset_info:\n  features:\n  - {name: sentence, dtype: string}\n"
        "  - {name: label, dtype: {class_label: {names: {'0': good, '1': bad}}}}\n---\n"
    )
    result = refusal(classes, tmp_path, HUB)
    assert "train.parquet are bad, good, of the card of " in result


def test_the_files_of_a_saved_data_set_are_compared(tmp_path):
    parts = DatasetDict({"train": data_set(ONE), "validation": data_set(ONE)})
    parts.save_to_disk(tmp_path / "set", num_shards={"train": 2, "validation": 1})
    data = HUB | {"format": "disk"}
    assert classes(tmp_path, data) == tuple(ONE)
    DatasetDict({"train": data_set(OTHER)}).save_to_disk(
        tmp_path / "other", num_shards={"train": 2}
    )
    name = "data-00001-of-00002.arrow"
    (tmp_path / "other" / "train" / name).replace(tmp_path / "set" / "train" / name)
    assert f"{name} are good, bad, of train bad, good" in refusal(classes, tmp_path, data)


@pytest.mark.parametrize(
    "labels",
    [
        {0: "good", 1: "bad"},
        {0: "Good", 1: "Bad"},
        {1: "bad", 0: "good"},
        {0: "fine", 1: "bad"},
        {0: "bad", 1: "bad", 2: "good"},
    ],
)
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_labels_that_name_a_number_as_the_file_names_another(labels, split, tmp_path):
    write(tmp_path, train=ONE)
    data = {"train": "train.parquet", "dev": "train.parquet", "test": "train.parquet"}
    config = make(tmp_path, data | {"id": None, "labels": labels}, "classification")
    reader = label_reader(config, "t", task_type("class"))
    for act in (lambda: load_rows(config, "t", split, reader), lambda: names_of(config)):
        result = refusal(act)
        ours = ", ".join(dict.fromkeys(labels.values()))
        assert f"train.parquet are bad, good, of `labels` {ours}: number " in result


@pytest.mark.parametrize(
    "labels",
    [
        {0: "bad", 1: "good"},
        {0: "BAD", 1: "Good"},
        {0: "negative", 1: "positive"},
        {0: "not good", 1: "good"},
        {1: "good", 0: "bad"},
        ["0", "1"],
        ["1", "0"],
    ],
)
def test_labels_may_rename_the_classes_of_a_file(labels, tmp_path):
    write(tmp_path, train=ONE)
    data = {"train": "train.parquet", "dev": "train.parquet", "id": None, "labels": labels}
    assert set(classes(tmp_path, data)) == {
        *(labels if isinstance(labels, list) else labels.values())
    }


def test_labels_may_merge_the_classes_of_a_file(tmp_path):
    names = ["very bad", "bad", "fair", "good", "very good"]
    write(tmp_path, train=names)
    labels = {0: "bad", 1: "bad", 2: "fair", 3: "good", 4: "good"}
    data = {"train": "train.parquet", "dev": "train.parquet", "id": None, "labels": labels}
    assert classes(tmp_path, data) == ("bad", "fair", "good")


def test_numbers_as_names_are_only_listed_by_the_config(tmp_path):
    """Stars from 1, whose numbers begin at 0."""
    write(tmp_path, train=["1", "2", "3"])
    data = {"train": "train.parquet", "dev": "train.parquet", "id": None}
    assert classes(tmp_path, data | {"labels": [0, 1, 2]}) == ("0", "1", "2")


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
    read = {"tags": tagged_rows, "labels": load_rows}[kind]
    assert "of `labels` O, I-PER, B-PER" in refusal(read, config, "t", "train", reader)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.permutations(["a", "b", "c"]), min_size=2, max_size=4))
def test_shards_in_any_order_of_names(tmp_path_factory, orders):
    directory = tmp_path_factory.mktemp("shards")
    write(directory, dev=None, **{f"train_{i}": names for i, names in enumerate(orders)})
    if all(names == orders[0] for names in orders):
        assert classes(directory, FILES) == tuple(orders[0])
    else:
        assert f"of {directory}/train-0.parquet {', '.join(orders[0])}: " in refusal(
            classes, directory, FILES
        )
