"""The gain by training size: a line a task where the columns are sizes, else a point a task."""

from pathlib import Path

import pytest

from multitask.reporting.paper.layout import load_layout
from multitask.reporting.paper.paper_figures import draw_gains, draw_paper_table, draw_scores
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("no_warnings")

SIZES = {"cola": 8551, "mrpc": 3668, "sst2": 67349, "rte": 2490, "wnli": 635}
SIZES |= {"sst5": 8544, "stsb_course": 6040}


def table(name: str) -> dict:
    """The layout's table with made-up runs: column i gains i / 10 + the row's number points."""
    layout = load_layout(ROOT / "configs" / "maxpoolbert" / f"{name}.yaml")
    rows = []
    for number, (key, row) in enumerate(layout.rows.items()):
        cells = []
        for place, column in enumerate(layout.columns):
            value = place / 10 + number
            size = int(column.cells.removeprefix("rows_")) if column.cells else SIZES[column.task]
            gain = {"value": value, "low": value - 1, "high": value + 2} if number else None
            cells.append(
                {"values": [50.0, 51.0], "mean": 50.5, "sd": 0.5, "printed": None,
                 "train_rows": size, "difference": gain}
            )  # fmt: skip
        rows.append({"name": key, "title": row.title, "cells": cells})
    return {
        "title": layout.title, "statistic": "mean", "curve": layout.curve,
        "baseline_title": "[CLS]", "rows": rows,
        "columns": [column.model_dump() for column in layout.columns],
    }  # fmt: skip


def lines(figure) -> dict[str, tuple[list[float], list[float]]]:
    (axes,) = figure.axes
    return {
        container.get_label(): (list(container[0].get_xdata()), list(container[0].get_ydata()))
        for container in axes.containers
    }


def test_columns_of_sizes_are_a_line_for_each_task():
    made = table("size_table")
    drawn = lines(figure := draw_gains(made))
    assert list(drawn) == [f"Max_Seq+MHA, {task}" for task in ("cola", "mrpc", "rte", "sst2")]
    for sizes, _ in drawn.values():
        assert sizes == pytest.approx([0, 1, 2, 3], abs=0.3)
    assert drawn["Max_Seq+MHA, mrpc"][1] == pytest.approx([1.4, 1.5, 1.6, 1.7])
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["250", "500", "1,000", "2,000"]


def test_other_columns_are_a_point_for_each_task(tmp_path: Path):
    made = table("table2_minilm")
    drawn = lines(figure := draw_gains(made))
    assert len(drawn) == 5
    for number, (sizes, values) in enumerate(drawn.values(), 1):
        assert sorted(sizes) == pytest.approx(range(7), abs=0.3)
        # by size: wnli, rte, mrpc, sts, sst5, cola, sst2 by their places among the columns
        by_place = [value for _, value in sorted(zip(sizes, values, strict=True))]
        assert by_place == pytest.approx([number + i / 10 for i in (5, 4, 1, 7, 6, 0, 3)])
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks[0] == "WNLI Acc.\n635" and ticks[2] == "MRPC Acc.\n3,668" and len(ticks) == 7
    for file in draw_paper_table(tmp_path, made):
        assert file.stat().st_size > 5000


@pytest.mark.parametrize("statistic", ["mean", "median", "sd"])
def test_scores_are_drawn_at_what_the_table_shows(statistic):
    made = table("table2_minilm") | {"statistic": statistic}
    for row in made["rows"]:
        for cell in row["cells"]:
            cell["median"] = 50.9
    drawn = draw_scores(made).axes[0].containers[0]
    middle = "median" if statistic == "median" else "mean"
    assert drawn.get_label() == f"ours: {middle} ± sd"
    assert set(drawn[0].get_ydata()) == {50.9 if middle == "median" else 50.5}
