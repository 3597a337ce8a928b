"""The layers' scores as pictures: a panel per suite, a row per subset."""

import math

import numpy as np

from multitask.reporting.figures.layer_curves import draw_domains, draw_layers


def test_pictures_show_every_suite_and_subset():
    values = {"cls": [None, 0.2, 0.3], "mean": [0.4, 0.5, 0.6], "max": [0.1, 0.1, math.nan]}
    entry = {**values, "first-last mean": 0.55}
    result = {
        "STS12": {"all": entry, "subsets": {"MSRpar": entry, "MSRvid": entry}},
        "SICK-R": {"all": {**entry, "first-last mean": None}, "subsets": {"test": entry}},
    }
    figure = draw_layers({"costs $5": result})
    assert [axes.get_title() for axes in figure.axes] == ["STS12", "SICK-R"]
    line = figure.axes[0].lines[1]
    np.testing.assert_allclose(line.get_ydata(), [40, 50, 60])
    (axes,) = draw_domains(result, "costs $5").axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["STS12 MSRpar", "STS12 MSRvid", "SICK-R"]
    assert len(axes.collections) == 4


def test_several_encoders_share_the_panels_of_the_first():
    def suites(start: float, layers: int) -> dict:
        entry = {"mean": [start + i / 100 for i in range(layers)], "cls": None, "max": None}
        return {"STS12": {"all": {**entry, "first-last mean": None}, "subsets": {}}}

    figure = draw_layers({"small": suites(0.1, 3), "large": suites(0.5, 5) | {"STS13": {}}})
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == [
        "mean of tokens, small",
        "mean of tokens, large",
    ]
    first, second = axes.lines
    assert (len(first.get_ydata()), len(second.get_ydata())) == (3, 5)
    assert first.get_color() == second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert len(figure.legends[0].get_texts()) == 2
