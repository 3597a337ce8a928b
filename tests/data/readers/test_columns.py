"""Columns by name: rows that `where` or `dev_share` leave, and data that is not there."""

import os

import pytest

from multitask.data.load_rows import load_rows
from tests.support.data_files import BINARY, make, refusal


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
    result = refusal(load_rows, make(tmp_path, data), "t", split, BINARY)
    assert message in result


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": "none.csv"}, "data.train: no such file: {dir}/none.csv (is `data_dir` right?)"),
        ({"train": None}, "data.train: the task has no train data: name it as `train:`"),
        ({"train": "."}, "data.train: not a file: {dir}"),
        ({"train": "pipe"}, "data.train: not a file: {dir}/pipe"),
        ({"train": "*"}, "data.train: not a file: {dir}/pipe"),
        ({"format": "disk", "path": "nowhere"}, "data.path: cannot load the data set 'nowhere'"),
        ({"format": "hub", "path": "no/where"}, "data.path: cannot load the data set 'no/where'"),
    ],
)
def test_missing_data_names_the_key(data, message, tmp_path):
    config = make(tmp_path, data)
    os.mkfifo(tmp_path / "pipe")
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.startswith(f"{tmp_path / 'config.yaml'}:")
    assert message.format(dir=tmp_path) in result


def test_a_missing_test_file_may_be_left_out(tmp_path):
    result = refusal(load_rows, make(tmp_path, {"test": "none.csv"}), "t", "test", BINARY)
    assert result.endswith("none.csv (is `data_dir` right?; null where there is none)")


def test_saved_data_set_without_the_split(tmp_path):
    import datasets

    split = datasets.Dataset.from_list([{"id": "1", "sentence": "a", "label": "1"}])
    datasets.DatasetDict({"training": split}).save_to_disk(tmp_path / "saved")
    split.save_to_disk(tmp_path / "single")
    data = {"format": "disk", "path": "saved", "train": "train"}
    assert "its splits are training" in refusal(
        load_rows, make(tmp_path, data), "t", "train", BINARY
    )
    # one Dataset would serve as train and as dev
    data["path"] = "single"
    assert "it has no splits" in refusal(load_rows, make(tmp_path, data), "t", "train", BINARY)


def test_a_file_next_to_the_yaml_is_answered_with_data_dir(tmp_path, monkeypatch):
    config = make(tmp_path, {"train": "own.csv"}).model_copy(update={"data_dir": "embedded"})
    assert "(is `data_dir` right?)" in refusal(load_rows, config, "t", "train", BINARY)
    (tmp_path / "own.csv").write_text("id,sentence,label\n1,a,1\n")
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.endswith(f"(it is next to the YAML file: set data_dir={tmp_path})")
    monkeypatch.chdir(tmp_path)
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.endswith("(it is in this directory: set data_dir=.)")


def test_missing_dev_rows_may_be_a_share_of_train(tmp_path):
    result = refusal(load_rows, make(tmp_path, {"dev": None}), "t", "dev", BINARY)
    assert "dev_share" in result
    result = refusal(load_rows, make(tmp_path, {"dev": "none.csv"}), "t", "dev", BINARY)
    assert result.endswith("(is `data_dir` right?); or take a share of train: `dev_share: 0.1`")
