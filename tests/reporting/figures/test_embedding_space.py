"""The figure of alignment, uniformity and mean cosine over a run."""

import numpy as np

from multitask.reporting.figures.embedding_space import draw_space


def evaluation(step, **tasks):
    return {"event": "eval", "step": step, "tasks": tasks}


def space(value, uniformity):
    return {"spearman": 0.5, "alignment": value, "uniformity": uniformity, "mean_cosine": 0.1}


def test_each_measure_has_a_panel_and_each_task_a_line():
    events = [
        {"event": "space", "step": 0, "tasks": {"a": space(0.4, -1), "b": space(0.3, 0)}},
        {"event": "step", "step": 1, "task": "sts", "loss": 1.0},
        evaluation(10, sts={"pearson": 0.4}, a=space(0.3, -2), b=space(0.2, None)),
        evaluation(20, sts={"pearson": 0.5}, a=space(0.25, -3), b=space(0.1, -1)),
        evaluation(30, a=space(0.2, -4)),
    ]
    figure = draw_space(events, [(10, "second")])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "alignment of similar pairs", "uniformity of all sentences", "mean cosine of any two",
    ]  # fmt: skip
    lines = figure.axes[1].lines
    np.testing.assert_array_equal(lines[0].get_data(), [[0, 10, 20, 30], [-1, -2, -3, -4]])
    np.testing.assert_array_equal(lines[1].get_ydata(), [0, np.nan, -1, np.nan])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_without_such_a_task_there_is_no_figure():
    assert draw_space([], []) is None
    assert draw_space([evaluation(10, sts={"pearson": 0.4})], []) is None
