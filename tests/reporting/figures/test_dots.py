"""Figures of scores as dots: comparisons, papers' tables, searches."""

from pathlib import Path

import numpy as np
import pytest

from multitask.config.yaml_merge import load_extended
from multitask.reporting.figures import dots, style
from multitask.reporting.figures.dots import (
    draw_gains,
    draw_history,
    draw_importance,
    draw_paper_table,
    draw_scores,
)
from multitask.reporting.layout import load_layout
from multitask.reporting.sheet import MEAN
from tests.conftest import ROOT
from tests.support.figure_rules import faults

pytestmark = pytest.mark.usefixtures("no_warnings")


def entry(mean, **changes):
    result = {"values": [mean - 0.01, mean + 0.01], "mean": mean, "low": mean - 0.03,
             "high": mean + 0.02, "best": False, "sd": 0.01}  # fmt: skip
    return result | changes


def made(groups, tasks=("sst", "sts")):
    """A comparison of so many groups, the first being the baseline."""
    titles = {task: {"title": f"{task} macro_f1", "task": task} for task in tasks}
    cells = [{t: entry(0.5 + i / 100) for t in (*tasks, MEAN)} for i in range(groups)]
    return {
        "paper": None, "statistic": "mean", "baseline": "group 0",
        "columns": {**titles, MEAN: {"title": "mean"}},
        "rows": [
            {"name": f"group {i}", "title": f"group {i}", "cells": of} for i, of in enumerate(cells)
        ],
    }  # fmt: skip


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}


def test_each_panel_shows_seeds_means_intervals_and_the_baseline():
    comparison = made(3)
    comparison["rows"][2]["cells"]["sts"]["best"] = True
    drawn = panels(draw_scores(comparison))
    assert list(drawn) == ["sst macro_f1", "sts macro_f1", "mean"]
    axes = drawn["sts macro_f1"]
    lines = {}
    for line in axes.lines:
        lines.setdefault(line.get_label(), []).append(np.array(line.get_xdata()).ravel().tolist())
    assert lines["one seed"] == [pytest.approx([0.49, 0.51, 0.5, 0.52, 0.51, 0.53])]
    assert lines["mean"] == [[0.5, 0.51]] and lines["best mean"] == [[0.52]]
    assert lines["mean of the baseline (bold name)"] == [[0.5, 0.5]]
    bars = lines["95 % interval of the mean"]
    assert bars == [pytest.approx([m - 0.03, m + 0.02]) for m in (0.5, 0.51, 0.52)]
    assert axes.yaxis_inverted()  # the first group on top


def test_missing_and_undefined_scores_are_gaps():
    comparison = made(3)
    del comparison["rows"][1]["cells"]["sst"]
    del comparison["rows"][1]["cells"][MEAN]
    undefined = {"mean": None, "low": None, "high": None, "values": [None, 0.4]}
    comparison["rows"][0]["cells"]["sst"] |= undefined
    figure = draw_scores(comparison)
    axes = panels(figure)["sst macro_f1"]
    shown = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert shown["one seed"] == [0, 2, 2] and shown["mean"] == [2]
    assert "mean of the baseline (bold name)" not in shown


@pytest.mark.parametrize(("groups", "tasks"), [(1, 1), (2, 3), (27, 3), (5, 9)])
def test_any_number_of_groups_and_tasks_fits(groups, tasks, tmp_path):
    comparison = made(groups, [f"task_{i}" for i in range(tasks)])
    for row, end in zip(comparison["rows"], "bc", strict=False):  # cut, and told apart
        row["title"] = "a name with $ signs $ " * 6 + end
    figure = draw_scores(comparison)
    assert len(panels(figure)) == tasks + 1
    figure.savefig(tmp_path / "figure.png", dpi=40)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(set(names)) == groups and max(map(len, names[0].splitlines())) < 60
    assert r" \$ " in names[0] and r"\\$" not in names[0]


SIZES = {"cola": 8551, "mrpc": 3668, "sst2": 67349, "rte": 2490, "wnli": 635}
SIZES |= {"sst5": 8544, "stsb_course": 6040}
LAYOUTS = [
    file
    for file in sorted((ROOT / "configs").rglob("*.yaml"))
    if "columns" in load_extended(file).value
]


def table(file: Path | str) -> dict:
    """The layout's table with made-up runs: column i gains i / 10 + the row's number points."""
    if isinstance(file, str):
        file = ROOT / "configs" / "maxpoolbert" / f"{file}.yaml"
    layout = load_layout(file)
    rows = []
    names = {key: row.title or key for key, row in layout.rows.items()} or {"a": "a", "b": "b"}
    baseline = layout.baseline or next(iter(names))
    for number, (key, title) in enumerate(names.items()):
        cells = {}
        printed = layout.rows[key].printed if key in layout.rows else []
        for place, column in enumerate(layout.columns):
            if column.mean:
                continue
            value = place / 10 + number
            size = SIZES.get(column.task, 1000)
            size = int(column.cells.removeprefix("rows_")) if column.cells else size
            gain = {"value": value, "low": value - 1, "high": value + 2, "p_holm": 0.01}
            gain = None if key == baseline else gain
            cells[column.title] = {
                "values": [50.0 + number, 51.0 + number], "mean": 50.5, "sd": 0.5, "median": 50.9,
                "printed": printed[place] if printed else None,
                "train_rows": size, "difference": gain,
            }  # fmt: skip
        rows.append({"name": key, "title": title, "cells": cells})
    for row in rows:
        row["baseline"] = None if row["name"] == baseline else baseline
    return {
        "title": layout.title, "paper": {"source": "made up"}, "statistic": layout.statistic,
        "curve": layout.curve,
        "baseline": baseline, "rows": rows,
        "columns": {column.title: column.model_dump() for column in layout.columns},
    }  # fmt: skip


def lines(figure) -> dict[str, tuple[list[float], list[float]]]:
    (axes,) = figure.axes
    return {
        container.get_label(): (list(container[0].get_xdata()), list(container[0].get_ydata()))
        for container in axes.containers
    }


def marks(axes, label) -> list[tuple[float, float]]:
    """Score and row of each mark with this label in the legend."""
    found = [line for line in axes.lines if line.get_label() == label]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in found]


@pytest.mark.parametrize("file", LAYOUTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_figures_of_every_layout_can_be_read(file, tmp_path, monkeypatch):
    """The names of the rows are distinct, and panels are high enough."""
    saved = []
    monkeypatch.setattr(style, "save_figure", lambda figure, path: saved.append(figure))
    made = table(file)
    draw_paper_table(tmp_path, made)
    titles = [style.wrapped(row["title"], dots.NAME) for row in made["rows"]]
    assert len(set(titles)) == len(made["rows"])
    for figure in saved:
        assert not faults(figure)
        shown = figure.axes
        enough = (
            1 if made["curve"] and figure is saved[0] else 0.15 * len(shown[0].get_yticks())
        )  # inch
        for axes in shown:
            assert axes.get_position().height * figure.get_figheight() > enough
        labels = {text.get_text() for text in shown[0].get_yticklabels()}
        if figure is saved[0]:
            across = {text.get_text() for text in shown[0].get_xticklabels()}
            assert set(titles) <= labels | across
        elif not any(column["cells"] for column in made["columns"].values()):
            base = next(row["title"] for row in made["rows"] if row["name"] == made["baseline"])
            assert set(titles) - labels == {style.wrapped(base, dots.NAME)}


def test_columns_of_sizes_are_a_line_for_each_task():
    made = table("size_table")
    drawn = lines(figure := draw_gains(made))
    assert list(drawn) == [f"Max_Seq+MHA, {task}" for task in ("cola", "mrpc", "rte", "sst2")]
    for sizes, _ in drawn.values():
        assert sizes == pytest.approx([0, 1, 2, 3], abs=0.4)
    assert drawn["Max_Seq+MHA, mrpc"][1] == pytest.approx([1.4, 1.5, 1.6, 1.7])
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["250", "500", "1,000", "2,000"]


def test_other_columns_are_a_panel_each_the_smallest_training_set_first(tmp_path: Path):
    made = table("table2_minilm")
    figure = draw_gains(made)
    titles = [axes.get_title().split("\n") for axes in figure.axes]
    assert titles[0] == ["WNLI Acc.", "635 training rows"] and titles[-1][0] == "SST-2 Acc."
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [row["title"] for row in made["rows"][1:]]
    wnli = next(n for n, name in enumerate(made["columns"]) if name.startswith("WNLI"))
    expected = [(number + wnli / 10, number - 1) for number in range(1, 6)]
    np.testing.assert_allclose(marks(figure.axes[0], "significant"), expected)
    for file in draw_paper_table(tmp_path, made):
        assert file.stat().st_size > 5000


def test_a_difference_that_is_not_significant_has_an_open_mark():
    made = table("table2_minilm")
    made["rows"][1]["cells"]["WNLI Acc."]["difference"]["p_holm"] = 0.2
    axes = draw_gains(made).axes[0]
    assert [row for _, row in marks(axes, "not significant")] == [0]
    assert [row for _, row in marks(axes, "significant")] == [1, 2, 3, 4]


def test_a_long_interval_runs_out_and_an_arrow_says_so():
    made = table("table2_minilm")
    made["rows"][5]["cells"]["WNLI Acc."]["difference"]["high"] = 90
    figure = draw_gains(made)
    (arrow,) = marks(figure.axes[0], "the interval goes on")
    limits = {axes.get_xlim() for axes in figure.axes}
    assert limits == {figure.axes[0].get_xlim()} and max(limits)[1] < 12
    assert arrow == pytest.approx((max(limits)[1], 4))
    assert not any(marks(axes, "the interval goes on") for axes in figure.axes[1:])


def test_the_differences_of_a_comparison_are_in_points():
    comparison = made(2)
    for row in comparison["rows"]:
        row["baseline"] = None if row["name"] == "group 0" else "group 0"
    gain = {"value": 0.02, "low": 0.01, "high": 0.03, "p_holm": 0.01}
    comparison["rows"][1]["cells"]["sst"]["difference"] = gain
    figure = draw_gains(comparison)
    assert marks(figure.axes[0], "significant") == [(pytest.approx(2), 0)]
    assert [axes.get_title() for axes in figure.axes] == ["sst macro_f1"]


def test_the_papers_gain_is_a_cross_in_the_row_of_ours():
    figure = draw_gains(table("table7_minilm"))
    assert "to k = 1, in points" in figure.get_suptitle()
    # k = 3 of MaxPoolBERT's Table 7: MCC 55.35 - 54.85, accuracy 85.95 - 83.58, RTE 66.06 - 63.18
    printed = {axes.get_title().split("\n")[0]: marks(axes, "paper")[1] for axes in figure.axes}
    assert printed["CoLA MCC"] == pytest.approx((0.5, 1))
    assert printed["MRPC Acc."] == pytest.approx((2.37, 1))
    assert printed["RTE Acc."] == pytest.approx((2.88, 1))


def points(figure) -> dict[str, list[float]]:
    """The scores in the first panel by the label of their mark."""
    return {line.get_label(): list(line.get_xdata()) for line in figure.axes[0].lines}


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_scores_are_drawn_at_what_the_table_shows(statistic):
    drawn = points(draw_scores(table("table2_minilm") | {"statistic": statistic}))
    assert set(drawn[f"ours: {statistic}"]) == {50.9 if statistic == "median" else 50.5}


def test_a_table_of_deviations_shows_these_alone(tmp_path):
    made = table("table3")
    figure = draw_scores(made)
    drawn = points(figure)
    assert list(drawn) == ["ours: sd", "paper"] and set(drawn["ours: sd"]) == {0.5}
    assert drawn["paper"] == [6.34, 4.55, 4.3, 4.22, 4.22]  # CoLA
    assert [file.name for file in draw_paper_table(tmp_path, made)] == ["paper_scores.png"]


def test_the_panels_of_scores_span_the_same_number_of_points():
    figure = draw_scores(table("table2_minilm"))
    spans = [np.ptp(axes.get_xlim()) for axes in figure.axes]
    assert spans == pytest.approx([spans[0]] * 8)


def test_no_axis_passes_a_full_score():
    made = table("table2_minilm")
    cell = made["rows"][1]["cells"]["CoLA MCC"]
    cell |= {"values": [99.0, 99.5], "mean": 99.25, "printed": 99.8}
    for row in made["rows"]:
        row["cells"]["MRPC F1"] |= {"mean": 98.0, "values": [97.0, 99.0], "printed": 98.0}
    assert all(axes.get_xlim()[1] <= 100 for axes in draw_scores(made).axes)


def test_a_curve_and_the_papers_are_each_above_their_own_baseline():
    made = table("table7_minilm")
    made["rows"][2]["cells"]["CoLA MCC"] |= {"mean": 51.5, "values": [51.0, 52.0]}
    axes = draw_scores(made).axes[0]
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert axes.get_ylabel() == "points above k = 1"
    assert drawn["ours: mean"] == pytest.approx([0, 0, 1, 0, 0])
    assert drawn["paper"] == pytest.approx([0, 0.91, 0.5, 1.57, 0.8])
    assert drawn["one seed"][4:6] == pytest.approx([0.5, 1.5])


def test_the_history_shows_each_score_and_the_best_so_far():
    figure = draw_history({"mean": {0: 0.5, 2: 0.4, 3: 0.7}}, [1])
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["best so far"].get_ydata(), [0.5, 0.5, 0.7])
    np.testing.assert_allclose(lines["a finished trial"].get_xdata(), [0, 2, 3])
    np.testing.assert_allclose(lines["best trial"].get_xdata(), [3])
    np.testing.assert_allclose(lines["pruned (no score)"].get_xdata(), [1])


def test_importances_are_bars_in_one_order_for_all_objectives():
    figure = draw_importance({"sst": {"lr": 0.8, "costs $5": 0.2}, "qqp": {"costs $5": 1.0}})
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["lr", r"costs \$5"]
    assert [bar.get_width() for bar in first.patches] == [0.8, 0.2]
    assert [bar.get_width() for bar in second.patches] == [0.0, 1.0]
