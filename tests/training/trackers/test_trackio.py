"""trackio's SQLite file has what metrics.jsonl says, each step once."""

import json
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.tracked_runs import Curves, check_same, expected, kill_and_resume, run_id

pytest.importorskip("trackio", reason="pip install trackio")
pytestmark = pytest.mark.engines


def recorded(database: Path, run: str) -> Curves:
    curves = defaultdict(list)
    rows = sqlite3.connect(database).execute("SELECT run_id, step, metrics FROM metrics")
    for its_run, step, metrics in rows:
        assert its_run == run
        for tag, value in json.loads(metrics).items():
            curves[tag].append((step, value))
    return {tag: sorted(pairs) for tag, pairs in curves.items()}


def test_a_killed_run_is_resumed_under_its_id_with_each_step_once(
    tiny_overrides, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("TRACKIO_STORAGE_MODE", "sqlite")  # on a network disk it writes other files
    monkeypatch.setenv("MULTITASK_SWEEP", "poolings")
    monkeypatch.delenv("TRACKIO_PROJECT", raising=False)
    kill_and_resume(tiny_overrides, "training.trackers=[trackio]")
    database = tmp_path / "trackio" / "multitask.db"
    run = run_id(tmp_path / "run", "trackio")
    check_same(recorded(database, run), expected(tmp_path / "run"))
    rows = sqlite3.connect(database).execute("SELECT run_name, config FROM configs").fetchall()
    assert {name for name, _ in rows} == {"run"}
    config = json.loads(rows[-1][1])
    assert config["training"]["checkpoint_steps"] == 4 and config["_Group"] == "poolings"
