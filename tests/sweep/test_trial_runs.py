"""A trial is a run directory; its log is read while it is written."""

import json

from multitask.config import load_config
from multitask.store.run_directory import RunDirectory
from multitask.sweep.search_space import load_search
from multitask.sweep.sweep_directory import SweepDirectory
from multitask.sweep.trial_runs import divergence, evaluations, run_of
from tests.conftest import ROOT


def test_the_command_of_a_trial_gives_its_config(tmp_path):
    space = load_search(ROOT / "configs" / "tune" / "cs224n.yaml", ["training.epochs=4"])
    chosen = space.first | {"training.lr": 3.1e-5, "tasks.qqp.head": "u_v_abs_diff"}
    run = run_of(space, SweepDirectory(tmp_path), 7, chosen)
    word, base, *settings = run.arguments
    config = load_config(base, settings)
    assert word == "train" and config.resolved() == run.config.resolved()
    assert (config.training.lr, config.training.epochs, config.seed) == (3.1e-5, 4, 1)
    assert config.tasks["qqp"].head.options == {"features": ["u", "v", "abs_diff"]}
    assert run.directory == tmp_path / "cells" / "trial-7" / "seed-1"


def test_evaluations_of_a_log_whose_last_line_is_cut(tmp_path):
    run = RunDirectory(tmp_path)
    assert evaluations(run) == []
    lines = [
        {"event": "plan", "step": 0, "steps": 20, "epochs": 2},
        {"event": "eval", "step": 10, "split": "holdout", "tasks": {}, "joint": None},
        {"event": "step", "step": 11, "task": "sst", "loss": 1.0},
        {"event": "eval", "step": 20, "split": "holdout", "tasks": {}, "joint": 0.5},
        {"event": "eval", "step": 20, "split": "holdout", "tasks": {}, "joint": 0.5},
    ]
    text = "\n".join(map(json.dumps, lines))
    run.metrics.write_text(text[:-3])
    assert evaluations(run) == [(None, True), (0.5, False)]


def test_a_run_has_diverged_if_its_log_ends_so(tmp_path):
    run = RunDirectory(tmp_path)
    assert divergence(run) == ""
    event = json.dumps({"event": "diverged", "step": 3, "reason": "task sst: loss nan"})
    run.metrics.write_text(event + "\n")
    assert divergence(run) == "task sst: loss nan"
    step = json.dumps({"event": "step", "step": 4, "task": "sst", "loss": 1.0})
    run.metrics.write_text(f"{event}\n{step}\n")
    assert divergence(run) == ""
