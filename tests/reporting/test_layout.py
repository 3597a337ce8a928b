"""Layouts of papers' tables."""

import pytest

from multitask.config.yaml_merge import load_extended
from multitask.reporting.layout import load_layout
from multitask.utils.errors import UserError
from tests.conftest import ROOT

LAYOUTS = [
    path
    for path in sorted((ROOT / "configs").rglob("*.yaml"))
    if "columns" in load_extended(path).value
]


@pytest.mark.parametrize("path", LAYOUTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_layout_of_the_configs_loads(path):
    assert load_layout(path).columns


GOOD = """\
title: a table
baseline: base
columns:
  - {title: A, task: a, metric: accuracy}
  - {title: B, task: b, metric: f1}
rows:
  base: {printed: [50.0, null]}
  other: {title: Another}
"""


def test_what_a_layout_does_not_say_has_a_default(tmp_path):
    (tmp_path / "x.yaml").write_text(GOOD)
    layout = load_layout(tmp_path / "x.yaml")
    assert [column.title for column in layout.columns] == ["A", "B"]
    assert layout.rows["base"].printed == [50.0, None] and layout.rows["other"].printed == []
    assert (layout.statistic, layout.other_rows, layout.curve) == ("mean", True, None)
    (tmp_path / "y.yaml").write_text("extends: x.yaml\nstatistic: sd\n")
    assert load_layout(tmp_path / "y.yaml").statistic == "sd"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric: f1", "metrik: f1", ":5: columns.1.metrik: unknown key (did you mean 'metric'?)"),
        ("[50.0, null]", "[50.0]", ":7: rows.base.printed: 1 values for 2 columns"),
        ("[50.0, null]", "[a, b]", ":7: rows.base.printed.0"),
        (
            "title: Another",
            "baseline: b",
            ":8: rows.other.baseline: expected one of base",
        ),
        ("title: Another", "baseline: other", ":8: rows.other.baseline: expected one of base"),
        ("title: B", "title: A", ":5: columns.1.title: "),
        ("baseline: base", "statistic: mode", ":2: statistic: should be 'mean', 'median' or 'sd'"),
        ("title: a table", "name: x", ":1: name: unknown key"),
    ],
)
def test_a_mistake_names_its_line(old, new, said, tmp_path):
    (tmp_path / "x.yaml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_layout(tmp_path / "x.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'x.yaml'}{said}")


def test_a_row_has_its_own_baseline_or_that_of_the_layout(tmp_path):
    more = "  third: {baseline: other}\n  fourth: {}\n"
    (tmp_path / "x.yaml").write_text(GOOD + more)
    layout = load_layout(tmp_path / "x.yaml")
    names = [*layout.rows, "of another run"]
    assert layout.baselines(names)[1] == {
        "base": None,
        "other": None,  # another row names it
        "third": "other",
        "fourth": "base",
        "of another run": "base",
    }
    (tmp_path / "x.yaml").write_text(GOOD.replace("baseline: base\n", "") + more)
    assert load_layout(tmp_path / "x.yaml").baselines(names)[1]["fourth"] == "base"


def test_the_first_row_that_names_no_baseline_is_one(tmp_path):
    first = GOOD.replace("baseline: base\n", "").replace("base: {", "base: {baseline: other, ")
    (tmp_path / "x.yaml").write_text(first + "  third: {}\n")
    layout = load_layout(tmp_path / "x.yaml")
    _, baselines = layout.baselines([*layout.rows])
    assert baselines == {"base": "other", "other": None, "third": "other"}


def test_a_curve_takes_no_other_rows(tmp_path):
    (tmp_path / "x.yaml").write_text(GOOD + "curve: k\n")
    assert not load_layout(tmp_path / "x.yaml").takes_other_rows
