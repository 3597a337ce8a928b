"""The printed differences that more seeds could judge, by their hours."""

import json

import pytest

from tools.measured_docs import grid_tables, open_cells


def cell(values, printed, difference=None):
    return {
        "values": values,
        "mean": sum(values) / len(values),
        "printed": printed,
        "difference": difference,
    }


def apart(value, low, high, p):
    return {"value": value, "low": low, "high": high, "p": p, "p_holm": p}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of a baseline and four rows, of which the first two are open; 30 minutes a run."""
    differences = {
        "wide": (2.0, apart(1.0, -7.0, 9.0, 0.8)),
        "narrow": (4.0, apart(1.0, -3.0, 5.0, 0.6)),
        "clear": (2.0, apart(2.0, 1.0, 3.0, 0.01)),
        "unprinted": (None, apart(1.0, -3.0, 5.0, 0.6)),
    }
    rows = [{"name": "base", "title": "base", "baseline": None, "cells": {"a": cell([1, 2], 50)}}]
    for name, (printed, difference) in differences.items():
        of_row = cell([1, 2], printed and 50 + printed, difference)
        rows.append({"name": name, "title": name, "baseline": "base", "cells": {"a": of_row}})
    sheet = {"statistic": "mean", "paper": {}, "columns": {"a": {"title": "A"}}, "rows": rows}
    sheet["source"] = {"command": "c", "commits": [], "runs": 10, "minutes": 300}
    (tmp_path / "papers").mkdir()
    for module in (grid_tables, open_cells):
        monkeypatch.setattr(module, "RESULTS", tmp_path)

    def written():
        (tmp_path / "papers" / "made.json").write_text(json.dumps(sheet))
        return [line.split(" | ") for line in open_cells.open_cells("").splitlines()[2:]]

    return sheet, written


def test_open_cells_are_ranked_by_the_hours_of_the_missing_seeds(table):
    _, written = table
    first, second = written()
    assert first[1:] == ["narrow, A", "+4.00", "+1.00 [-3.00, +5.00]", "1.0", "2", "3", "1.0 |"]
    # half the interval is 4 times the printed difference: 16 times the seeds, each of two runs
    assert second[1:] == ["wide, A", "+2.00", "+1.00 [-7.00, +9.00]", "4.0", "2", "32", "30.0 |"]


def test_the_time_of_a_cell_is_that_of_its_runs(table):
    sheet, written = table
    sheet["made"] = {"slow": {"commit": "a", "seconds": 3 * 3600}}
    sheet["rows"][2]["cells"]["a"]["runs"] = ["slow"]
    assert written()[0][-1] == "3.5 |"
