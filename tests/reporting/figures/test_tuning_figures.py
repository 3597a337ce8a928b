"""The history and the importances of a search as pictures."""

import numpy as np

from multitask.reporting.figures.tuning_figures import draw_history, draw_importance


def test_the_history_shows_each_score_and_the_best_so_far():
    figure = draw_history({"mean": {0: 0.5, 2: 0.4, 3: 0.7}}, [1])
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["best so far"].get_ydata(), [0.5, 0.5, 0.7])
    np.testing.assert_allclose(lines["a finished trial"].get_xdata(), [0, 2, 3])
    np.testing.assert_allclose(lines["best trial"].get_xdata(), [3])
    np.testing.assert_allclose(lines["pruned (no score)"].get_xdata(), [1])


def test_importances_are_bars_in_one_order_for_all_objectives():
    figure = draw_importance({"sst": {"lr": 0.8, "costs $5": 0.2}, "qqp": {"costs $5": 1.0}})
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["lr", r"costs \$5"]
    assert [bar.get_width() for bar in first.patches] == [0.8, 0.2]
    assert [bar.get_width() for bar in second.patches] == [0.0, 1.0]
