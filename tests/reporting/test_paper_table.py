"""A paper's table: the averages give what the papers print, the cells what the runs say."""

import csv
import io
import json
import shutil
import statistics
from pathlib import Path

import pytest

from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.figures.dots import draw_gains, draw_paper_table
from multitask.reporting.layout import Layout, load_layout
from multitask.reporting.paper_table import average, paper_table
from multitask.reporting.read_runs import Group
from multitask.reporting.statistics import sd_ratio
from multitask.reporting.write_sheet import write_sheet
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.fabricated_run import edited, write_run
from tests.support.run_files import report_of


@pytest.mark.parametrize(
    ("file", "row", "printed"),
    [
        ("table2", "cls", 79.63),
        ("table2", "max_cls", 80.02),
        ("table2", "mha", 80.76),
        ("table2", "max_seq_mha", 80.85),
        ("table2", "mean_seq_mha", 80.75),
        ("table6", "max_seq_mha", 82.6),
    ],
)
def test_the_mean_of_the_columns_is_what_maxpoolbert_prints(file, row, printed):
    layout = load_layout(ROOT / "configs" / "maxpoolbert" / f"{file}.yaml")
    both = list(zip(layout.columns, layout.rows[row].printed, strict=True))
    assert [value for column, value in both if column.mean == "columns"] == [printed]
    values = [value for column, value in both if not column.mean and value is not None]
    assert len(values) == 12
    assert average(range(len(values)), values) == pytest.approx(printed, abs=0.015)


@pytest.mark.parametrize(
    ("values", "printed"),
    [  # HIRE's Table 2: CoLA, SST-2, MRPC F1/acc, QQP F1/acc, STS-B P/S, MNLI m/mm, QNLI, RTE, WNLI
        ("60.5 94.9 89.3 85.4 72.1 89.3 87.6 86.5 86.7 85.9 92.7 70.1 65.1", 80.5),
        ("68.4 96.5 92.7 90.3 73.7 89.9 91.1 90.7 87.9 87.4 96.0 86.3 89.0", 87.6),
        ("67.8 96.7 92.3 89.8 74.3 90.2 92.2 91.9 90.8 90.2 95.4 88.2 89.0", 88.1),
        ("68.6 97.1 93.0 90.7 74.3 90.2 92.4 92.0 90.7 90.4 95.5 87.9 89.0", 88.3),
    ],
)
def test_the_official_average_is_the_servers_score(values, printed):
    tasks = "cola sst mrpc mrpc qqp qqp sts sts mnli mnli qnli rte wnli".split()
    assert average(tasks, [*map(float, values.split())]) == pytest.approx(printed, abs=0.06)


def test_the_glue_layout_has_nine_tasks():
    by_task = {}
    for column in load_layout(ROOT / "configs" / "glue" / "table.yaml").columns:
        if not column.mean:
            by_task.setdefault(column.of or column.task, []).append(column.metric)
    assert len(by_task) == 9
    assert {task: sorted(names) for task, names in by_task.items() if len(names) > 1} == {
        "mrpc": ["accuracy", "f1"],
        "qqp": ["accuracy", "f1"],
        "stsb": ["pearson", "spearman"],
        "mnli": ["accuracy", "accuracy"],
    }
    assert average(["cola"], [None]) is None


LAYOUT = {
    "title": "A | table",
    "baseline": "base",
    "columns": [
        {"title": "SST", "task": "sst", "metric": "accuracy"},
        {"title": "Para", "task": "para", "metric": "accuracy"},
        {"title": "Para $F1$", "task": "para", "metric": "f1"},
        {"title": "mean", "mean": "columns"},
        {"title": "by task", "mean": "tasks"},
        {"title": "STS", "task": "sts", "metric": "spearman"},
    ],
    "rows": {
        "base": {"printed": [50.0, 60.0, 70.0, None, None, None]},
        "good": {"title": "Good & new"},
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, list[list[Path]]]:
    """`base` and `good` with three seeds on sst, and on para and sts; `good` lacks sts."""
    root = tmp_path_factory.mktemp("runs")
    result: dict[str, list[list[Path]]] = {}
    for name, noise, second in (("base", 0.4, ("para", "sts")), ("good", 0.1, ("para",))):
        sets = []
        for only in (("sst",), second):
            sets.append([root / f"{name}-{only[0]}-{seed}" for seed in (1, 2, 3)])
            for seed, run in enumerate(sets[-1], 1):
                write_run(run, rows=80, seed=seed, noise=noise, only=only)
                times = {"epoch_seconds": 10.0 * seed * (1 + (name == "good"))}
                times["dev_seconds"] = dict.fromkeys(only, 0.5)
                edited(run, lambda report, times=times: report.update(times))
        result[name] = sets
    return result


SCORED = [column for column in LAYOUT["columns"] if "task" in column]


def made(runs, **changes):
    return paper_table(Layout.model_validate({**LAYOUT, **changes}), runs, resamples=100)


@pytest.mark.parametrize("statistic", ["mean", "median", "sd"])
def test_cells_hold_the_statistic_of_the_reports_in_percent(runs, statistic):
    table = made(runs, statistic=statistic)
    ways = {"mean": statistics.fmean, "median": statistics.median, "sd": statistics.stdev}
    for row, name in zip(table["rows"], ("base", "good"), strict=True):
        for column in SCORED:
            cell = row["cells"].get(column["title"])
            trained = [r for r in runs[name] if column["task"] in str(r[0])]
            if column["task"] == "sts":
                trained = runs[name][1:] if name == "base" else []
            if not trained:
                assert cell is None
                continue
            reports = [report_of(run) for run in trained[0]]
            scores = [100 * r["tasks"][column["task"]]["dev"][column["metric"]] for r in reports]
            assert cell["values"] == pytest.approx(scores)
            assert cell[statistic] == pytest.approx(ways[statistic](scores))
            assert cell["train_rows"] == 8544


@pytest.mark.parametrize(("title", "metric"), [("Para", "accuracy"), ("Para $F1$", "f1")])
def test_differences_are_those_of_a_comparison_of_that_metric(runs, tmp_path, title, metric):
    groups = []
    for name, sets in runs.items():
        copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in sets[1]]
        for run in copies:
            edited(run, lambda report: report["tasks"]["para"].update(metric=metric))
        groups.append(Group(name, copies))
    direct = compare(groups, "base", resamples=100)
    wanted = direct["rows"][1]["cells"]["para"]["difference"]
    result = made(runs)["rows"][1]["cells"][title]["difference"]
    assert result["p_holm"] == wanted["p_holm"]
    for key in ("value", "low", "high"):
        assert result[key] == pytest.approx(100 * wanted[key])


def test_a_columns_cells_are_compared_with_the_baseline_among_them(runs):
    labels = ("rows_250", "rows_500")
    sized = {
        f"{label}-{name}": [sets[i]]
        for i, label in enumerate(labels)
        for name, sets in runs.items()
    }
    columns = [{**LAYOUT["columns"][i], "cells": label} for i, label in enumerate(labels)]
    table = made(sized, columns=columns, rows={})
    plain = made(runs, columns=LAYOUT["columns"][:2], rows={})
    assert [row["name"] for row in table["rows"]] == ["base", "good"]
    assert table["rows"][1]["cells"]["Para"]["difference"]["p"] is not None
    assert [row["cells"] for row in table["rows"]] == [row["cells"] for row in plain["rows"]]
    assert "|  | sst rows\\_250 | para rows\\_500 |" in sheet_tables.markdown_text(table)


def test_a_row_is_compared_with_its_own_baseline(runs):
    named = {"a": runs["base"], "b": runs["good"], "c": runs["good"], "d": runs["base"]}
    first = {"a": 50, "b": 51, "c": 40, "d": 44}
    rows = {name: {"printed": [sst, 60, 70, None, None, None]} for name, sst in first.items()}
    rows["c"]["baseline"], rows["d"]["title"] = "d", "D"
    table = made(named, rows=rows, baseline="a")
    assert [row["baseline"] for row in table["rows"]] == [None, "a", "d", None]
    cells = [row["cells"]["SST"] for row in table["rows"]]
    assert cells[0]["difference"] is None and cells[3]["difference"] is None
    assert cells[1]["difference"] == cells[2]["difference"]  # of the same runs
    text = sheet_tables.markdown_text(table)
    assert "Difference to each row's baseline, in points" in text
    assert "| b, to a | paper | +1.00 |" in text and "| c, to D | paper | -4.00 |" in text
    assert "over the column's comparisons with one baseline;" in text
    (first, second) = (i for i, line in enumerate(table["verdicts"]) if "Compared with" in line)
    assert table["verdicts"][first].startswith("Compared with a;")
    assert table["verdicts"][second].startswith("Compared with D;")
    assert "b +" in table["verdicts"][first + 1] and "c +" in table["verdicts"][second + 1]
    assert "of 6 printed differences" in "\n".join(table["verdicts"]).lower()
    figure = draw_gains(table)
    assert "each row's baseline" in figure.get_suptitle()
    assert "c, to D" in [text.get_text() for text in figure.axes[0].get_yticklabels()]


def test_rows_that_were_not_trained_alike_have_their_counts(runs):
    table = made(runs)
    cells = [row["cells"]["SST"] for row in table["rows"]]
    for cell, updates in zip(cells, (1000, 1009), strict=True):
        cell |= {"updates": updates, "trained_rows": 32 * updates}
    assert "Updates" not in sheet_tables.markdown_text(table)
    cells[1] |= {"updates": 3000}
    text = sheet_tables.markdown_text(table)
    assert "## Updates" in text and "Trained rows" not in text
    assert "| Good &amp; new | 3,000 |" in text
    cells[1] |= {"trained_rows": 96000}
    assert "| Good &amp; new | 96,000 |" in sheet_tables.markdown_text(table)


def test_rows_of_two_baselines_were_scored_on_the_same_rows(runs, tmp_path):
    write_run(tmp_path / "short", rows=40, only=("sst",))
    short = [[tmp_path / "short"]]
    rows = {"base": {}, "good": {}, "c": {"baseline": "d"}, "d": {}}
    with pytest.raises(UserError, match=r"sst: .* cannot be compared: other dev rows"):
        made({**runs, "c": short, "d": short}, rows=rows, columns=LAYOUT["columns"][:1])


def test_a_layouts_margin_decides_what_is_called_equal(runs):
    assert "equal within" not in str(made(runs)["verdicts"])
    assert "equal within 100: Good & new" in str(made(runs, margin=100)["verdicts"])


def test_a_mean_is_over_the_columns_before_it(runs):
    table = made(runs)
    assert table["columns"]["mean"]["over"] == ["SST", "Para", "Para $F1$"]
    for row in table["rows"]:
        sst, para, f1 = (row["cells"][title]["mean"] for title in ("SST", "Para", "Para $F1$"))
        assert row["cells"]["mean"]["mean"] == pytest.approx((sst + para + f1) / 3)
        assert row["cells"]["by task"]["mean"] == pytest.approx((sst + (para + f1) / 2) / 2)
    base, good = (row["cells"] for row in table["rows"])
    assert (base["mean"]["printed"], base["by task"]["printed"]) == (60, 57.5)
    assert good["mean"]["printed"] is None


def test_a_printed_mean_is_the_papers_where_every_row_has_its_columns(runs):
    rows = {"base": {"printed": [50.0, 60.0, 70.0, 63.1, None, 80.0]}}
    cells = made(runs, rows=rows)["rows"][0]["cells"]
    assert (cells["mean"]["printed"], cells["by task"]["printed"]) == (63.1, 57.5)
    columns = [{"title": "New", "task": "none", "metric": "f1"}, *LAYOUT["columns"]]
    rows["base"]["printed"].insert(0, 10.0)  # of the others only, as our runs lack this column
    table = made(runs, columns=columns, rows=rows)
    assert table["columns"]["mean"]["title"] == "mean (3 of 4 columns)"
    assert table["rows"][0]["cells"]["mean"]["printed"] == 60.0


def test_a_column_that_the_paper_does_not_print_counts_for_the_mean_of_tasks_alone(runs):
    rows = {"base": {"printed": [50.0, 60.0, None, None, None, None]}}
    table = made(runs, rows=rows)
    assert table["columns"]["mean"]["over"] == ["SST", "Para"]
    assert table["columns"]["by task"]["over"] == ["SST", "Para", "Para $F1$"]
    cells = table["rows"][0]["cells"]
    assert (cells["mean"]["printed"], cells["by task"]["printed"]) == (55.0, None)


@pytest.mark.parametrize("statistic", ["mean", "median", "sd"])
def test_the_means_are_in_the_csv_file(runs, statistic):
    table = made(runs, statistic=statistic)
    lines = list(csv.DictReader(io.StringIO(sheet_tables.csv_text(table))))
    assert len(lines) == 4 + 3 + 2 * 2
    for row in table["rows"]:
        (line,) = (each for each in lines if (each["row"], each["column"]) == (row["name"], "mean"))
        assert float(line[statistic]) == row["cells"]["mean"][statistic]


def test_the_files_hold_the_numbers_and_survive_odd_names(runs, tmp_path):
    table = made(runs)
    files = write_sheet(tmp_path, table)
    endings = [file.suffix for file in files if file.stem == "paper"]
    assert sorted(endings) == [".csv", ".json", ".md", ".tex"]
    page = (tmp_path / "paper.md").read_text()
    cell = table["rows"][1]["cells"]["SST"]
    assert f"{cell['mean']:.2f} ± {cell['sd']:.2f}" in page
    assert "| base | paper | 50.00 | 60.00 | 70.00 | 60.00 | 57.50 | - |" in page
    assert "40.00 (x2.00)" in page and "0.50 (x1.00)" in page
    tex = (tmp_path / "paper.tex").read_text()
    assert r"Good \& new" in tex and r"\$F1\$" in tex
    assert json.loads((tmp_path / "paper.json").read_text()) == table
    assert "mean: SST, Para, Para $F1$; the paper's" in sheet_tables.terminal_page(table)
    for figure in draw_paper_table(tmp_path, {**table, "curve": "k"}):
        assert figure.stat().st_size > 5000


@pytest.mark.parametrize(
    ("column", "baseline", "said"),
    [
        ({"task": "cola", "metric": "mcc"}, None, "they have sst, para, sts"),
        ({"task": "sst", "metric": "accuracy", "cells": "cola"}, None, "no run is of a row"),
        ({"task": "sst", "metric": "accuracy"}, "bse", r"'bse' \(did you mean 'base'\?\)"),
    ],
)
def test_what_no_run_has_is_refused(column, baseline, said, runs):
    with pytest.raises(UserError, match=said):
        made(runs, columns=[{"title": "X", **column}], rows={}, baseline=baseline)


def test_a_note_is_about_all_runs_of_the_table(runs, tmp_path):
    held = {name: [list(map(Path, sets[0])), sets[1]] for name, sets in runs.items()}
    held["good"][0] = [shutil.copytree(run, tmp_path / run.name) for run in runs["good"][0]]
    for run in held["good"][0]:
        edited(run, lambda report: report.update(selection_split="dev"))
    (note,) = [note for note in made(held)["notes"] if "selected on the dev rows" in note]
    assert "every run" not in note and note.endswith("good-sst-3.")


def test_without_runs_of_the_baseline_there_are_scores_and_no_differences(runs):
    table = made({"good": runs["good"]})
    cell = table["rows"][1]["cells"]["SST"]
    assert cell["difference"] is None and cell["mean"] is not None
    assert "Difference" not in sheet_tables.markdown_text(table)


def test_rows_that_the_layout_does_not_name_follow_or_are_left_out(runs):
    named = {"base": LAYOUT["rows"]["base"]}
    assert [row["name"] for row in made(runs, rows=named)["rows"]] == ["base", "good"]
    with pytest.raises(UserError, match="no run is of a row of it; they are good"):
        made({"good": runs["good"]}, rows=named, other_rows=False)
    alone = made(runs, rows=named, other_rows=False)
    assert [row["name"] for row in alone["rows"]] == ["base"]
    assert "good" not in json.dumps(alone)


def test_spreads_have_ratios_with_intervals(runs):
    digits = {"base": {"printed": [6.34, 0.0746, 0.108, None, None, None]}}
    text = sheet_tables.markdown_text(made(runs, statistic="sd", rows=digits))
    assert "| base | paper | 6.34 | 0.0746 | 0.108 |" in text
    printed = {
        "base": {"printed": [4.0, 2.0, 0.5, None, None, None]},
        "good": {"printed": [2.0, 4.0, 0.5, None, None, 1.0]},
    }
    table = made(runs, statistic="sd", rows=printed)
    page = sheet_tables.markdown_text(table)
    base, row = table["rows"]
    assert f"| base | ours | {base['cells']['SST']['sd']:.3g} |" in page
    title = "## Standard deviation, ratio to base: ours [95 % F interval over seeds"
    ratios = page.partition(title)[2]
    assert "| good | paper | 0.50 | 2.00 | 1.00 | - |" in ratios
    ratio = sd_ratio(row["cells"]["SST"]["values"], base["cells"]["SST"]["values"])
    assert "| good | ours | {:.2f} [{:.2f}, {:.2f}] |".format(*ratio) in ratios
    assert title not in sheet_tables.markdown_text(made(runs))
