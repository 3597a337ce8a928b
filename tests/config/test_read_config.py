"""From a file to a config: files that are empty or missing, and paths with a home directory."""

import os
import shutil
from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.messages import refusal


def test_empty_and_missing_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.yaml").write_text("# nothing\n")
    assert refusal("empty.yaml") == "empty.yaml:1: the key 'tasks' is missing"
    assert refusal("none.yaml").startswith("none.yaml: cannot read the config file: ")


def test_a_tilde_is_the_home_directory_in_every_key_that_holds_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    names = {"data_dir": "~/data", "output_dir": "~/runs/x", "encoder.name": "~/bert"}
    files = {"train": "~/t.csv", "dev": "~/d.csv", "test": "~/e.csv"}
    below = {f"tasks.sst.data.{key}": name for key, name in files.items()}
    overrides = [f"{key}={name}" for key, name in {**names, **below}.items()]
    config = load_config(ROOT / "configs" / "cs224n.yaml", [*overrides, "init_from=~/runs/first"])
    assert (config.data_dir, config.output_dir) == (f"{tmp_path}/data", f"{tmp_path}/runs/x")
    assert (config.encoder.name, config.init_from.run) == (
        f"{tmp_path}/bert",
        f"{tmp_path}/runs/first",
    )
    assert config.data_path(config.tasks["sst"].data.train) == tmp_path / "t.csv"
    assert config.tasks["sst"].data.test == f"{tmp_path}/e.csv"
    with pytest.raises(UserError, match="output_dir: no home directory for '~nobody-here/x'"):
        load_config(ROOT / "configs" / "cs224n.yaml", ["output_dir=~nobody-here/x"])


@pytest.mark.parametrize("key", ["data_dir", "init_from", "output_dir"])
def test_a_path_that_is_not_utf_8_is_refused_before_a_run_is_saved_with_it(
    key, tmp_path, monkeypatch
):
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    monkeypatch.chdir(place)
    file = ROOT / "configs" / "cs224n.yaml"
    overrides = [f"data_dir={tmp_path}", f"{key}=here"]
    if key == "output_dir":  # its default is the name of the config file
        shutil.copy(file, os.fsdecode(b"caf\xe9.yaml"))
        file, overrides = Path(os.fsdecode(b"caf\xe9.yaml")), overrides[:1]
    message = refusal(file, *overrides)
    assert f" {key}" in message and r"\udce9" in message and "is not UTF-8" in message


def test_a_dict_is_a_config_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = {"extends": "cs224n.yaml", "output_dir": Path("runs/a"), "training": {"epochs": 1}}
    config = load_config(source, ["seed=3"])
    overrides = ["output_dir=runs/a", "training.epochs=1", "seed=3"]
    assert config.dump() == load_config(ROOT / "configs" / "cs224n.yaml", overrides).dump()
    assert source["extends"] == "cs224n.yaml"  # as it was


def test_a_dict_is_named_by_its_tasks():
    config = load_config({"extends": "cs224n.yaml"})
    assert config.output_dir == "runs/sst-qqp-sts"
    assert (
        load_config({"extends": "cs224n.yaml", "tasks": {"qqp": None}}).output_dir == "runs/sst-sts"
    )
    assert load_config({"extends": "cs224n.yaml"}, trial=True).output_dir.endswith("-trial")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": {"lrr": 1}}, "config: training.lrr: "),
        ({"training": {"lr": "fast"}}, "config: training.lr: "),
        ({"tasks": {"ssst": None}}, "config: tasks.ssst: no such task to leave out"),
        ({"extends": "none.yaml"}, "config: extends: no such file: none.yaml"),
    ],
)
def test_a_mistake_in_a_dict(change, message):
    with pytest.raises(UserError) as caught:
        load_config({"extends": "cs224n.yaml", "output_dir": "runs/a", **change})
    assert str(caught.value).startswith(message)
