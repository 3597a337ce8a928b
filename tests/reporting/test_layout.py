"""Layouts of papers' tables."""

import pytest

from multitask.reporting.layout import load_layout
from multitask.utils.errors import UserError

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
    assert [row.printed for row in layout.rows.values()] == [[50.0, None], []]
    assert (layout.statistic, layout.takes_other_rows, layout.curve) == ("mean", True, None)
    (tmp_path / "y.yaml").write_text("extends: x.yaml\nstatistic: sd\ncurve: k\n")
    changed = load_layout(tmp_path / "y.yaml")
    assert (changed.statistic, changed.takes_other_rows) == ("sd", False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric: f1", "metrik: f1", ":5: columns.1.metrik: unknown key (did you mean 'metric'?)"),
        ("[50.0, null]", "[50.0]", ":7: rows.base.printed: 1 values for 2 columns"),
        ("[50.0, null]", "[a, b]", ":7: rows.base.printed.0"),
        ("title: Another", "baseline: b", ":8: rows.other.baseline: expected one of base"),
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


NAMED = "  third: {baseline: other}\n  fourth: {}\n"


@pytest.mark.parametrize(
    ("text", "baselines"),
    [
        (GOOD + NAMED, [None, None, "other", "base", "base"]),  # another row names `other`
        (GOOD.replace("baseline: base\n", "") + NAMED, [None, None, "other", "base", "base"]),
        (
            GOOD.replace("baseline: base\n", "").replace("base: {", "base: {baseline: other, "),
            ["other", None, "other"],
        ),
    ],
    ids=["named", "the first", "the first that names none"],
)
def test_a_row_has_its_own_baseline_or_that_of_the_layout(text, baselines, tmp_path):
    (tmp_path / "x.yaml").write_text(text)
    layout = load_layout(tmp_path / "x.yaml")
    names = [*layout.rows, "of another run"]
    assert layout.baselines(names)[1] == dict(zip(names, baselines, strict=True))
