"""The pictures show every weight once, under the name of its hidden state, from saved numbers."""

import json
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.reporting.figures.importance_map import (
    Importance,
    by_length,
    draw_examples,
    draw_lengths,
    draw_tasks,
    read_log,
)
from multitask.reporting.figures.style import save_figure

pytestmark = pytest.mark.usefixtures("no_warnings")


def made(task="sst", layers=6, states=None, examples=3, seed=0):
    states = list(range(layers + 1)) if states is None else states
    spread = np.random.default_rng(seed).exponential(size=(examples + 1, len(states)))
    weights = (spread / spread.sum(1, keepdims=True)).tolist()
    texts = [f"text {number}" for number in range(examples)]
    shown = {"texts": texts, "weights": weights[1:]}
    lengths = {"median": 7.5, "short_rows": 30, "short": weights[1], "long": weights[2]}
    return Importance(task, "dev", layers, states, 40, weights[0], 0.5, **lengths, **shown)


def drawn(figure):
    """The map's values, NaN where it is empty, and the words beside and below it."""
    axes = figure.axes[0]
    (mesh,) = axes.collections
    values = np.ma.filled(mesh.get_array().astype(float), np.nan)
    rows = [label.get_text() for label in axes.get_yticklabels()]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    assert axes.yaxis_inverted()
    return values, rows, columns


@pytest.mark.parametrize("layers", [2, 12, 24])
def test_a_row_a_task_and_a_column_a_state(layers, tmp_path):
    result = [made("sst", layers), made("qqp", layers, seed=1)]
    figure = draw_tasks(result, ["sst", "qqp"])
    values, rows, columns = drawn(figure)
    np.testing.assert_allclose(values, [one.mean for one in result])
    assert rows == ["sst", "qqp"]
    assert columns == ["embeddings", *(f"layer {n}" for n in range(1, layers + 1))]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{100 * weight:.1f}" for one in result for weight in one.mean]
    shares = [weight for one in result for weight in one.mean]
    norm = figure.axes[0].collections[0].norm
    assert (norm.vmin, norm.vmax) == pytest.approx((min(shares), max(shares)))
    save_figure(figure, tmp_path / "map.png")


def test_numbers_do_not_touch_in_a_wide_map():
    """RoBERTa-large: 25 states; a number is narrower than its cell."""
    figure = draw_tasks([made(layers=24)], ["cola"])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    cell = axes.transData.transform([(1, 0)])[0, 0] - axes.transData.transform([(0, 0)])[0, 0]
    assert max(box.width for box in boxes) < cell


def test_a_state_that_is_not_weighed_stays_empty():
    values, _, columns = drawn(draw_tasks([made(states=[0, 1]), made(seed=1)], ["low", "all"]))
    assert np.isnan(values[0, 2:]).all() and np.isfinite(values[1]).all()
    assert len(columns) == 7


def test_tasks_of_encoders_of_different_depth_share_the_columns():
    values, _, columns = drawn(draw_tasks([made(layers=2), made(layers=6)], ["a", "b"]))
    assert len(columns) == 7
    assert np.isfinite(values).sum() == 3 + 7


def test_a_row_an_example():
    result = made(examples=5)
    result.texts[2] = "$ a very long text, " * 10
    result.texts[3:] = ["word " * 100] * 2
    figure = draw_examples(result, "sst")
    values, rows, columns = drawn(figure)
    np.testing.assert_allclose(values, result.weights)
    assert rows[0] == "1  text 0" and len(columns) == 7
    whole = "3  " + "\\$ a very long text, " * 10
    assert rows[2].replace("\n", " ") == whole.strip() and rows[2].count("\n") >= 2
    assert rows[4].endswith("…")
    all_text_is_inside(figure)


def all_text_is_inside(figure):
    """No text is cut, and the labels of the rows do not touch."""
    figure.draw_without_rendering()
    box, size = figure.get_tightbbox(), figure.get_size_inches()
    assert (box.min >= -0.01).all() and (box.max <= size + 0.01).all()
    labels = [label for label in figure.axes[0].get_yticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert all(one.y0 >= other.y1 for one, other in pairwise(boxes))


def test_a_group_is_a_heading_above_its_tasks():
    """The cells of a heading are empty, its label is bold, and the numbers stay in their rows."""
    result = [made(task, seed=n) for n, task in enumerate(("cola", "sst2", "rte"))]
    groups = ["single $ sentences", "single $ sentences", "inference"]
    figure = draw_tasks(result, ["cola", "sst2", "rte"], groups)
    values, rows, _ = drawn(figure)
    assert rows == [r"single \$ sentences", "cola", "sst2", "inference", "rte"]
    assert np.isnan(values[[0, 3]]).all()
    np.testing.assert_allclose(values[[1, 2, 4]], [one.mean for one in result])
    weights = [label.get_fontweight() for label in figure.axes[0].get_yticklabels()]
    assert weights == ["bold", "normal", "normal", "bold", "normal"]
    texts = {text.get_position()[1] for text in figure.axes[0].texts}
    assert texts == {1.5, 2.5, 4.5}
    assert [patch.get_y() for patch in figure.axes[0].patches] == [0, 3]
    all_text_is_inside(figure)
    values, rows, _ = drawn(draw_lengths(result, ["cola", "sst2", "rte"], groups))
    assert np.isnan(values[[0, 5]]).all() and rows[5] == "inference" and len(rows) == 8


@pytest.mark.parametrize("value", [0.225, 0.05, 0.4])
def test_the_scale_is_not_rounded_to_another_number(value):
    bar = draw_tasks([made()], ["cola"]).axes[1]
    shown = bar.yaxis.get_major_formatter()(value)
    assert float(shown.removesuffix(" %")) == pytest.approx(100 * value)


def test_a_row_for_short_texts_and_one_for_long_ones():
    result = [made("sst"), made("qqp", states=[0, 2], seed=1)]
    values, rows, columns = drawn(draw_lengths(result, ["first sst", "second qqp"]))
    np.testing.assert_allclose(values[:2], [result[0].short, result[0].long])
    np.testing.assert_allclose(values[2:, [0, 2]], [result[1].short, result[1].long])
    assert np.isnan(values[2:, 1]).all() and len(columns) == 7
    assert rows == [
        f"{name}, {kind}"
        for name in ("first sst", "second qqp")
        for kind in ("≤ 7.5 tokens (30)", "> 7.5 tokens (10)")
    ]


@given(st.lists(st.tuples(st.integers(3, 9), st.floats(0, 1)), min_size=1, max_size=12))
def test_lengths_are_split_at_their_median(rows):
    weights = np.array([[share, 1 - share] for _, share in rows])
    result = by_length(weights, np.array([length for length, _ in rows]))
    ordered = sorted(length for length, _ in rows)
    middle = (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2
    short = [share for length, share in rows if length <= middle]
    long = [share for length, share in rows if length > middle]
    if not long:
        assert result == {}
        return
    assert (result["median"], result["short_rows"]) == (middle, len(short))
    for name, shares in (("short", short), ("long", long)):
        mean = sum(shares) / len(shares)
        assert result[name] == pytest.approx([mean, 1 - mean], abs=1e-12)


def test_saved_numbers_draw_the_same_picture():
    result = made()
    again = Importance(**json.loads(json.dumps(asdict(result))))
    assert again == result
    np.testing.assert_array_equal(drawn(draw_examples(again, "x"))[0], result.weights)


def test_the_log_is_read_at_the_step_asked_for(tmp_path):
    line = {"event": "importance", "split": "holdout", "layers": 2, "states": [0, 1, 2], "rows": 9}
    lines = [
        {"event": "eval", "step": 4, "tasks": {}},
        line | {"step": 4, "task": "sst", "mean": [0.5, 0.25, 0.25], "above_0": 0.1},
        line | {"step": 8, "task": "qqp", "mean": [0.2, 0.2, 0.6], "above_0": 0.2},
        line | {"step": 8, "task": "sst", "mean": [0.25, 0.5, 0.25], "above_0": 0.3},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (result,) = read_log(tmp_path, {"sst": 8})
    assert (result.mean, result.above_0, result.split, result.texts, result.median) == (
        [0.25, 0.5, 0.25],
        0.3,
        "holdout",
        [],
        None,
    )
    assert [one.task for one in read_log(tmp_path, {"qqp": 4, "sst": 4})] == ["sst"]
