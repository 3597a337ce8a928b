"""A line per study, from the stored numbers."""

import copy
import json

import pytest

from multitask.reporting.sheet import MEAN
from tools.measured_docs import grid_tables
from tools.measured_docs.findings import findings
from tools.measured_docs.grid_tables import load_sheet
from tools.measured_docs.pages import renew


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A sheet to change, and the line about it."""
    (tmp_path / "grids").mkdir()
    sheet = load_sheet("grids/smart_short")
    for row in sheet["rows"]:  # one column
        row["cells"] = {"sst": row["cells"]["sst"], MEAN: row["cells"]["sst"]}
    sheet["columns"] = {name: sheet["columns"][name] for name in ("sst", MEAN)}
    monkeypatch.setattr(grid_tables, "RESULTS", tmp_path)

    def line():
        (tmp_path / "grids" / "smart_short.json").write_text(json.dumps(sheet))
        return findings("grids/smart_short = Short").replace("\\", "")

    return sheet, line


def set_difference(row, value, low, high, p=0.01):
    changed = {"value": value, "low": low, "high": high, "p": p, "p_holm": p}
    row["cells"]["sst"]["difference"] = changed
    row["cells"][MEAN] = row["cells"]["sst"]


def test_a_line_counts_what_is_not_significant(saved):
    sheet, line = saved
    for row in sheet["rows"][1:]:
        set_difference(row, 0.0, -0.01, 0.03, 1.0)
    count = len(sheet["rows"]) - 1
    assert line() == (
        f"- Short, 3 seeds, compared with plain: none of {count} differences is significant "
        "(median interval ± 0.020).\n"
    )


def test_a_line_names_what_is_significant_and_leaves_out_rows_trained_otherwise(saved):
    sheet, line = saved
    first, second, *_ = sheet["rows"][1:]
    set_difference(first, 0.2, 0.1, 0.3)
    set_difference(second, -0.4, -0.5, -0.3)
    said = line()
    assert f": higher: {first['name']} on sst accuracy +0.200 [+0.100, +0.300]; lower: " in said
    assert "left out" not in said
    second["updates"] = sheet["rows"][0]["updates"] // 3
    said = line()
    assert "lower" not in said and said.endswith("left out, as they were not trained alike: 1.\n")


def test_of_many_differences_a_line_has_the_ends(saved):
    sheet, line = saved
    names = [f"row {number}" for number in range(1, 10)]
    row = sheet["rows"][1]
    rows = [copy.deepcopy(row) | {"name": name, "title": name} for name in names]
    sheet["rows"][1:] = rows
    for number, row in enumerate(rows, 1):
        set_difference(row, number, number - 0.5, number + 0.5)
    ends = [f"{row['name']} on sst accuracy" for row in (rows[0], rows[-1])]
    assert f"higher: {len(rows)}, from {ends[0]} +1.000 " in line()
    assert f"] to {ends[1]} +{len(rows)}.000 [" in line()


def test_a_line_about_some_rows_names_no_others():
    every, some = (findings(f"grids/hire_probe{rows} = Probe") for rows in ("", ":hire,cls"))
    assert "mean\\_1e-3 on" in every and "higher: 10" in every
    assert "hire on" in some and "mean\\_1e-3 on" not in some
    assert "compared with cls\\_1e-3" in some


def test_a_line_counts_the_verdicts_about_what_a_paper_prints():
    said = findings("papers/table2_minilm = Poolings")
    assert said.startswith("- Poolings, 3 or 5 seeds, compared with [CLS]: ")
    assert said.endswith("Of 24 printed differences: 24 cannot tell.\n")


def test_deviations_are_compared_by_their_ratio(monkeypatch):
    sheet = load_sheet("papers/table3_minilm")
    assert findings("papers/table3_minilm = Spread").endswith(
        "compared with [CLS]: another standard deviation: 0, cannot tell: 35.\n"
    )
    baseline, row = sheet["rows"][:2]
    name = next(iter(row["cells"]))
    baseline["cells"][name]["values"], row["cells"][name]["values"] = [1, 2, 3], [1, 20, 300]
    monkeypatch.setattr("tools.measured_docs.findings.load_sheet", lambda _: sheet)
    assert "deviation: 1, cannot tell: 34" in findings("papers/table3_minilm = Spread")


def test_of_a_grid_of_one_seed_a_line_has_the_effects_on_held_out_rows(saved):
    sheet, line = saved
    for row in sheet["rows"]:
        row["cells"]["sst"]["values"] = [0.5]
    sheet["axes"] = [{"key": "lr", "labels": ["1", "2", "3"], "values": [1, 2, 3]}]
    effect = {"value": 0.02, "low": 0.01, "high": 0.03, "p": 0.01, "p_holm": 0.02}
    none = {"value": 0.02, "low": -0.01, "high": 0.05, "p": 0.2, "p_holm": 0.2}
    cell = {"sst": {"mean": 0.5, "sd": None, "cells": 4, "difference": none}}
    sheet["marginals"] = [
        {"axis": "lr", "label": label, "cells": cell, "holdout": {"sst": held} if held else {}}
        for label, held in (("1", None), ("2", effect), ("3", none))
    ]
    said = line()
    assert "Short, 1 seed, on held-out rows" in said
    assert ": higher: lr: 2, not 1 on sst accuracy +0.020 [+0.010, +0.030]; " in said
    assert "not significant: 1 (median interval ± 0.030)" in said


def test_what_is_not_measured_has_no_lines():
    page = "<!-- measured: {} -->\n{}<!-- end -->\n"
    for asked in ("findings grids/smart = One; grids/not_there = Two", "layers x", "conflict x",
                  "says grids/x", "lines sts/a,x", "benchmark x"):  # fmt: skip
        assert renew(page.format(asked, "old\n")) == page.format(asked, "Not measured yet.\n")
