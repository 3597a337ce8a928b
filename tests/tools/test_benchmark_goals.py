"""The table of goals says what the other tables say."""

import pytest

from tools import benchmark_goals as goals
from tools.benchmark_tables import TABLES


def test_a_changed_number_of_a_saved_table_changes_its_goals(tmp_path, monkeypatch):
    saved = (TABLES / "smart_step.md").read_text(encoding="utf-8")
    monkeypatch.setattr(goals, "TABLES", tmp_path)
    words = []
    for text in (saved, saved.replace("| 2.64 | 1.26 |", "| 3.64 | 1.96 |")):
        (tmp_path / "smart_step.md").write_text(text, encoding="utf-8")
        lines = goals.goals("smart_step").splitlines()
        words.append([line.partition(": ")[2].partition(" (")[0] for line in lines])
    assert words == [
        ["2.64: stretch", "1.26: reached", "2.97: reached", "1.32: reached"],
        ["3.64: missed", "1.96: missed", "2.97: reached", "1.32: reached"],
    ]


def test_a_list_has_the_goals_of_several_tables_with_and_without_kernels():
    lines = goals.goals("training_step,smart_step").splitlines()
    assert len(lines) == sum(goal.table in ("training_step", "smart_step") for goal in goals.GOALS)
    assert ", compiled kernels " in lines[0] and ", compiled kernels " not in lines[-1]


def test_every_goal_is_in_the_complete_table():
    rows = goals.goals("").splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {goal.what}" for goal in goals.GOALS]


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
