"""The file of a search: its parameters, trial 0, and every mistake with its line."""

from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.config.yaml_reader import dump_yaml
from multitask.sweep.search_space import SearchSpace, load_search
from multitask.utils.errors import UserError
from tests.conftest import ROOT

BASE = f"base: {ROOT / 'configs' / 'cs224n_minilm.yaml'}\ntrials: 4\nseed: 1\n"
SET = "set: {training.holdout: 0.1}\nsearch:\n"


@pytest.fixture
def written(tmp_path: Path):
    """``written(text)`` is the search space of a file with that text under ``search``."""

    def read(text: str, overrides: list[str] | None = None, before: str = SET) -> SearchSpace:
        (tmp_path / "s.yaml").write_text(BASE + before + text)
        return load_search(tmp_path / "s.yaml", overrides)

    return read


def test_trial_0_has_the_values_of_the_base_and_others_the_chosen_ones(written):
    space = written(
        "  training.lr: {low: 1.0e-5, high: 1.0e-4, log: true}\n"
        "  tasks.sst.pooling: {average: mean, first: cls}\n"
    )
    base = load_config(space.base, ["training.holdout=0.1"])
    assert space.config({}).resolved() == base.resolved() == space.config(space.first).resolved()
    assert space.first == {"training.lr": base.training.lr, "tasks.sst.pooling": "first"}
    chosen = space.config({"training.lr": 1e-4, "tasks.sst.pooling": "average"})
    assert chosen.training.lr == 1e-4
    assert chosen.tasks["sst"].pooling.name == "mean"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  training.dropout_: [1]\n", "dropout_"),
        ("  training.lr: {low: -1.0, high: 1.0e-4}\n", "s.yaml:6"),
        ("  tasks.sst.dropout: {low: 0.1, high: 1.5}\n", "s.yaml:6"),
        ("  training.epochs: {low: 1.0, high: 4.0}\n", "training.epochs"),
        ("  training.lr: {low: 1.0e-3, high: 1.0e-2}\n", "5e-05"),
        ("  training.epochs: [3, 4]\n", "search.training.epochs"),
        ("  tasks.sst.dropout: [0.1, 0.1]\n", "search.tasks.sst.dropout"),
        ("  training.lr: [5.0e-5]\nobjectives: [sst, sst]\n", "objectives.1"),
        ("  training.epochs: {low: 1, high: -3}\n", "search.training.epochs"),
        ("  training.lr: {low: 0.0, high: 1.0, log: true}\n", "search.training.lr"),
        ("  training.lr: {low: 0.0, high: .inf}\n", "search.training.lr"),
        ("  training.lr: 3\n", "search.training.lr"),
        ("  seed: [1, 2]\n", "at the top of the file"),
        ("  output_dir: [a, b]\n", "search.output_dir"),
        ("  training.lr: [5.0e-5]\nobjectives: [stx]\n", "'stx'"),
        ("  training.lr: [5.0e-5]\nobjectives: [sst]\npruner: median\n", "pruner"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(written, text, message):
    with pytest.raises(UserError) as error:
        written(text)
    assert message in str(error.value)
    assert "s.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_without_a_holdout_there_is_no_score(written):
    with pytest.raises(UserError, match=r"s\.yaml:1: base: no training\.holdout"):
        written("  training.lr: [5.0e-5]\n", before="search:\n")
    with pytest.raises(UserError, match="it must be the same for all"):
        written("  training.holdout: [0.1, 0.2]\n", before="search:\n")


def test_values_of_the_command_line_are_those_of_every_trial(written):
    values = "  training.lr: [5.0e-5]\n"
    space = written(values, ["training.epochs=7"])
    assert space.config({}).training.epochs == 7 and space.file.set["training.epochs"] == 7
    with pytest.raises(UserError, match="the key is in `set` too"):
        written(values, ["training.lr=1e-5"])


def test_objectives_have_no_pruner_unless_one_is_asked_for(written):
    values = "  training.lr: [5.0e-5]\n"
    assert written(values).file.pruner == "median"
    assert written(values + "objectives: [sst, qqp]\n").file.pruner == "none"


def test_a_key_that_the_base_leaves_open_can_be_searched(written, tmp_path):
    """As docs/tuning.md says: in a list with null, or from a base with a number of the range."""
    key = "tasks.sst.head_lr"
    with pytest.raises(UserError, match=rf"search\.{key}: "):
        written(f"  {key}: {{low: 1.0e-3, high: 1.0e-1}}\n")
    assert written(f"  {key}: [null, 1.0e-3, 1.0e-1]\n").first == {key: "null"}
    base = tmp_path / "base.yaml"
    base.write_text(
        f"extends: {ROOT / 'configs/cs224n_minilm.yaml'}\ntasks: {{sst: {{head_lr: 0.01}}}}\n"
    )
    text = f"base: {base}\n{SET}  {key}: {{low: 1.0e-3, high: 1.0e-1}}\n"
    (tmp_path / "s.yaml").write_text(text)
    assert load_search(tmp_path / "s.yaml").first == {key: 0.01}


def test_the_seed_is_a_key_of_the_file_and_has_a_default(written, tmp_path):
    values = "  training.lr: [5.0e-5]\n"
    (tmp_path / "s.yaml").write_text(BASE.splitlines()[0] + "\n" + SET + values)
    file = load_search(tmp_path / "s.yaml").file
    assert (file.trials, file.seed) == (20, 1)
    with pytest.raises(UserError, match=r"command line: set\.seed: .* at the top of the file"):
        written(values, ["seed=3"])


def test_a_key_of_all_tasks_has_the_base_value_that_changes_nothing(written):
    space = written("  defaults.dropout: {low: 0.0, high: 0.5}\n")
    assert space.first == {"defaults.dropout": 0.1}


def test_the_saved_file_gives_the_same_search(written, tmp_path):
    space = written("  tasks.sst.pooling: {average: mean, first: cls}\n")
    again = tmp_path / "saved.yaml"
    again.write_text(dump_yaml(space.resolved))
    assert load_search(again).resolved == space.resolved


def test_the_search_of_the_course_is_valid():
    space = load_search(ROOT / "configs" / "tune" / "cs224n.yaml")
    assert space.first["tasks.qqp.head"] == "abs_diff" and len(space.first) == 6
