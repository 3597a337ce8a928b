"""Maps: attention, importance, and groups of tasks."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.image import imread

from multitask.config.yaml_merge import load_extended
from multitask.reporting.figures import maps
from multitask.reporting.figures.maps import (
    OTHERS,
    ClsAttention,
    Importance,
    by_length,
    draw_examples,
    draw_heads,
    draw_lengths,
    draw_mean,
    draw_tasks,
    in_groups,
    load_groups,
    read_log,
)
from multitask.reporting.figures.style import VERMILLION, save_figure
from multitask.utils.errors import UserError
from tests.conftest import ROOT

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
    assert len(strips) == -(-total // maps.MAX_ACROSS)
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
    assert texts == [maps.in_percent(weight) for weight in result.mean.ravel()]
    assert not panels(draw_mean(made(60), "a run"))[0].texts


def test_a_weight_below_one_percent_has_a_digit():
    written = [maps.in_percent(weight) for weight in (0.5, 0.0104, 0.0096, 0.0094, 0.0004)]
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
    [*product([draw_mean], (3, 20, 21, 64, 150)), *product([draw_heads], (3, 20, 60))],
)
def test_no_label_lies_on_another_or_outside(draw, total):
    figure = draw(made(total), "a run with a name that is too long for a line " * 3)
    figure.draw_without_rendering()
    drawn = panels(figure)
    for axes in drawn:
        # where a label's text begins (upright) or ends (slanted): a line height apart
        centres = [label.get_window_extent() for label in axes.get_xticklabels()]
        line = axes.get_xticklabels()[0].get_fontsize() * figure.dpi / 72
        across = [box.x1 if total <= maps.MAX_WITH_NUMBERS else box.x0 for box in centres]
        assert all(right - left >= line for left, right in pairwise(across))
    boxes = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    boxes.append(figure._suptitle.get_window_extent())
    for box in boxes:
        result = box.transformed(figure.transFigure.inverted())
        assert min(result.x0, result.y0) >= -1e-6 and max(result.x1, result.y1) <= 1 + 1e-6
    places = [axes.get_tightbbox() for axes in drawn]
    for i, box in enumerate(places):
        assert not any(box.overlaps(other) for other in places[:i])


def test_any_character_and_a_weight_of_exactly_zero_are_drawn(tmp_path):
    tokens = ["[CLS]", "$", "a$b", "_x", "👩‍🔬", "中", "", "\n", "�", "[SEP]"]
    result = made(tokens)
    result.weights[0, :, 2:] = 0
    for ending in ("png", "svg"):
        save_figure(draw_mean(result, "runs/a_$b$"), tmp_path / f"f.{ending}")
    assert imread(tmp_path / "f.png").std() > 0.01
    assert "<svg" in (tmp_path / "f.svg").read_text()


@pytest.mark.parametrize(("draw", "most"), [(draw_mean, 1024), (draw_heads, 128)])
def test_more_tokens_than_anyone_can_read_are_refused(draw, most):
    with pytest.raises(UserError, match=f"the text has {most + 1} tokens, .* {most}"):
        draw(made(most + 1), "a run")


def test_the_json_holds_the_arrays():
    result = made(7)
    plain = json.loads(json.dumps(result.to_json(heads=False)))
    assert list(plain) == ["tokens", "separators", "mean"]
    saved = json.loads(json.dumps(result.to_json(heads=True)))
    assert list(saved) == [*plain, "heads"]
    assert (saved["tokens"], saved["separators"]) == (result.tokens, [6])
    np.testing.assert_array_equal(np.array(saved["heads"], np.float32), result.weights)
    np.testing.assert_array_equal(np.array(saved["mean"], np.float32), result.mean)


def made_scores(task="sst", layers=6, states=None, examples=3, seed=0):
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
    result = [made_scores("sst", layers), made_scores("qqp", layers, seed=1)]
    figure = draw_tasks(result, ["sst", "qqp"])
    values, rows, columns = drawn(figure)
    np.testing.assert_allclose(values, [one.mean for one in result])
    assert rows == ["sst", "qqp"]
    assert columns == ["embeddings", *(f"layer {n}" for n in range(1, layers + 1))]
    shares = [weight for one in result for weight in one.mean]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{100 * weight:.1f}" for weight in shares]
    norm = figure.axes[0].collections[0].norm
    assert (norm.vmin, norm.vmax) == pytest.approx((min(shares), max(shares)))
    save_figure(figure, tmp_path / "map.png")


def test_numbers_do_not_touch_in_a_wide_map():
    """RoBERTa-large: 25 states; a number is narrower than its cell."""
    figure = draw_tasks([made_scores(layers=24)], ["cola"])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    cell = axes.transData.transform([(1, 0)])[0, 0] - axes.transData.transform([(0, 0)])[0, 0]
    assert max(box.width for box in boxes) < cell


def test_a_state_that_is_not_weighed_stays_empty():
    result = [made_scores(states=[0, 1]), made_scores(seed=1)]
    values, _, columns = drawn(draw_tasks(result, ["low", "all"]))
    assert np.isnan(values[0, 2:]).all() and np.isfinite(values[1]).all()
    assert len(columns) == 7


def test_a_row_an_example():
    result = made_scores(examples=5)
    result.texts[2] = "$ a very long text, " * 10
    result.texts[3:] = ["word " * 100] * 2
    figure = draw_examples(result, "sst")
    values, rows, columns = drawn(figure)
    np.testing.assert_allclose(values, result.weights)
    assert rows[0] == "1  text 0" and len(columns) == 7
    whole = "3  " + "\\$ a very long text, " * 10
    assert rows[2].replace("\n", " ") == whole.strip() and rows[2].count("\n") >= 2
    assert rows[4].endswith("…")
    labels_do_not_touch(figure)


def test_examples_are_below_the_class_that_the_task_predicts():
    result = replace(made_scores(examples=3), predicted=["yes", "no $", "yes"])
    values, rows, _ = drawn(draw_examples(result, "sst"))
    assert rows == [r"predicted: no \$", "2  text 1", "predicted: yes", "1  text 0", "3  text 2"]
    np.testing.assert_allclose(values[[1, 3, 4]], [result.weights[row] for row in (1, 0, 2)])


def labels_do_not_touch(figure):
    """The labels of the rows are apart."""
    figure.draw_without_rendering()
    labels = [label for label in figure.axes[0].get_yticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert all(one.y0 >= other.y1 for one, other in pairwise(boxes))


def test_a_group_is_a_heading_above_its_tasks():
    """The cells of a heading are empty, its label is bold, and the numbers stay in their rows."""
    result = [made_scores(task, seed=n) for n, task in enumerate(("cola", "sst2", "rte"))]
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
    labels_do_not_touch(figure)
    values, rows, _ = drawn(draw_lengths(result, ["cola", "sst2", "rte"], groups))
    assert np.isnan(values[[0, 5]]).all() and rows[5] == "inference" and len(rows) == 8


@pytest.mark.parametrize("value", [0.225, 0.05, 0.4])
def test_the_scale_is_not_rounded_to_another_number(value):
    bar = draw_tasks([made_scores()], ["cola"]).axes[1]
    shown = bar.yaxis.get_major_formatter()(value)
    assert float(shown.removesuffix(" %")) == pytest.approx(100 * value)


def test_a_row_for_short_texts_and_one_for_long_ones():
    result = [made_scores("sst"), made_scores("qqp", states=[0, 2], seed=1)]
    values, rows, columns = drawn(draw_lengths(result, ["first", "second"]))
    np.testing.assert_allclose(values[:2], [result[0].short, result[0].long])
    np.testing.assert_allclose(values[2:, [0, 2]], [result[1].short, result[1].long])
    assert np.isnan(values[2:, 1]).all() and len(columns) == 7
    kinds = ("≤ 7.5 tokens (30)", "> 7.5 tokens (10)")
    assert rows == [f"{name}, {kind}" for name in ("first", "second") for kind in kinds]


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


def test_the_log_is_read_at_the_step_asked_for(tmp_path):
    line = {"event": "importance", "split": "holdout", "layers": 2, "states": [0, 1, 2], "rows": 9}
    lines = [
        {"event": "eval", "split": "dev", "step": 4, "tasks": {}},
        line | {"step": 4, "task": "sst", "mean": [0.5, 0.25, 0.25], "above_0": 0.1},
        line | {"step": 8, "task": "qqp", "mean": [0.2, 0.2, 0.6], "above_0": 0.2},
        line | {"step": 8, "task": "sst", "mean": [0.25, 0.5, 0.25], "above_0": 0.3},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (result,) = read_log(tmp_path, {"sst": 8})
    assert result == Importance("sst", "holdout", 2, [0, 1, 2], 9, [0.25, 0.5, 0.25], 0.3)
    assert [one.task for one in read_log(tmp_path, {"qqp": 4, "sst": 4})] == ["sst"]


GROUPS = {"single": ["sst", "cola"], "pairs": ["rte"]}
SHIPPED = [
    path
    for path in sorted((ROOT / "configs").rglob("*.yaml"))
    if "groups" in load_extended(path).value
]


def test_tasks_follow_the_file_and_those_without_a_group_come_last():
    order, groups = in_groups(["mine", "rte", "cola", "sst", "cola"], GROUPS)
    assert order == [3, 2, 4, 1, 0]
    assert groups == ["single", "single", "single", "pairs", OTHERS]


def test_groups_of_other_tasks_are_an_error():
    with pytest.raises(UserError, match=r"--groups: no group has a task of the runs \(a, b\): add"):
        in_groups(["a", "b", "a"], GROUPS)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_file_of_groups_in_the_configs_loads(path):
    assert load_groups(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: {}", "x.yaml:1: groups: "),
        ("rows: {a: [sst]}", "x.yaml:1: rows: unknown key"),
        ("groups: {a: sst}", "x.yaml:1: groups.a: "),
        ("[]", "x.yaml"),
        ("{", "x.yaml"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_groups("x.yaml")
    assert message in str(caught.value) and "\n" not in str(caught.value)
