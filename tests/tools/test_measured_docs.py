"""The measured tables of docs/ hold what the commands wrote, and nothing typed by hand."""

import json
import math
import shutil
import statistics

from multitask.config.yaml_reader import dump_yaml
from multitask.sweep.grid import load_grid
from tests.conftest import ROOT
from tools.measured_docs import grid_tables, run_tables, text_excerpts
from tools.measured_docs.pages import measured_pages, renew
from tools.measured_docs.store import RESULTS, store


def test_the_pages_equal_the_saved_files():
    names = {page.name for page in measured_pages()}
    assert names >= {"results.md", "ablation-results.md", "multitask-minibert.md"}
    for page in measured_pages():
        text = page.read_text()
        assert renew(text) == text, page.name
    assert run_tables.load_reports()


def test_every_saved_grid_is_on_a_page():
    text = "".join(page.read_text() for page in measured_pages())
    for file in grid_tables.GRIDS.glob("*.json"):
        shown = f"grid {file.stem} -->" in text or file.stem == "multitask_minibert"
        assert shown, file.name
    for file in grid_tables.PAPERS.glob("*.json"):
        assert f"paper {file.stem} -->" in text, file.name
    for file in run_tables.EPOCHS.glob("*.json"):
        assert f"<!-- measured: epochs {file.stem} -->" in text, file.stem
    for file in run_tables.IMPORTANCE.glob("*.json"):
        assert f"<!-- measured: importance {file.stem} -->" in text, file.stem
    for file in text_excerpts.EXPORTS.glob("*.md"):
        assert f"exported {file.stem} -->" in text, file.name


def test_our_half_of_a_papers_table_is_its_values_and_differences_alone():
    full, half = grid_tables.paper("table2_minilm"), grid_tables.ours("table2_minilm")
    assert "paper" in full and "paper" not in half.lower().replace("maxpoolbert", "")
    assert "seconds" not in half
    rows = [line for line in half.splitlines() if line.startswith("| ") and " ours |" in line]
    assert rows and all(line in full for line in rows if "[" in line and "p " in line)


def test_saved_files_come_from_clean_commits():
    for file in run_tables.EPOCHS.glob("*.json"):
        assert not json.loads(file.read_text())["commit"].endswith(("None", "dirty")), file
    for file in [*RESULTS.glob("*.json"), *run_tables.CONTRASTIVE.glob("*.json")]:
        revision = json.loads(file.read_text())["git_revision"]
        assert revision and not revision.endswith("dirty"), file
    for file in (
        *(RESULTS / "written").glob("*.md"),
        *text_excerpts.EXPORTS.glob("*.md"),
    ):
        assert "-dirty" not in file.read_text() and "git revision: None" not in file.read_text()
    folders = (grid_tables.GRIDS, grid_tables.PAPERS, run_tables.IMPORTANCE)
    for file in [file for folder in folders for file in folder.glob("*.json")]:
        for revision in json.loads(file.read_text())["source"]["commits"]:
            assert revision != "None" and not revision.endswith("dirty"), file


def test_a_changed_number_is_noticed():
    page = (ROOT / "docs" / "results.md").read_text()
    assert renew(page.replace("0.493 ± 0.003", "0.593 ± 0.003")) == page != ""
    assert "0.493 ± 0.003" in page


def test_runs_that_are_still_to_do_are_named(monkeypatch):
    planned, reports = run_tables.planned_runs(), run_tables.load_reports()
    assert {"siamese", "best", "pals"} <= set(planned)
    done = dict.fromkeys(planned, reports["siamese"])
    monkeypatch.setattr(run_tables, "load_reports", lambda: done)
    assert "Not measured yet" not in run_tables.runs("")
    del done["best"], done["pals"]
    assert run_tables.runs("").endswith(" |\n\nNot measured yet: best, pals.\n")


def test_a_partial_grid_says_so_on_the_papers_page(tmp_path, monkeypatch):
    monkeypatch.setattr(grid_tables, "GRIDS", tmp_path)
    entry = {"mean": 0.5, "sd": 0.01}
    found = {
        "groups": [{"name": "multitask", "tasks": {"sst": entry}}],
        "notes": ["Interrupted: 1 of 18 runs are finished."],
        "source": {"command": "c", "commits": ["abc1234"], "runs": 1, "minutes": 2},
    }
    (tmp_path / "multitask_minibert.json").write_text(json.dumps(found))
    tables = grid_tables.minibert("")
    assert "| MultiTask BERT | 0.480 | 0.500 ± 0.010 | 0.835 | - |" in tables
    assert "\n\n- Interrupted: 1 of 18 runs are finished.\n\n`c`, commit abc1234" in tables


def test_a_papers_table_is_saved_with_its_command_and_the_commits_of_its_runs(tmp_path):
    run = "runs/hire_minilm/cells/cola-hire/seed-1"  # as seen from where `table` was run
    write_run(tmp_path / run, "abc1234")
    cells = [None, {"printed": 68.0}, {"runs": [run]}, {"runs": [run]}]
    table = write_table(tmp_path, cells)
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    command = "table configs/hire/table1_minilm.yaml runs/hire_minilm"
    assert json.loads((tmp_path / "papers" / "table1_minilm.json").read_text()) == {
        "table": table,
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
    write_table(tmp_path, [{"runs": [first], "mean": 1.0}, {"printed": 90.9}], ["early"])
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    shutil.rmtree(tmp_path / first)
    write_run(tmp_path / second, "def5678")
    write_table(tmp_path, [{"printed": 68.0}, {"runs": [second], "mean": 2.0}], ["late"])
    for _ in range(2):  # saved twice it is the same
        store(tmp_path / "runs" / "table1_minilm", tmp_path)
        saved = json.loads((tmp_path / "papers" / "table1_minilm.json").read_text())
        (row,) = saved["table"]["rows"]
        assert [cell["mean"] for cell in row["cells"]] == [1.0, 2.0]
        assert saved["table"]["notes"] == ["late", "early"]
        assert saved["source"]["command"].endswith("runs/hire_minilm runs/hire_minilm_5")
        assert saved["source"]["commits"] == ["abc1234", "def5678"]
        assert saved["source"]["runs"] == 2 and saved["source"]["minutes"] == 4
    # measured again, a column is the new one alone, and nothing is left of the old runs
    write_run(tmp_path / first, "fff9999")
    write_table(tmp_path, [{"runs": [first], "mean": 3.0}, {"printed": 90.9}])
    store(tmp_path / "runs" / "table1_minilm", tmp_path)
    saved = json.loads((tmp_path / "papers" / "table1_minilm.json").read_text())
    assert [cell["mean"] for cell in saved["table"]["rows"][0]["cells"]] == [3.0, 2.0]
    assert saved["source"]["commits"] == ["def5678", "fff9999"]


def write_run(run, revision):
    run.mkdir(parents=True)
    report = {"git_revision": revision, "wall_time_s": 120.0}
    (run / "report.json").write_text(json.dumps(report))
    (run / "config.yaml").write_text("encoder: {kernels: compiled}\n")


def write_table(directory, cells, notes=()):
    """A paper's table of one row, as `table` leaves it."""
    rows = [{"name": "hire", "cells": cells}]
    table = {"columns": [{}] * len(cells), "rows": rows, "averages": [], "notes": [*notes]}
    target = directory / "runs" / "table1_minilm"
    target.mkdir(parents=True, exist_ok=True)
    (target / "paper.json").write_text(json.dumps(table))
    return table


def test_a_task_of_a_grid_is_saved_under_both_names(tmp_path):
    grid = tmp_path / "runs" / "minilm_rate"
    run = "runs/minilm_rate/cells/cola-rate_1e-4-hire/seed-11"
    (tmp_path / run).mkdir(parents=True)
    report = {"git_revision": "abc1234", "wall_time_s": 120.0}
    (tmp_path / run / "report.json").write_text(json.dumps(report))
    config = ROOT / "configs" / "hire" / "minilm_rate.yaml"
    asked = load_grid(config, ["data_dir=/data", "encoder.kernels=compiled"])
    (grid / "grid.yaml").write_text(dump_yaml(asked.resolved))
    (grid / "tasks" / "cola").mkdir(parents=True)
    found = {"groups": [{"name": "rate_1e-4-hire", "runs": [run]}]}
    (grid / "tasks" / "cola" / "comparison.json").write_text(json.dumps(found))
    store(grid / "tasks" / "cola", tmp_path)
    saved = json.loads((tmp_path / "grids" / "minilm_rate_cola.json").read_text())
    command = "ablate configs/hire/minilm_rate.yaml data_dir=DIR encoder.kernels=compiled"
    assert saved["source"]["command"] == f"python run_multitask.py {command}"
    assert saved["source"]["runs"] == 1 and saved["groups"] == found["groups"]


def test_the_conflict_of_several_seeds(monkeypatch):
    def report(mean, below, measured):
        return {"conflict": {"a-b": {"mean": mean, "below_0": below, "measured": measured}}}

    found = {"joint": [report(0.1, 0.5, 10), report(-0.1, 1.0, 30)]}
    monkeypatch.setattr(run_tables, "load_reports", lambda: found)
    assert "| a-b | 0.000 ± 0.141 | 88 % | 40 |" in run_tables.conflict("joint")
    assert run_tables.conflict("other") is None


def test_importance_is_saved_without_examples_and_shown_by_length(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tables, "IMPORTANCE", tmp_path / "importance")
    run = "runs/attention"
    (tmp_path / run).mkdir(parents=True)
    report = {"git_revision": "abc1234", "wall_time_s": 120.0}
    (tmp_path / run / "report.json").write_text(json.dumps(report))
    entry = {
        "run": run,
        "task": "sts",
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
    assert not {"texts", "weights"} & set(saved)
    table = run_tables.importance("layers")
    assert "| attention | sts | all 1,000 | - | 0.250 | 0.750 |" in table
    assert "| attention | sts | at most 12 tokens | - | 0.200 | 0.800 |" in table
    assert "| attention | sts | longer | - | 0.300 | 0.700 |" in table
    assert "`python run_multitask.py importance runs/attention --task sts`, commit abc1234" in table


def test_lines_of_several_written_files_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(text_excerpts, "WRITTEN", tmp_path / "written")
    (tmp_path / "written").mkdir()
    for name, value in (("a", 1), ("b", 2)):
        text = f"# STS: runs/{name}-1, mean pooling\n\n|  | x | y |\n| --- | --- | --- |\n"
        text += f"| all | {value} | 5 |\n| mean | {value + 5} | 6 |\n\n- a note\n\n## More\n\n"
        text += f"    python run_multitask.py sts runs/{name}-1 --data /d/sts --output /o\n\n"
        (tmp_path / "written" / f"{name}.md").write_text(f"{text}git revision: abc123{value}\n")
    assert text_excerpts.lines("a,b").splitlines() == [
        "| all | x | y |",
        "| --- | --- | --- |",
        "| a-1, mean pooling | 1 | 5 |",
        "| b-1, mean pooling | 2 | 5 |",
        "",
        "- `python run_multitask.py sts runs/a-1 --data sts`, commit abc1231",
        "- `python run_multitask.py sts runs/b-1 --data sts`, commit abc1232",
    ]
    assert "| b-1, mean pooling | 7 | 6 |" in text_excerpts.lines("b/2")
    assert text_excerpts.lines("a,missing") is None


def test_groups_in_twos_are_tested_over_their_seeds():
    """By the formula: mean of the differences, Student's t with four degrees of freedom."""
    saved = json.loads((grid_tables.GRIDS / "smart_pooling.json").read_text())
    scores = [group["tasks"]["sts"]["values"] for group in saved["groups"][-2:]]
    gains = [after - before for before, after in zip(*scores, strict=True)]
    mean, error = statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(5)
    line = grid_tables.paired("smart_pooling").splitlines()[-1]
    low, high = mean - 2.776445 * error, mean + 2.776445 * error
    assert line.startswith("| all\\_max-smart - all\\_max-plain |")
    assert f"| {mean:+.3f} [{low:+.3f}, {high:+.3f}] p " in line
