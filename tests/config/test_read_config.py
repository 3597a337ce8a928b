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


# --- trials: few rows and epochs

CONFIG = ROOT / "configs" / "cs224n_minilm.yaml"


def test_a_trial_has_few_rows_and_epochs():
    config = load_config(CONFIG, trial=True)
    assert config.trial and config.output_dir == "runs/cs224n_minilm-trial"
    assert config.training.epochs == 4 and not config.training.frozen_baseline
    assert config.training.select == "per_task"
    assert {(t.max_rows, t.max_dev_rows) for t in config.tasks.values()} == {(300, 200)}


def test_only_a_head_on_the_difference_of_vectors_learns_faster():
    rates = {name: task.head_lr for name, task in load_config(CONFIG, trial=True).tasks.items()}
    assert rates == {"sst": None, "qqp": pytest.approx(0.1), "sts": None}  # ten times 1e-2
    own = load_config(CONFIG, ["defaults.max_length=64"], trial=True)
    assert own.tasks["qqp"].head_lr == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("override", "task", "key", "value"),
    [
        ("tasks.sst.max_rows=1000", "sst", "max_rows", 1000),
        ("defaults.max_rows=1000", "qqp", "max_rows", 1000),
        ("tasks.sst.max_dev_rows=null", "sst", "max_dev_rows", None),
        ("tasks.qqp.head_lr=0.5", "qqp", "head_lr", 0.5),
    ],
)
def test_a_value_on_the_command_line_wins(override, task, key, value):
    assert getattr(load_config(CONFIG, [override], trial=True).tasks[task], key) == value


def test_epochs_on_the_command_line_win():
    config = load_config(CONFIG, ["training.epochs=1", "training.epoch=70"], trial=True)
    assert (config.training.epochs, config.training.epoch) == (1, 70)


def test_stages_are_short_too():
    stages = "stages=[{epoch: 2400, epochs: 5}, {epochs: 2, max_steps: 3}]"
    config = load_config(CONFIG, trial=True)
    assert not config.stages
    file = ROOT / "configs" / "cs224n_pals_staged.yaml"
    short = load_config(file, trial=True).stages
    assert [stage.epochs for stage in short] == [1, 2]
    given = load_config(CONFIG, [stages], trial=True).stages  # the command line wins
    assert (given[0].epoch, given[0].epochs) == (2400, 5)


def test_a_stage_of_many_steps_has_the_length_of_the_longest_task(tmp_path):
    file = tmp_path / "staged.yaml"
    file.write_text(f"extends: {CONFIG}\nstages: [{{epoch: 2400, epochs: 5}}, {{epochs: 2}}]\n")
    assert load_config(file).stages[0].epoch == 2400
    first, second = load_config(file, trial=True).stages
    assert (first.epoch, first.epochs, second.epochs) == ("longest", 4, 2)


def test_a_task_that_selects_the_weights_still_does():
    config = load_config(CONFIG, ["training.select=sts"], trial=True)
    assert config.training.select == "sts"


@pytest.fixture
def small(tmp_path):
    """A config with fewer rows than a trial has, and with tasks that share rows or a head."""
    file = tmp_path / "small.yaml"
    file.write_text(
        f"extends: {CONFIG}\n"
        "training: {epoch: 5000}\n"
        "tasks:\n"
        "  sst: {max_rows: 50, max_dev_rows: 20}\n"
        "  level: {data: {same_rows_as: sst, label: sentiment, labels: [0, 1, 2, 3, 4]},\n"
        "          head: classification}\n"
        "  more: {share_head: qqp, dropout: 0.0, data: {train: q.csv, dev: q.csv, text: a,\n"
        "         text2: b, label: same}}\n"
    )
    return file


def test_a_trial_never_takes_more_rows_than_the_config(small):
    tasks = load_config(small, trial=True).tasks
    assert (tasks["sst"].max_rows, tasks["sst"].max_dev_rows) == (50, 20)
    assert tasks["level"].max_rows == 50  # its rows are those of sst
    assert tasks["more"].head_lr is None  # its head is that of qqp


def test_rows_that_tasks_share_go_by_the_command_line(small):
    tasks = load_config(small, ["tasks.sst.max_rows=70"], trial=True).tasks
    assert (tasks["sst"].max_rows, tasks["level"].max_rows) == (70, 70)


def test_a_long_epoch_is_one_pass_in_a_trial(small):
    assert load_config(small).training.epoch == 5000
    assert load_config(small, trial=True).training.epoch == "longest"


def test_a_saved_trial_keeps_its_values(small, tmp_path):
    config = load_config(small, ["tasks.sst.max_dev_rows=500"], trial=True)
    (tmp_path / "saved.yaml").write_text(config.dump())
    assert load_config(tmp_path / "saved.yaml").resolved() == config.resolved()
