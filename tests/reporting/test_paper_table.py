"""A paper's table: the averages give what the papers print, the cells what the runs say."""

import csv
import io
import json
import re
import shutil
import statistics
from pathlib import Path

import pytest

from multitask.reporting import paper_table as paper_table_module
from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.figures.dots import draw_gains, draw_paper_table
from multitask.reporting.layout import Column, Layout, load_layout
from multitask.reporting.paper_table import paper_table
from multitask.reporting.read_runs import Group
from multitask.reporting.statistics import sd_ratio
from multitask.reporting.write_sheet import write_paper_table
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.fabricated_run import write_run

GLUE = load_layout(ROOT / "configs" / "glue" / "table.yaml").columns


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
    assert layout.rows[row].average == printed
    both = zip(layout.columns, layout.rows[row].printed, strict=True)
    values = [value for column, value in both if column.averaged is True]
    assert len(values) == 12 and None not in values
    assert paper_table_module.average(range(len(values)), values) == pytest.approx(
        printed, abs=0.015
    )


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
    order = "CoLA SST-2 MRPC-F1 MRPC QQP-F1 QQP STSB-P STSB MNLI MNLI-mm QNLI RTE WNLI".split()
    columns = [
        Column(title=name, task=name, metric="accuracy", of=name.split("-")[0] + name[3:5])
        for name in order
    ]
    tasks = "cola sst mrpc mrpc qqp qqp sts sts mnli mnli qnli rte wnli".split()
    columns = [c.model_copy(update={"of": t}) for c, t in zip(columns, tasks, strict=True)]
    result = paper_table_module.average(
        [c.of or c.task for c in columns], [float(value) for value in values.split()]
    )
    assert result == pytest.approx(printed, abs=0.06)


def test_the_glue_layout_has_nine_tasks():
    assert len({column.of or column.task for column in GLUE}) == 9
    by_task = {}
    for column in GLUE:
        by_task.setdefault(column.of or column.task, []).append(column.metric)
    assert {task: sorted(names) for task, names in by_task.items() if len(names) > 1} == {
        "mrpc": ["accuracy", "f1"],
        "qqp": ["accuracy", "f1"],
        "stsb": ["pearson", "spearman"],
        "mnli": ["accuracy", "accuracy"],
    }
    assert paper_table_module.average(["cola"], [None]) is None


LAYOUT = {
    "title": "A | table",
    "baseline": "base",
    "averages": True,
    "columns": [
        {"title": "SST", "task": "sst", "metric": "accuracy"},
        {"title": "Para", "task": "para", "metric": "accuracy"},
        {"title": "Para $F1$", "task": "para", "metric": "f1"},
        {"title": "STS", "task": "sts", "metric": "spearman", "averaged": False},
    ],
    "rows": {"base": {"printed": [50.0, 60.0, 70.0, None]}, "good": {"title": "Good & new"}},
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
                report = json.loads((run / "report.json").read_text())
                report["epoch_seconds"] = 10.0 * seed * (1 + (name == "good"))
                report["dev_seconds"] = dict.fromkeys(only, 0.5)
                (run / "report.json").write_text(json.dumps(report))
        result[name] = sets
    return result


def made(runs, **changes):
    return paper_table(Layout.model_validate({**LAYOUT, **changes}), runs, resamples=100)


@pytest.mark.parametrize("statistic", ["mean", "median", "sd"])
def test_cells_hold_the_statistic_of_the_reports_in_percent(runs, statistic):
    table = made(runs, statistic=statistic)
    ways = {"mean": statistics.fmean, "median": statistics.median, "sd": statistics.stdev}
    for row, name in zip(table["rows"], ("base", "good"), strict=True):
        for column, cell in zip(LAYOUT["columns"], row["cells"], strict=True):
            trained = [r for r in runs[name] if column["task"] in str(r[0])]
            if column["task"] == "sts":
                trained = runs[name][1:] if name == "base" else []
            if not trained:
                assert cell is None
                continue
            reports = [json.loads((run / "report.json").read_text()) for run in trained[0]]
            scores = [100 * r["tasks"][column["task"]]["dev"][column["metric"]] for r in reports]
            assert cell["values"] == pytest.approx(scores)
            assert cell["shown"] == pytest.approx(ways[statistic](scores))
            assert cell["train_rows"] == 8544


@pytest.mark.parametrize(("place", "metric"), [(1, "accuracy"), (2, "f1")])
def test_differences_are_those_of_a_comparison_of_that_metric(runs, tmp_path, place, metric):
    groups = []
    for name, sets in runs.items():
        copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in sets[1]]
        for run in copies:
            report = json.loads((run / "report.json").read_text())
            report["tasks"]["para"]["metric"] = metric
            (run / "report.json").write_text(json.dumps(report))
        groups.append(Group(name, copies))
    direct = compare(groups, "base", resamples=100)
    wanted = direct["groups"][1]["tasks"]["para"]["difference"]
    result = made(runs)["rows"][1]["cells"][place]["difference"]
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
    assert table["rows"][1]["cells"][1]["difference"]["p"] is not None
    assert [row["cells"] for row in table["rows"]] == [row["cells"] for row in plain["rows"]]
    assert "|  | sst rows\\_250 | para rows\\_500 |" in sheet_tables.paper_markdown(table)


def test_a_row_is_compared_with_its_own_baseline(runs):
    named = {"a": runs["base"], "b": runs["good"], "c": runs["good"], "d": runs["base"]}
    rows = {"a": {"printed": [50, 60, 70, None]}, "b": {"printed": [51, 60, 70, None]}}
    rows |= {"c": {"baseline": "d", "printed": [40, 60, 70, None]}}
    rows |= {"d": {"title": "D", "printed": [44, 60, 70, None]}}
    table = made(named, rows=rows, baseline="a")
    assert [row["baseline"] for row in table["rows"]] == [None, "a", "d", None]
    cells = [row["cells"][0] for row in table["rows"]]
    assert cells[0]["difference"] is None and cells[3]["difference"] is None
    assert cells[1]["difference"] == cells[2]["difference"]  # of the same runs
    text = sheet_tables.paper_markdown(table)
    assert "Difference to each row's baseline, in points" in text
    assert "| b, to a | paper | +1.00 |" in text and "| c, to D | paper | -4.00 |" in text
    assert "Holm's correction over the column's comparisons with one baseline." in text
    (first, second) = (i for i, line in enumerate(table["verdicts"]) if "Compared with" in line)
    assert table["verdicts"][first].startswith("Compared with a;")
    assert table["verdicts"][second].startswith("Compared with D;")
    assert "b +" in table["verdicts"][first + 1] and "c +" in table["verdicts"][second + 1]
    assert "of 6 printed differences" in "\n".join(table["verdicts"]).lower()
    figure = draw_gains(table)
    assert figure.axes[0].get_ylabel().startswith("gain over each row's baseline")
    assert "c, to D" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_rows_that_were_not_trained_alike_have_their_counts(runs):
    table = made(runs)
    cells = [row["cells"][0] for row in table["rows"]]
    for cell, updates in zip(cells, (1000, 1009), strict=True):
        cell |= {"updates": updates, "trained_rows": 32 * updates}
    assert "Updates" not in sheet_tables.paper_markdown(table)
    cells[1] |= {"updates": 3000}
    text = sheet_tables.paper_markdown(table)
    assert "Updates, the mean over seeds" in text and "Trained rows" not in text
    assert "| Good &amp; new | 3,000 |" in text
    cells[1] |= {"trained_rows": 96000}
    assert "| Good &amp; new | 96,000 |" in sheet_tables.paper_markdown(table)


def test_rows_of_two_baselines_were_scored_on_the_same_rows(runs, tmp_path):
    short = [tmp_path / f"short-{seed}" for seed in (1, 2)]
    for seed, run in enumerate(short, 1):
        write_run(run, rows=40, seed=seed, only=("sst",))
    rows = {"base": {}, "good": {}, "c": {"baseline": "d"}, "d": {}}
    named = {**runs, "c": [short], "d": [short]}
    with pytest.raises(UserError, match=r"sst: .* cannot be compared: other dev rows"):
        made(named, rows=rows, columns=LAYOUT["columns"][:1])


def test_a_layouts_margin_decides_what_is_called_equal(runs):
    assert "equal within" not in str(made(runs)["verdicts"])
    assert "equal within 100: Good & new" in str(made(runs, margin=100)["verdicts"])


def test_averages_are_over_the_columns_that_every_row_has(runs):
    table = made(runs)
    columns, official = table["averages"]
    assert columns["columns"] == ["SST", "Para", "Para $F1$"]
    assert columns["title"] == "mean of 3 of 3 columns"
    assert official["title"] == "mean over 2 tasks, not GLUE's own average"
    for row in table["rows"]:
        sst, para, f1 = (cell["shown"] for cell in row["cells"][:3])
        assert columns["values"][row["name"]] == pytest.approx((sst + para + f1) / 3)
        assert official["values"][row["name"]] == pytest.approx((sst + (para + f1) / 2) / 2)
    assert columns["printed"]["base"] == pytest.approx(60)
    assert official["printed"] == {"base": pytest.approx(57.5), "good": None}


def test_the_printed_average_is_the_papers_where_it_is_over_all_of_its_columns(runs):
    rows = {"base": {"printed": [50.0, 60.0, 70.0, 80.0], "average": 63.1}}
    paper, official = made(runs, rows=rows, averages="GLUE avg.")["averages"]
    assert paper["printed"] == {"base": 63.1} and official["printed"] == {"base": 57.5}
    paper, official = made(runs, rows=rows)["averages"]
    assert paper["printed"] == {"base": 60.0} and official["printed"] == {"base": 63.1}
    columns = [*LAYOUT["columns"], {"title": "New", "task": "none", "metric": "f1"}]
    rows["base"]["printed"].append(10.0)  # of the others only, as our runs lack this column
    (paper, _) = made(runs, columns=columns, rows=rows, averages="GLUE avg.")["averages"]
    assert paper["printed"] == {"base": 60.0}


def test_a_column_of_the_official_average_alone_leaves_the_papers_as_it_is(runs):
    columns = [*LAYOUT["columns"][:2], {**LAYOUT["columns"][2], "averaged": "official"}]
    rows = {"base": {"printed": [50.0, 60.0, None]}}
    paper, official = made(runs, columns=columns, rows=rows, averages="GLUE avg.")["averages"]
    assert paper["title"] == "GLUE avg. (mean of 2 of 2 columns)"
    assert paper["columns"] == ["SST", "Para"] and paper["printed"] == {"base": 55.0}
    assert official["columns"] == ["SST", "Para", "Para $F1$"]
    assert official["printed"] == {"base": None}


@pytest.mark.parametrize("statistic", ["mean", "median", "sd"])
def test_the_averages_stand_in_the_csv_file(runs, statistic):
    table = made(runs, statistic=statistic)
    lines = list(csv.DictReader(io.StringIO(sheet_tables.paper_csv(table))))
    assert len(lines) == 4 + 3 + 2 * 2
    for average in table["averages"]:
        result = {line["row"]: line for line in lines if line["column"] == average["title"]}
        for name in ("base", "good"):
            assert float(result[name][statistic]) == average["values"][name]
            printed = average["printed"][name]
            assert result[name]["printed"] == ("" if printed is None else str(printed))


def test_differences_of_more_columns_than_rows_are_turned_in_latex(runs):
    tex = sheet_tables.paper_latex(made(runs))
    block = tex.partition("Difference to base")[2].partition(r"\end{adjustbox}")[0]
    assert r"& Good \& new, ours" in block and r"Para \$F1\$ &" in block
    two = made(runs, columns=LAYOUT["columns"][:1], rows={})
    block = sheet_tables.paper_latex(two).partition("Difference to base")[2]
    assert "good & ours &" in block
    assert tex.count(r"\begin{adjustbox}{max width=\textwidth}") == 4


def test_the_files_hold_the_numbers_and_survive_odd_names(runs, tmp_path):
    table = made(runs)
    files = write_paper_table(tmp_path, table)
    assert {file.name for file in files} == {"paper.md", "paper.csv", "paper.tex", "paper.json"}
    page = (tmp_path / "paper.md").read_text()
    cell = table["rows"][1]["cells"][0]
    assert f"{cell['mean']:.2f} ± {cell['sd']:.2f}" in page
    assert "| base | paper | 50.00 | 60.00 | 70.00 | - | 60.00 | 57.50 |" in page
    assert "40.00 (x2.00)" in page and "0.50 (x1.00)" in page
    tex = (tmp_path / "paper.tex").read_text()
    assert r"Good \& new" in tex and r"\$F1\$" in tex
    assert json.loads((tmp_path / "paper.json").read_text()) == table
    assert "mean of 3 of 3 columns" in sheet_tables.paper_text(table)
    for figure in draw_paper_table(tmp_path, {**table, "curve": "k"}):
        assert figure.stat().st_size > 5000


def test_runs_of_other_tasks_are_refused(runs):
    columns = [{"title": "X", "task": "cola", "metric": "mcc"}]
    with pytest.raises(UserError, match="no run has a column's task; they have sst, para, sts"):
        made(runs, columns=columns, rows={}, baseline=None)


def test_a_baseline_that_is_no_row_and_columns_without_cells_are_refused(runs):
    with pytest.raises(UserError, match=r"no row 'bse' \(did you mean 'base'\?\)"):
        made(runs, rows={}, baseline="bse")
    columns = [{"title": "X", "task": "sst", "metric": "accuracy", "cells": "cola"}]
    with pytest.raises(UserError, match="no run is of a cell cola-"):
        made(runs, columns=columns, rows={}, baseline=None)


def test_a_note_is_about_all_runs_of_the_table(runs, tmp_path):
    held = {name: [list(map(Path, sets[0])), sets[1]] for name, sets in runs.items()}
    held["good"][0] = [shutil.copytree(run, tmp_path / run.name) for run in runs["good"][0]]
    for run in held["good"][0]:
        report = json.loads((run / "report.json").read_text())
        (run / "report.json").write_text(json.dumps(report | {"selection_split": "dev"}))
    (note,) = [note for note in made(held)["notes"] if "selected on the dev rows" in note]
    assert "every run" not in note and note.endswith("good-sst-3.")


def test_without_runs_of_the_baseline_there_are_scores_and_no_differences(runs):
    table = made({"good": runs["good"]})
    assert table["rows"][1]["cells"][0]["difference"] is None
    assert table["rows"][1]["cells"][0]["shown"] is not None
    assert "Difference" not in sheet_tables.paper_markdown(table)


def test_rows_that_the_layout_does_not_name_follow_or_are_left_out(runs):
    named = {"base": LAYOUT["rows"]["base"]}
    assert [row["name"] for row in made(runs, rows=named)["rows"]] == ["base", "good"]
    with pytest.raises(UserError, match="no run is of a row of it; they are good"):
        made({"good": runs["good"]}, rows=named, other_rows=False)
    alone = made(runs, rows=named, other_rows=False)
    assert [row["name"] for row in alone["rows"]] == ["base"]
    assert "good" not in json.dumps(alone)


@pytest.mark.parametrize(
    ("tasks", "title"),
    [
        (["mrpc accuracy", "mrpc f1", "mnli accuracy", "mnli_mm accuracy"], "official average, 2"),
        (["cola mcc", "rte accuracy"], "official average, 2 of 9 tasks"),
        (["cola mcc", "stsb spearman"], "mean over 2 tasks, not GLUE's own"),
        (["cola mcc", "mnli accuracy"], "mean over 2 tasks, not GLUE's own"),
        (["cola accuracy", "rte accuracy"], "mean over 2 tasks, not GLUE's own"),
        (["cola mcc", "sst5 accuracy"], "mean over 2 tasks, not GLUE's own"),
    ],
)
def test_the_official_average_has_all_metrics_of_a_task(tasks, title):
    columns = [
        Column(
            title=name, task=name.split()[0], metric=name.split()[1], of=re.split("[ _]", name)[0]
        )
        for name in tasks
    ]
    assert paper_table_module._official_title(columns).startswith(title)


def test_spreads_keep_their_digits(runs):
    small = {"base": {"printed": [6.34, 0.0746, 0.108, None]}}
    table = made(runs, statistic="sd", rows=small)
    assert "| base | paper | 6.34 | 0.0746 | 0.108 | - |" in sheet_tables.paper_markdown(table)
    spread = table["rows"][0]["cells"][0]["sd"]
    assert f"| base | ours | {spread:.3g} |" in sheet_tables.paper_markdown(table)


def test_spreads_have_ratios_with_intervals(runs):
    printed = {
        "base": {"printed": [4.0, 2.0, 0.5, None]},
        "good": {"printed": [2.0, 4.0, 0.5, 1.0]},
    }
    table = made(runs, statistic="sd", rows=printed)
    page = sheet_tables.paper_markdown(table)
    row = next(row for row in table["rows"] if row["name"] == "good")
    title = "## Standard deviation, ratio to base: ours [95 % F interval over seeds"
    ratios = page.partition(title)[2]
    assert "| good | paper | 0.50 | 2.00 | 1.00 | - |" in ratios
    first = sd_ratio(row["cells"][0]["values"], table["rows"][0]["cells"][0]["values"])
    assert f"| good | ours | {first.value:.2f} [{first.low:.2f}, {first.high:.2f}] |" in ratios
    assert title not in sheet_tables.paper_markdown(made(runs))
