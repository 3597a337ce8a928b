"""The table of goals says what the other tables say."""

import pytest

from tools import benchmark_goals as goals
from tools.benchmark_tables import TABLES


def test_the_saved_table_is_made_of_the_saved_ones(capsys):
    goals.main()
    assert capsys.readouterr().out == (TABLES / "goals.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("goal", goals.GOALS, ids=lambda goal: goal.what)
def test_each_goal_has_its_row(goal):
    assert goal.value(kernels=False) is not None
    assert goal.kernels == (goal.value(kernels=True) is not None)


@pytest.mark.parametrize(
    ("from_above", "values"),
    [(False, {2.9: "missed", 3.0: "reached", 4.0: "stretch"}),
     (True, {3.1: "missed", 3.0: "reached", 2.0: "stretch"})],
)  # fmt: skip
def test_less_than_the_goal_is_missed(from_above, values):
    stretch = 2.0 if from_above else 4.0
    goal = goals.Goal("it", "table", {}, "x", 3.0, stretch, from_above=from_above)
    for value, word in values.items():
        assert goal.judged(value) == f"{value:.2f}: {word}"
