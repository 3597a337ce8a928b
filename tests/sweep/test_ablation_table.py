"""The table of `ablate`, with a stand-in for training; tests/configs has more with real runs."""

import json
from pathlib import Path

from multitask.utils.errors import UserError
from tests.support import comparison_stand_in
from tests.support.fake_sweep import ablate


def test_where_runs_cannot_be_compared_an_older_table_is_named(grid, capsys, monkeypatch):
    def refused(*arguments, **options):
        raise UserError("other dev rows (1,101 against 120)")

    assert ablate(grid) == 0
    monkeypatch.setattr(comparison_stand_in, "compare", refused)
    capsys.readouterr()
    assert ablate(grid) == 2
    line = "error: other dev rows (1,101 against 120); runs/g/table.md is of an earlier start\n"
    assert capsys.readouterr().err.endswith(line)


def test_the_table_has_the_margin_of_the_grid(grid):
    grid.write_text(grid.read_text() + "margin: 0.02\n")
    assert ablate(grid) == 0
    assert json.loads(Path("runs/g/comparison.json").read_text())["margin"] == 0.02


def test_without_a_baseline_there_is_no_table(grid, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "a")
    assert ablate(grid) == 2
    assert "no table: no run of the baseline a is finished" in capsys.readouterr().out
    assert not Path("runs/g/table.md").exists()
