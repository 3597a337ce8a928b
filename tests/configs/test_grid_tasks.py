"""Grids that train each task apart: their cells, their tables, and what is refused."""

import json
from pathlib import Path

import pytest

import run_multitask
from multitask.config.yaml_reader import dump_yaml
from multitask.sweep.ablation_table import write_table
from multitask.sweep.grid import Grid, load_grid
from multitask.sweep.sweep_directory import Failure, plan_runs
from multitask.utils.errors import UserError
from tests.support.fabricated_run import write_run

BASE = """
defaults: {data: {train: t.tsv, dev: d.tsv}}
tasks:
  sst: {data: {labels: [a, b]}, head: classification}
  para: {data: {text: u, text2: v}, input: siamese, head: siamese_paraphrase}
  para_too: {data: {train: null, text: u, text2: v}, share_head: para}
  sts: {data: {text: u, text2: v, label_range: [0, 5]}, input: siamese, head: cosine_regression}
"""
TEXT = """
base: base.yaml
seeds: [1, 2]
tasks: [sst, [para, para_too], sts]
set: {tasks.sts.max_rows: 7}
grid: {defaults.pooling: [cls, mean]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def grid_of(folder: Path, text: str = TEXT) -> Grid:
    (folder / "g.yaml").write_text(text)
    return load_grid(folder / "g.yaml")


def test_each_cell_has_one_task_and_those_that_belong_to_it(folder):
    grid = grid_of(folder)
    result = {cell.name: list(grid.config(cell, 1, Path()).tasks) for cell in grid.cells}
    assert result == {
        "sst-cls": ["sst"],
        "sst-mean": ["sst"],
        "para-cls": ["para", "para_too"],
        "para-mean": ["para", "para_too"],
        "sts-cls": ["sts"],
        "sts-mean": ["sts"],
    }
    assert {(cell.task, cell.row) for cell in grid.cells} >= {("para", "mean"), ("sts", "cls")}
    assert grid.baseline == "cls"
    assert grid.config(grid.cells[-1], 1, Path()).tasks["sts"].max_rows == 7
    again = folder / "again.yaml"
    again.write_text(dump_yaml(grid.resolved))
    assert [cell.name for cell in load_grid(again).cells] == list(result)


def test_tasks_named_cells_and_values_are_combined(folder):
    grid = grid_of(folder, f"{TEXT}cells: {{plain: {{}}, long: {{training.epochs: 9}}}}\n")
    assert [cell.name for cell in grid.cells[:4]] == [
        "sst-plain-cls",
        "sst-plain-mean",
        "sst-long-cls",
        "sst-long-mean",
    ]
    assert [axis["key"] for axis in grid.axes] == ["tasks", "cells", "defaults.pooling"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[sst, [", "[stt, ["), "base.yaml has no task 'stt' (did you mean 'sts'?)"),
        (("[para, para_too]", "[]"), "has no task ''"),
        (("sts]", "sst]"), "that no other cell has"),
        (("grid:", "baseline: sst-cls\ngrid:"), "no cell is named 'sst-cls'"),
        (("grid:", "probe: true\ngrid:"), "tasks: a probe grid trains each task's head alone"),
        (("[para, para_too]", "para_too"), "share_head"),
    ],
)
def test_mistakes_name_the_line(folder, change, words):
    with pytest.raises(UserError) as refusal:
        grid_of(folder, TEXT.replace(*change))
    assert words in str(refusal.value) and "g.yaml" in str(refusal.value)


@pytest.fixture
def trained(folder: Path) -> Path:
    """Finished runs of the grid, as `ablate` leaves them; one run of sts is lacking."""
    grid = grid_of(folder, TEXT.replace("[para, para_too]", "para"))
    output = folder / "runs"
    output.mkdir()
    (output / "grid.yaml").write_text(dump_yaml(grid.resolved))
    for run in plan_runs(grid, output):
        if (run.cell, run.seed) == ("sts-mean", 2):
            continue
        task, _, pooling = run.cell.partition("-")
        noise = 0.1 if pooling == "mean" else 0.4
        write_run(run.directory, rows=80, seed=run.seed, noise=noise, only=(task,))
    return output


def test_each_task_is_compared_apart(trained, capsys):
    grid = load_grid(trained / "grid.yaml")
    runs = plan_runs(grid, trained)
    lost = next(run for run in runs if not run.finished)
    files = write_table(grid, runs, trained, [Failure(lost, "out of luck")])
    for task in ("sst", "para", "sts"):
        page = (trained / "tasks" / task / "table.md").read_text()
        assert "Difference to cls" in page and "| mean | " in page
        assert ("out of luck" in page) == (task == "sts")
        assert trained / "tasks" / task / "comparison.json" in files
    assert "sts:\n" in capsys.readouterr().out


LAYOUT = """
title: A table
source: somewhere
baseline: cls
columns:
  - {title: SST, task: sst, metric: accuracy}
  - {title: QQP F1, task: para, metric: f1}
  - {title: STS, task: sts, metric: pearson}
  - {title: mean of the columns, mean: columns}
rows:
  cls: {title: "[CLS]", printed: [50, 60.5, null, null]}
  other: {printed: [51, 61, 62, null]}
"""


def test_the_table_command_reads_what_a_grid_has_left(trained, folder, capsys):
    layout = folder / "layout.yaml"
    layout.write_text(LAYOUT)
    output = folder / "out"
    assert run_multitask.main(["table", str(layout), str(trained), "--output", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "[CLS]  paper  50.00" in shown and "other  paper  51.00" in shown
    names = {file.name for file in output.iterdir()}
    assert names == {
        "paper.md",
        "paper.csv",
        "paper.tex",
        "paper.json",
        "paper_scores.png",
        "paper_gain.png",
    }
    missing = f"{trained}: 11 of 12 runs are finished."
    assert missing in shown and missing in json.loads((output / "paper.json").read_text())["notes"]
    lines = (output / "paper.csv").read_text().splitlines()
    assert lines[0].startswith("row,column,task,metric,seeds,mean,median,sd,low,high,printed,diff_")
    assert sum(line.startswith("mean,") for line in lines) == 3 + 1  # columns and a mean
    assert next(line for line in lines if line.startswith("mean,STS")).split(",")[4] == "1"


def test_the_same_grid_twice_and_one_without_runs_are_refused(trained, folder, capsys):
    layout = folder / "layout.yaml"
    layout.write_text(LAYOUT)
    copy = folder / "copy"
    copy.mkdir()
    (copy / "grid.yaml").write_text((trained / "grid.yaml").read_text())
    assert run_multitask.main(["table", str(layout), str(copy)]) == 2
    assert "no run of the grid is finished" in capsys.readouterr().err
    assert run_multitask.main(["table", str(layout), str(trained), str(trained)]) == 2
    assert "has the task sst twice" in capsys.readouterr().err


def test_plain_runs_are_rows_by_their_group(folder, capsys):
    layout = folder / "layout.yaml"
    layout.write_text(LAYOUT)
    runs = []
    for name, noise in (("cls", 0.4), ("mean", 0.1)):
        for seed in (1, 2):
            runs.append(str(folder / f"{name}-{seed}"))
            write_run(Path(runs[-1]), rows=60, seed=seed, noise=noise, lr=noise)
    assert run_multitask.main(["table", str(layout), *runs]) == 0
    shown = capsys.readouterr().out
    ours = [line.split()[0] for line in shown.splitlines() if "  ours  " in line]
    assert ours == ["[CLS]", "mean", "mean"]  # scores of both, the difference of one
    assert "seeds 2" in shown and "mean of the columns: SST, QQP F1, STS" in shown
