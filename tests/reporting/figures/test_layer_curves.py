"""The layers' scores as pictures: a panel per suite, a row per subset."""

import math

import numpy as np
import pytest

from multitask.reporting.figures import style
from multitask.reporting.figures.layer_curves import draw_domains, draw_layers
from multitask.tasks.sts_names import NAMES


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
    heights = [marks.get_offsets().data[:, 1].round(3) for marks in axes.collections]
    assert len(set(np.concatenate(heights))) == 12  # equal scores do not hide one another


def suites(start: float, layers: int, *names: str) -> dict:
    curve = [start + i / 100 for i in range(layers)]
    entry = {"cls": [None, *curve[1:]], "mean": curve, "max": curve, "first-last mean": start}
    return {name: {"all": entry, "subsets": {"test": entry}} for name in names}


def test_several_encoders_have_a_panel_per_suite_and_pooling():
    """A curve per encoder; the average of layers is a line in the panel of the means."""
    large = suites(0.5, 5, "STS12", "STS13")
    figure = draw_layers({"small": suites(0.1, 3, "STS12", "STS-B"), "large": large})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        f"{suite}, {pooling}"
        for suite in ("STS12", "STS-B")
        for pooling in ("[CLS]", "mean of tokens", "maximum over tokens")
    ]
    cls, means, _, _, only_first, _ = (axes.lines for axes in figure.axes)
    first, second = cls[:2]
    np.testing.assert_allclose(first.get_ydata(), [math.nan, 11, 12])
    np.testing.assert_allclose(second.get_ydata(), [math.nan, 51, 52, 53, 54])
    assert [line.get_ydata()[0] for line in means] == [10, 10, 50, 50]
    assert means[1].get_color() == means[0].get_color() != means[2].get_color()
    assert {line.get_color() for line in only_first} == {first.get_color()}
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["small", "large", "mean of first and last layer"]


LONG = "runs/a-directory-with-a-long-name/cells/and-a-cell-with-a-long-name/seed-1"


@pytest.mark.parametrize("encoders", [1, 2, 5])
@pytest.mark.parametrize("names", [["STS-B"], NAMES])
def test_text_is_inside_names_are_distinct_and_panels_are_high(encoders, names):
    every = {f"{LONG}, task {n}": suites(0.1 * n, 13, *names) for n in range(encoders)}
    first = next(iter(every))
    several = 4 if encoders == 1 else encoders + 1  # poolings, or encoders and the average
    for figure, entries in ((draw_layers(every), several), (draw_domains(every[first], first), 4)):
        figure.draw_without_rendering()
        box, size = figure.get_tightbbox(), figure.get_size_inches()
        assert (box.min >= -0.01).all() and (box.max <= size + 0.01).all()
        for axes in figure.axes:
            height = axes.get_position().height * size[1] * style.DPI
            assert not axes.get_visible() or height >= style.LEAST_HEIGHT - 2
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(set(texts)) == len(texts) == entries
        assert figure.get_suptitle().startswith("Agreement of the sentence vectors with human sco")
