"""The picture shows every weight once, on its token, and can be read for short and long texts."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.image import imread

from multitask.reporting.figures import attention_map
from multitask.reporting.figures.attention_map import ClsAttention, draw_heads, draw_mean
from multitask.reporting.figures.style import VERMILLION, save_figure
from multitask.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("no_warnings")


def made(tokens, layers=3, heads=4, separators=()):
    """Random weights on ``tokens`` (or so many words), most of it on the first token."""
    if isinstance(tokens, int):
        tokens = ["[CLS]", *(f"word{i}" for i in range(tokens - 2)), "[SEP]"]
    spread = np.random.default_rng(0).exponential(size=(layers, heads, len(tokens)))
    spread[:, :, 0] += len(tokens)
    weights = (spread / spread.sum(-1, keepdims=True)).astype(np.float32)
    return ClsAttention(tokens, list(separators) or [len(tokens) - 1], weights)


def panels(figure):
    """The axes that hold a map, the colour bar left out."""
    *maps, bar = (axes for axes in figure.axes if axes.get_visible())
    assert bar.get_ylabel() == "weight (a row sums to 100 %)"
    return maps


def cells(axes):
    return np.asarray(axes.collections[0].get_array())


def words(axes):
    return [label.get_text() for label in axes.get_xticklabels()]


@settings(max_examples=8)
@given(total=st.integers(3, 300), layers=st.sampled_from([1, 6, 12]))
def test_every_token_and_weight_is_drawn_once_in_order(total, layers):
    result = made(total, layers)
    strips = panels(draw_mean(result, "a run"))
    assert len(strips) == -(-total // attention_map.MAX_ACROSS)
    np.testing.assert_array_equal(np.hstack([cells(axes) for axes in strips]), result.mean)
    assert [word for axes in strips for word in words(axes)] == result.tokens
    for axes in strips:
        assert axes.get_ylim() == (layers, 0)  # layer 1 on top
        assert axes.get_yticklabels()[0].get_text() == "layer 1"
        np.testing.assert_array_equal(axes.get_xticks(), np.arange(len(words(axes))) + 0.5)
        assert axes.get_xlim() == strips[0].get_xlim()  # cells of one width


@pytest.mark.parametrize("total", [5, 60])
def test_each_head_has_a_panel_in_the_same_colours(total):
    result = made(total)
    drawn = panels(draw_heads(result, "a run"))
    assert [axes.get_title() for axes in drawn] == ["head 1", "head 2", "head 3", "head 4"]
    for head, axes in enumerate(drawn):
        np.testing.assert_array_equal(cells(axes), result.weights[:, head])
        assert words(axes) == result.tokens
    norms = [axes.collections[0].norm for axes in drawn]
    assert {(norm.vmin, norm.vmax) for norm in norms} == {(0.001, 1)}


def test_few_tokens_have_their_numbers_in_percent():
    result = made(6)
    texts = [text.get_text() for text in panels(draw_mean(result, "a run"))[0].texts]
    small = [weight < 0.0095 for weight in result.mean.ravel()]
    assert texts == [
        f"{100 * w:.{few:d}f}" for w, few in zip(result.mean.ravel(), small, strict=True)
    ]
    assert not panels(draw_mean(made(60), "a run"))[0].texts


def test_a_weight_below_one_percent_has_a_digit():
    written = [
        attention_map._in_percent(weight) for weight in (0.5, 0.0104, 0.0096, 0.0094, 0.0004)
    ]
    assert written == ["50", "1", "1", "0.9", "0.0"]


def test_separators_are_marked_and_the_texts_are_kept_apart():
    tokens = "[CLS] a b [SEP] c d e [SEP]".split()
    (axes,) = panels(draw_mean(made(tokens, separators=(3, 7)), "a run"))
    bold = [label.get_fontweight() == "bold" for label in axes.get_xticklabels()]
    assert bold == [token == "[SEP]" for token in tokens]
    (line,) = axes.lines  # none at the end of the input
    assert line.get_xdata()[0] == 4 and to_hex(line.get_color()).upper() == VERMILLION


@pytest.mark.parametrize(
    ("draw", "total"),
    [
        *((draw_mean, total) for total in (3, 20, 21, 64, 150)),
        *((draw_heads, total) for total in (3, 20, 60)),
    ],
)
def test_no_label_lies_on_another_or_outside(draw, total):
    figure = draw(made(total), "a run with a name that is too long for a line " * 3)
    figure.draw_without_rendering()
    drawn = panels(figure)
    for axes in drawn:
        # where a label's text begins (upright) or ends (slanted): a line height apart
        centres = [label.get_window_extent() for label in axes.get_xticklabels()]
        line = axes.get_xticklabels()[0].get_fontsize() * figure.dpi / 72
        across = [box.x1 if total <= attention_map.MAX_WITH_NUMBERS else box.x0 for box in centres]
        assert all(right - left >= line for left, right in pairwise(across))
    boxes = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    boxes.append(figure._suptitle.get_window_extent())
    for box in boxes:
        result = box.transformed(figure.transFigure.inverted())
        assert min(result.x0, result.y0) >= -1e-6 and max(result.x1, result.y1) <= 1 + 1e-6
    places = [axes.get_tightbbox() for axes in drawn]
    for i, box in enumerate(places):
        assert not any(box.overlaps(other) for other in places[:i])


def test_any_character_is_drawn(tmp_path):
    tokens = ["[CLS]", "$", "a$b", "_x", "👩‍🔬", "中", "", "\n", "�", "[SEP]"]
    for ending in ("png", "svg"):
        save_figure(draw_mean(made(tokens), "runs/a_$b$"), tmp_path / f"f.{ending}")
    assert imread(tmp_path / "f.png").std() > 0.01
    assert "<svg" in (tmp_path / "f.svg").read_text()


def test_weights_of_exactly_zero_are_drawn():
    result = made(5)
    result.weights[0, :, 2:] = 0
    draw_mean(result, "a run").draw_without_rendering()


@pytest.mark.parametrize(
    ("draw", "total", "message"),
    [
        (draw_mean, 1025, "the text has 1025 tokens, the picture room for 1024: cut it"),
        (draw_heads, 129, "--heads: the text has 129 tokens, and a panel a head can be read up"),
    ],
)
def test_more_tokens_than_anyone_can_read_are_refused(draw, total, message):
    with pytest.raises(UserError, match=message):
        draw(made(total), "a run")


def test_the_json_holds_the_arrays():
    result = made(7)
    plain = json.loads(json.dumps(result.to_json(heads=False)))
    assert list(plain) == ["tokens", "separators", "mean"]
    saved = json.loads(json.dumps(result.to_json(heads=True)))
    assert list(saved) == [*plain, "heads"]
    assert (saved["tokens"], saved["separators"]) == (result.tokens, [6])
    np.testing.assert_array_equal(np.array(saved["heads"], np.float32), result.weights)
    np.testing.assert_array_equal(np.array(saved["mean"], np.float32), result.mean)
