"""The values that `--try` changes in a config, and those that it leaves to the user."""

import pytest

from multitask.config import load_config
from tests.conftest import ROOT

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
