"""The figure of gradient conflict shows the logged numbers."""

import numpy as np

from multitask.reporting.figures.gradient_cosines import draw_conflict


def event(step, **cosines):
    parts = ("all", "embeddings", "layer_1")
    return {
        "event": "conflict",
        "step": step,
        "cosines": {
            part: {p: v / (i + 1) for p, v in cosines.items()} for i, part in enumerate(parts)
        },
    }


def test_lines_and_cells_are_the_logged_cosines():
    events = [
        {"event": "step", "step": 1},
        event(10, sst_qqp=-0.4, sst_sts=0.2),
        event(20, sst_qqp=0.2),
    ]
    figure = draw_conflict(events, [(15, "second")])
    over_time, by_layer = figure.axes[:2]
    lines = {line.get_label(): line.get_ydata() for line in over_time.lines}
    np.testing.assert_allclose(lines["sst_qqp"], [-0.4, 0.2])
    np.testing.assert_allclose(lines["sst_sts"], [0.2, np.nan])
    np.testing.assert_allclose(by_layer.images[0].get_array(), [[-0.05, 0.1], [-0.1 / 3, 0.2 / 3]])
    assert [tick.get_text() for tick in by_layer.get_yticklabels()] == ["embeddings", "layer 1"]
    assert {text.get_text() for text in by_layer.texts} == {"-0.050", "0.100", "-0.033", "0.067"}


def test_a_part_that_a_stage_freezes_is_shown_where_another_does_not():
    late, early = event(30, sst_qqp=0.2), event(10, sst_qqp=0.4)
    late["cosines"]["layer_10"] = {"sst_qqp": 0.3}
    del early["cosines"]["embeddings"], early["cosines"]["layer_1"]
    by_layer = draw_conflict([early, late], []).axes[1]
    names = [tick.get_text() for tick in by_layer.get_yticklabels()]
    assert names == ["embeddings", "layer 1", "layer 10"]
    np.testing.assert_allclose(by_layer.images[0].get_array(), [[0.1], [0.2 / 3], [0.3]])


def test_no_figure_of_what_was_not_measured():
    assert draw_conflict([{"event": "step", "step": 1}, event(5) | {"cosines": {}}], []) is None


def test_a_cosine_of_almost_zero_has_no_minus():
    by_layer = draw_conflict([event(10, sst_qqp=-0.0001)], []).axes[1]
    assert {text.get_text() for text in by_layer.texts} == {"0.000"}
