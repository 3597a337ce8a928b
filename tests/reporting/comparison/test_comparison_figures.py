"""The comparison's figure shows its numbers, with gaps and with many groups."""

import numpy as np
import pytest

from multitask.reporting.comparison.comparison_figures import draw_comparison

pytestmark = pytest.mark.usefixtures("no_warnings")


def entry(mean, **changes):
    result = {"values": [mean - 0.01, mean + 0.01], "mean": mean, "low": mean - 0.03,
             "high": mean + 0.02, "best": False, "sd": 0.01}  # fmt: skip
    return result | changes


def made(groups, tasks=("sst", "sts")):
    """A comparison of so many groups, the first being the baseline."""
    return {
        "baseline": "group 0",
        "tasks": {task: {"metric": "macro_f1"} for task in tasks},
        "groups": [
            {
                "name": f"group {i}",
                "tasks": {task: entry(0.5 + i / 100) for task in tasks},
                "overall": entry(0.5 + i / 100),
            }
            for i in range(groups)
        ],
    }


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}


def test_each_panel_shows_seeds_means_intervals_and_the_baseline():
    comparison = made(3)
    comparison["groups"][2]["tasks"]["sts"]["best"] = True
    drawn = panels(draw_comparison(comparison))
    assert list(drawn) == ["sst: macro f1", "sts: macro f1", "mean of the tasks"]
    axes = drawn["sts: macro f1"]
    lines = {}
    for line in axes.lines:
        lines.setdefault(line.get_label(), []).append(np.array(line.get_xdata()).ravel().tolist())
    assert lines["one seed"] == [pytest.approx([m - 0.01, m + 0.01]) for m in (0.5, 0.51, 0.52)]
    assert lines["mean"] == [[0.5], [0.51]] and lines["best mean"] == [[0.52]]
    assert lines["mean of the baseline (bold name)"] == [[0.5, 0.5]]
    spans = [collection.get_segments()[0][:, 0].tolist() for collection in axes.collections]
    assert spans == [pytest.approx([m - 0.03, m + 0.02]) for m in (0.5, 0.51, 0.52)]
    assert axes.yaxis_inverted()  # the first group on top


def test_missing_and_undefined_scores_are_gaps():
    comparison = made(3)
    del comparison["groups"][1]["tasks"]["sst"]
    comparison["groups"][1]["overall"] = None
    undefined = {"mean": None, "low": None, "high": None, "values": [None, 0.4]}
    comparison["groups"][0]["tasks"]["sst"] |= undefined
    figure = draw_comparison(comparison)
    labels = [line.get_label() for line in panels(figure)["sst: macro f1"].lines]
    assert labels == ["one seed", "one seed", "mean"]  # and no line of the baseline


@pytest.mark.parametrize(("groups", "tasks"), [(1, 1), (2, 3), (27, 3), (5, 9)])
def test_any_number_of_groups_and_tasks_fits(groups, tasks, tmp_path):
    comparison = made(groups, [f"task_{i}" for i in range(tasks)])
    comparison["groups"][0]["name"] = comparison["baseline"] = "a name with $ signs $ " * 4
    figure = draw_comparison(comparison)
    assert len(panels(figure)) == (tasks + 1 if tasks > 1 else 1)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(names) == groups and len(names[0]) < 60
