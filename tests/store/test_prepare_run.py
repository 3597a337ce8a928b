"""A run's saved config: it is read back as it was, and compared with another one."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitask.config import Config, load_config
from multitask.store.prepare_run import config_differences, flat, save_config
from multitask.store.run_directory import RunDirectory
from tests.conftest import ROOT

SETTINGS = ["tasks.sst.data.labels=null"]
FREE = ["training.trackers=[mlflow]", "tasks.sst.data.ordered=false"]  # a resume may change them


def test_only_what_changes_a_run_counts(tmp_path):
    before, now = (
        load_config(ROOT / "configs" / "demo.yaml", [*SETTINGS, *changes])
        for changes in (["seed=3"], ["seed=4", "training.lr=1e-4", f"data_dir={tmp_path}", *FREE])
    )
    before = before.model_copy(update={"output_dir": str(tmp_path)})
    save_config(before, RunDirectory(tmp_path))
    assert config_differences(now, tmp_path) == "seed (3 -> 4), training.lr (5e-05 -> 0.0001)"
    assert config_differences(before, tmp_path) == ""


def test_labels_read_from_the_data_are_no_difference(tmp_path):
    """A run saves the labels of its data; the config of a grid's cell names none."""
    config = load_config(ROOT / "configs" / "demo.yaml", [*SETTINGS, f"output_dir={tmp_path}"])
    result, other = (
        config.with_labels({"sst": labels})
        for labels in ({"0": "bad", "1": "good"}, {"0": "good", "1": "bad"})
    )
    save_config(result, RunDirectory(tmp_path))
    assert config_differences(load_config(ROOT / "configs" / "demo.yaml", SETTINGS), tmp_path) == ""
    assert "tasks.sst.data.labels.0 (bad -> good)" in config_differences(other, tmp_path)


def test_nested_values_are_named_by_their_path():
    values = {"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]}
    assert flat(values) == {"a.b": 1, "a.c": {}, "d": [1, {"e": 2}]}


WORDS = st.lists(
    st.sampled_from([*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA1)), *"\u2028\u2029\ufeff"])
    | st.characters(codec="utf-8"),
    max_size=8,
).map("".join)
NAMES = WORDS.filter(lambda text: "\0" not in text)  # a path cannot hold it


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@settings(max_examples=50)
@given(word=WORDS, name=NAMES, labels=st.dictionaries(WORDS, WORDS, min_size=2))
def test_every_text_of_a_config_is_read_back(word, name, labels, saved):
    values = load_config(ROOT / "configs" / "demo.yaml").resolved()
    values |= {"output_dir": f"runs/{name}", "data_dir": str(Path(f"/data/{name}"))}
    values["encoder"] |= {"name": f"./{name}", "seen_corpora": {word: word}}
    values["tasks"]["sst"]["data"] |= {
        "labels": {**labels, "x": "x", "y": "y"},
        "where": {word: word},
        "train": f"./{name}",
        "text": word,
        "unlabelled": [word],
    }
    config = Config.model_validate(values)
    save_config(config.with_labels({}), RunDirectory(saved))
    assert load_config(RunDirectory(saved).config).resolved() == config.resolved()
