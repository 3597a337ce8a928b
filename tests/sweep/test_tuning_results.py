"""The table of a search, and the config of its best trials."""

from dataclasses import replace

import pytest

from multitask.config import load_config
from multitask.sweep.search_space import SearchSpace, load_search
from multitask.sweep.tuning_results import OPEN, Tried, write_results
from tests.conftest import ROOT


@pytest.fixture
def space() -> SearchSpace:
    return load_search(ROOT / "configs" / "tune" / "cs224n.yaml", ["data_dir=somewhere"])


def tried(space, tmp_path, number, state="finished", values=(), **chosen) -> Tried:
    keys = {key.replace("__", "."): value for key, value in chosen.items()}
    return Tried(number, state, space.first | keys, values, False, tmp_path / "run")


def test_the_best_trial_comes_first_and_is_a_config(space, tmp_path, capsys):
    trials = [
        tried(space, tmp_path, 0, values=[0.5]),
        tried(space, tmp_path, 1, "pruned at evaluation 2", training__lr=1e-4),
        tried(space, tmp_path, 2, values=[0.75], training__lr=3e-5, tasks__sst__pooling="max"),
        tried(space, tmp_path, 3, OPEN),
    ]
    trials[2] = replace(trials[2], best=True)
    (tmp_path / "best-1.yaml").touch()  # of an earlier front
    files = write_results(space, tmp_path, trials, {"mean": {"training.lr": 1.0}})
    names = {"table.md", "best.yaml", "history.png", "importance.png"}
    assert {file.name for file in files} == {file.name for file in tmp_path.iterdir()} == names
    text = (tmp_path / "table.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 2", "| 0", "| 1", "| 3"]
    assert "**0.750**" in lines[2] and "pruned at evaluation 2" in lines[4]
    assert "So far 3 of 20 trials are over." in text
    assert text.count("0.750") == 1 and "0.750" in capsys.readouterr().out
    best = load_config(tmp_path / "best.yaml")
    settings = space.settings(trials[2].chosen)
    assert best.resolved() | {"output_dir": ""} == load_config(space.base, settings).resolved() | {
        "output_dir": ""
    }
    assert (tmp_path / "best.yaml").read_text().startswith("# Trial 2 of 20: holdout mean 0.750.\n")


def test_without_a_score_there_is_only_the_table(space, tmp_path):
    files = write_results(space, tmp_path, [tried(space, tmp_path, 0, "failed: no data")], {})
    assert [file.name for file in files] == ["table.md"]
    assert "failed: no data" in files[0].read_text()
