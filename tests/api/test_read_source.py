"""The config of a Python program: a file, a dict or a ``Config``, with overrides and rows."""

from pathlib import Path

import pytest

from multitask.api.read_source import read_source
from multitask.config import load_config
from multitask.data.classes import label_readers
from multitask.data.load_rows import load_rows
from multitask.utils.errors import UserError
from tests.conftest import ROOT

FILE = ROOT / "configs" / "cs224n.yaml"
ROWS = {"sst": {"train": [{"id": "1", "sentence": "a", "sentiment": 0}]}}


def test_a_file_a_dict_and_a_config_are_one(tmp_path):
    changes = ["training.epochs=1", f"output_dir={tmp_path}"]
    expected = load_config(FILE, changes)
    config = load_config(FILE)
    sources = [FILE, str(FILE), {"extends": FILE}, config, config.resolved()]
    for source in sources:
        assert read_source(source, changes).dump() == expected.dump()
    assert read_source(config) is config


def test_rows_are_files_next_to_the_run(tmp_path):
    config = read_source(FILE, [f"output_dir={tmp_path / 'runs' / 'a'}"], ROWS)
    (saved,) = (tmp_path / "runs" / "rows").iterdir()
    data = config.tasks["sst"].data
    assert data.train == str(saved)
    assert data.dev == "ids-sst-dev.csv"
    assert config.tasks["qqp"] == load_config(FILE).tasks["qqp"]


def test_rows_of_dev_replace_a_share_of_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = {"extends": FILE, "output_dir": "a", "tasks": {"sst": {"data": {"dev": None}}}}
    shared = read_source(source, ["tasks.sst.data.dev_share=0.1"], ROWS).tasks["sst"].data
    assert (shared.dev_share, shared.dev) == (0.1, None)
    rows = {"sst": {"dev": ROWS["sst"]["train"]}}
    given = read_source(source, ["tasks.sst.data.dev_share=0.1"], rows).tasks["sst"].data
    assert given.dev_share is None and Path(given.dev).parent == tmp_path / "rows"


def test_nothing_is_written_for_a_config_with_a_mistake(tmp_path):
    with pytest.raises(UserError, match=r"training\.lr"):
        read_source(FILE, [f"output_dir={tmp_path / 'a'}", "training.lr=fast"], ROWS)
    assert not list(tmp_path.iterdir())


def test_an_error_in_what_rows_set_names_them(tmp_path):
    together = ["tasks.sst.data.same_rows_as=qqp", f"output_dir={tmp_path / 'a'}"]
    with pytest.raises(UserError, match=r"^rows: sst\.train: tasks\.sst\.data"):
        read_source(FILE, together, ROWS)


TOPICS = [{"text": f"{n} is {w}", "label": w} for n in range(50) for w in ("good", "bad")]


def test_rows_alone_are_classification_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_source(None, [], {"topic": TOPICS})
    assert (config.output_dir, config.encoder.name) == ("runs/topic", "packaged-minilm")
    task = config.tasks["topic"]
    data = task.data
    assert (task.head.name, data.text, data.label, data.dev_share) == (
        "classification",
        "text",
        "label",
        0.1,
    )
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


@pytest.mark.parametrize("overrides", ["training.epochs=1", [1], {"training.epochs": 1}])
def test_overrides_are_a_list(overrides):
    with pytest.raises(UserError, match="overrides: expected a list such as"):
        read_source(FILE, overrides)
