"""The file of a search: its parameters, trial 0, and every mistake with its line."""

from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.sweep.search_space import SearchSpace, load_search
from multitask.utils.errors import UserError
from tests.conftest import ROOT

BASE = f"base: {ROOT / 'configs' / 'cs224n_minilm.yaml'}\ntrials: 4\nseed: 1\nsearch:\n"


@pytest.fixture
def written(tmp_path: Path):
    """``written(text)`` is the search space of a file with that text under ``search``."""

    def read(text: str) -> SearchSpace:
        (tmp_path / "s.yaml").write_text(BASE + text)
        return load_search(tmp_path / "s.yaml")

    return read


def test_trial_0_has_the_values_of_the_base_and_others_the_chosen_ones(written):
    space = written(
        "  training.lr: {low: 1.0e-5, high: 1.0e-4, log: true}\n"
        "  tasks.sst.pooling: {average: mean, first: cls}\n"
    )
    assert space.config({}).resolved() == load_config(space.base).resolved()
    chosen = space.config({"training.lr": 1e-4, "tasks.sst.pooling": "average"})
    assert chosen.training.lr == 1e-4
    assert chosen.tasks["sst"].pooling.name == "mean"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  training.dropout_: [1]\n", "dropout_"),
        ("  training.lr: {low: -1.0, high: 1.0e-4}\n", "s.yaml:5"),
        ("  tasks.sst.dropout: {low: 0.1, high: 1.5}\n", "s.yaml:5"),
        ("  training.epochs: {low: 1, high: -3}\n", "low must be less than high"),
        ("  training.lr: {low: 0.0, high: 1.0, log: true}\n", "starts above 0"),
        ("  training.lr: 3\n", "a list of values"),
        ("  seed: [1, 2]\n", "its own `seed`"),
        ("  training.lr: [1.0e-5]\nobjectives: [stx]\n", "no task is named 'stx'"),
        ("  training.lr: [1.0e-5]\nobjectives: [sst]\npruner: median\n", "write none"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(written, text, message):
    with pytest.raises(UserError) as error:
        written(text)
    assert message in str(error.value)
    assert "s.yaml" in str(error.value)
    assert "\n" not in str(error.value)
