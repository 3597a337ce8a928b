"""Results of runs and commands are stored with command, commits and minutes."""

import json
import os
import shutil
import tarfile

from multitask.config.yaml_reader import dump_yaml
from multitask.sweep.grid import load_grid
from tests.conftest import ROOT
from tools.measured_docs import run_tables
from tools.measured_docs.store import store


def test_a_papers_table_is_saved_with_its_command_and_the_commits_of_its_runs(tmp_path):
    run = "runs/hire_minilm/cells/cola-hire/seed-1"  # as seen from where `table` was run
    write_run(tmp_path / run, "abc1234")
    cells = {"b": {"printed": 68.0}, "c": {"runs": [run]}, "d": {"runs": [run]}}
    table = write_table(tmp_path, cells)
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    command = "table configs/hire/table1_minilm.yaml runs/hire_minilm"
    assert json.loads((tmp_path / "papers" / "table1_minilm.json").read_text()) == {
        **table,
        "source": {
            "command": f"python run_multitask.py {command}",
            "commits": ["abc1234"],
            "runs": 1,
            "minutes": 2,
            "kernels": ["compiled"],
        },
        "made": {run: {"commit": "abc1234", "seconds": 120.0, "kernels": "compiled"}},
    }


def test_a_papers_table_keeps_the_columns_that_were_measured_before(tmp_path):
    first = "runs/hire_minilm/cells/cola-hire/seed-1"
    second = "runs/hire_minilm_5/cells/mrpc-hire/seed-1"
    write_run(tmp_path / first, "abc1234")
    write_table(tmp_path, {"a": {"runs": [first], "mean": 1.0}, "b": {"printed": 90.9}}, ["early"])
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    shutil.rmtree(tmp_path / first)
    write_run(tmp_path / second, "def5678")
    write_table(tmp_path, {"a": {"printed": 68.0}, "b": {"runs": [second], "mean": 2.0}}, ["late"])
    for _ in range(2):  # saved twice it is the same
        store(tmp_path / "runs" / "table1_minilm", tmp_path)
        saved = json.loads((tmp_path / "papers" / "table1_minilm.json").read_text())
        (row,) = saved["rows"]
        assert [cell["mean"] for cell in row["cells"].values()] == [1.0, 2.0]
        assert saved["notes"] == ["late", "early"]
        assert saved["source"]["command"].endswith("runs/hire_minilm runs/hire_minilm_5")
        assert saved["source"]["commits"] == ["abc1234", "def5678"]
        assert saved["source"]["runs"] == 2 and saved["source"]["minutes"] == 4
    # measured again, a column is the new one alone, and nothing is left of the old runs
    write_run(tmp_path / first, "fff9999")
    write_table(tmp_path, {"a": {"runs": [first], "mean": 3.0}, "b": {"printed": 90.9}})
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    saved = json.loads((tmp_path / "papers" / "table1_minilm.json").read_text())
    assert [cell["mean"] for cell in saved["rows"][0]["cells"].values()] == [3.0, 2.0]
    assert saved["source"]["commits"] == ["def5678", "fff9999"]


def write_run(run, revision):
    run.mkdir(parents=True)
    report = {"seed": 1, "selection_split": "dev", "tasks": {}}
    report |= {"git_revision": revision, "wall_time_s": 120.0}
    (run / "report.json").write_text(json.dumps(report))
    (run / "config.yaml").write_text("encoder: {kernels: compiled}\n")


def write_table(directory, cells, notes=()):
    """A paper's table of one row, as `table` leaves it."""
    rows = [{"name": "hire", "cells": cells}]
    table = {"columns": {name: {} for name in cells}, "rows": rows, "notes": [*notes]}
    target = directory / "runs" / "table1_minilm"
    target.mkdir(parents=True, exist_ok=True)
    (target / "paper.json").write_text(json.dumps(table))
    return table


def test_a_task_of_a_grid_is_saved_under_both_names(tmp_path):
    grid = tmp_path / "runs" / "minilm_rate"
    run = "runs/minilm_rate/cells/cola-rate_1e-4-hire/seed-11"
    write_run(tmp_path / run, "abc1234")
    config = ROOT / "configs" / "hire" / "minilm_rate.yaml"
    asked = load_grid(config, ["data_dir=/data", "encoder.kernels=compiled"])
    (grid / "grid.yaml").write_text(dump_yaml(asked.resolved))
    (grid / "tasks" / "cola").mkdir(parents=True)
    result = {"rows": [{"name": "rate_1e-4-hire", "runs": [run]}]}
    (grid / "tasks" / "cola" / "comparison.json").write_text(json.dumps(result))
    predicted = tmp_path / run / "predictions"
    predicted.mkdir()
    (predicted / "cola-dev-output.csv").write_text("id,label\n1,0\n")
    (predicted / "cola-test-output.csv").write_text("id,label\n7,0\n")
    store(grid / "tasks" / "cola", tmp_path)
    packed = tmp_path / "predictions" / "minilm_rate_cola.tar.xz"
    with tarfile.open(packed) as tar:  # dev alone
        name = "cola-rate_1e-4-hire/seed-11/cola-dev-output.csv"
        assert tar.getnames() == [name]
        assert tar.extractfile(name).read() == b"id,label\n1,0\n"
    before = packed.read_bytes()
    os.utime(predicted / "cola-dev-output.csv", (0, 0))
    store(grid / "tasks" / "cola", tmp_path)
    assert packed.read_bytes() == before
    saved = json.loads((tmp_path / "grids" / "minilm_rate_cola.json").read_text())
    command = "ablate configs/hire/minilm_rate.yaml data_dir=DIR encoder.kernels=compiled"
    assert saved["source"]["command"] == f"python run_multitask.py {command}"
    assert saved["source"]["runs"] == 1 and saved["rows"] == result["rows"]


def test_importance_is_saved_with_examples_and_shown_by_length(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tables, "IMPORTANCE", tmp_path / "importance")
    run = "runs/attention"
    write_run(tmp_path / run, "abc1234")
    entry = {
        "run": run,
        "task": "sts",
        "split": "dev",
        "layers": 2,
        "states": [1, 2],
        "rows": 1000,
        "mean": [0.25, 0.75],
        "median": 12.0,
        "short": [0.2, 0.8],
        "long": [0.3, 0.7],
        "texts": ["a"],
        "weights": [[0.5, 0.5]],
    }
    file = tmp_path / "runs" / "layers.json"
    file.write_text(json.dumps([entry]))
    store(file, tmp_path)
    (saved,) = json.loads((tmp_path / "importance" / "layers.json").read_text())["entries"]
    assert saved == entry
    table = run_tables.importance("layers")
    assert "| attention | sts | all 1,000 | - | 0.250 | 0.750 |" in table
    assert "| attention | sts | at most 12 tokens | - | 0.200 | 0.800 |" in table
    assert "| attention | sts | longer | - | 0.300 | 0.700 |" in table
    assert "`python run_multitask.py importance runs/attention --task sts`, commit abc1234" in table
    given = tmp_path / "runs" / "given.json"
    given.write_text(json.dumps([entry | {"split": "texts"}]))
    store(given, tmp_path)
    table = run_tables.importance("given")
    assert "| runs | a | 0.500 | 0.500 |" in table
    assert 'runs/attention --task sts --text "a"`' in table
