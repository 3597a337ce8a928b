"""The figures over several runs show the saved numbers, gaps and single seeds included."""

import json
import math
from itertools import combinations

import numpy as np
import pytest
from matplotlib.image import imread

from multitask.reporting.figures import grid_figures
from multitask.reporting.figures.style import group_style, save_figure
from multitask.utils.errors import UserError
from tests.support.fabricated_run import write_run

pytestmark = pytest.mark.usefixtures("no_warnings")


def shifted(folder, by, last=math.inf):
    """A run whose evaluations are ``by`` higher, and end at step ``last``."""
    write_run(folder)
    file = folder / "metrics.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        for scores in event["tasks"].values() if event["event"] == "eval" else ():
            for name, value in scores.items():
                scores[name] = None if value is None else value + by
    earlier = [event for event in events if event["step"] <= last]
    file.write_text("".join(json.dumps(event) + "\n" for event in earlier))
    return folder


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}


def evaluations(folder, split="holdout"):
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "eval" and event["split"] == split]


def test_the_curves_are_means_over_seeds_with_a_band_from_lowest_to_highest(tmp_path):
    runs = [shifted(tmp_path / str(seed), by) for seed, by in enumerate([0.0, 0.03, -0.06])]
    alone = shifted(tmp_path / "alone", 0.1)
    drawn = panels(grid_figures.draw_curve_bands({"three": runs, "one $": [alone]}))
    assert list(drawn) == ["sst: accuracy", "para: accuracy", "sts: pearson"]
    axes = drawn["sst: accuracy"]
    assert "holdout" in axes.get_ylabel()  # the fabricated run selects on it
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["three (3 seeds)", r"one \$ (1 seed)"]
    first = evaluations(runs[0])
    base = np.array([event["tasks"]["sst"]["accuracy"] for event in first])
    three = lines["three (3 seeds)"]
    assert list(three.get_xdata()) == [event["step"] for event in first]
    np.testing.assert_allclose(three.get_ydata(), base - 0.01)
    np.testing.assert_allclose(lines[r"one \$ (1 seed)"].get_ydata(), base + 0.1)
    bands = [band for band in axes.collections if band.get_label() != "lowest to highest seed"]
    (band,) = bands  # one seed alone has no band
    corners = band.get_paths()[0].vertices
    np.testing.assert_allclose(
        [corners[:, 1].min(), corners[:, 1].max()], [base.min() - 0.06, base.max() + 0.03]
    )


def test_a_null_score_is_a_gap_and_steps_of_some_seeds_only_are_left_out(tmp_path):
    runs = [shifted(tmp_path / "long", 0.0), shifted(tmp_path / "short", 0.1, last=80)]
    (line,) = panels(grid_figures.draw_curve_bands({"g": runs}))["sts: pearson"].lines
    assert list(line.get_xdata()) == [20, 40, 60, 80]
    assert np.isnan(line.get_ydata()).tolist() == [True, False, False, False]


def test_tasks_and_metrics_that_differ_between_groups_have_separate_panels(tmp_path):
    plain, other = tmp_path / "plain", tmp_path / "other"
    write_run(plain)
    report = write_run(other)
    del report["tasks"]["para"]
    report["tasks"]["sst"]["metric"] = "macro_f1"
    (other / "report.json").write_text(json.dumps(report))
    drawn = panels(grid_figures.draw_curve_bands({"a": [plain], "b": [other]}))
    lines = {title: len(axes.lines) for title, axes in drawn.items()}
    assert lines == {
        "sst: accuracy": 1,
        "para: accuracy": 1,
        "sts: pearson": 2,
        "sst: macro f1": 1,
    }


def test_many_groups_look_different_and_the_file_is_written(tmp_path):
    write_run(tmp_path / "run")
    looks = [tuple(group_style(place).values()) for place in range(28)]
    assert len(set(looks)) == 28
    for one, other in combinations([group_style(place) for place in range(16)], 2):
        # of two equal curves, the one that is drawn last leaves gaps, or is narrower
        last = one if one["zorder"] > other["zorder"] else other
        if one["linestyle"] != other["linestyle"]:
            assert last["linestyle"] != "-"
        else:
            assert last is other and other["linewidth"] < one["linewidth"]
    file = tmp_path / "curves.png"
    save_figure(
        grid_figures.draw_curve_bands({f"group {i}": [tmp_path / "run"] for i in range(9)}), file
    )
    assert imread(file).std() > 0.01


def test_a_run_without_report_is_named_and_one_without_evaluations_still_draws(tmp_path):
    with pytest.raises(UserError, match=r"gone/report\.json does not exist"):
        save_figure(grid_figures.draw_curve_bands({"g": [tmp_path / "gone"]}), tmp_path / "c.png")
    write_run(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    save_figure(grid_figures.draw_curve_bands({"g": [tmp_path / "run"] * 2}), tmp_path / "c.png")
    assert imread(tmp_path / "c.png").size


def staged(folder, *begins):
    """A run with stages that begin after these steps."""
    write_run(folder)
    lines = [{"event": "stage", "step": step, "stage": name, "tasks": []} for step, name in begins]
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def test_stages_are_marked_where_all_runs_begin_them_at_the_same_steps(tmp_path):
    same = [staged(tmp_path / str(seed), (40, "heads $"), (80, "all")) for seed in (1, 2)]
    other = staged(tmp_path / "other", (60, "all"))
    for axes in panels(grid_figures.draw_curve_bands({"a": same})).values():
        assert [text.get_text() for text in axes.texts] == [r"heads \$", "all"]
        assert [text.xy[0] for text in axes.texts] == [40, 80]
    for axes in panels(grid_figures.draw_curve_bands({"a": same, "b": [other]})).values():
        assert not axes.texts


def test_the_legend_names_the_groups_in_their_order(tmp_path):
    write_run(tmp_path / "sts", only=("sts",))
    write_run(tmp_path / "both", only=("sst", "sts"))
    groups = {"b": [tmp_path / "sts"], "a": [tmp_path / "both"]}  # b is not in the first panel
    legend = grid_figures.draw_curve_bands(groups).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["b (1 seed)", "a (1 seed)"]


def test_a_run_without_its_log_or_with_a_damaged_one_is_named(tmp_path):
    write_run(tmp_path / "run")
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_text("no line of a log\n")
    for message in ("damaged", "missing or damaged"):
        with pytest.raises(UserError, match=rf"run/metrics\.jsonl: {message}"):
            save_figure(
                grid_figures.draw_curve_bands({"g": [tmp_path / "run"]}), tmp_path / "c.png"
            )
        log.unlink(missing_ok=True)


def test_the_heatmap_shows_every_number_and_a_dash_where_there_is_none():
    values = np.array([[0.5, math.nan, 0.75], [0.125, 0.25, 1.0]])
    labels = ["a", "b"], ["x", "a long $ column", "z"]
    axes = grid_figures.draw_heatmaps([grid_figures.Heatmap(values, *labels)]).axes[0]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert shown == {
        (0, 0): "0.500", (1, 0): "-", (2, 0): "0.750",
        (0, 1): "0.125", (1, 1): "0.250", (2, 1): "1.000",
    }  # fmt: skip
    assert [label.get_text() for label in axes.get_xticklabels()][1] == r"a long \$ column"


@pytest.mark.parametrize("values", [np.full((1, 1), np.nan), np.full((2, 2), 0.5), np.eye(12)])
def test_any_values_fit(tmp_path, values):
    names = [f"a rather long combination, number {i}" for i in range(len(values))]
    save_figure(
        grid_figures.draw_heatmaps([grid_figures.Heatmap(values, names, names)]), tmp_path / "h.png"
    )
    assert imread(tmp_path / "h.png").size


def test_several_heatmaps_have_one_scale_and_name_their_sides(tmp_path):
    low, high = np.array([[0.25, 0.5]]), np.array([[1.0, math.nan]])
    key = "tasks.a_long_name_of_a_task.pooling.option"
    maps = [
        grid_figures.Heatmap(values, ["x"], ["1", "2"], "training.lr", key)
        for values in (low, high)
    ]
    first, second, bar = grid_figures.draw_heatmaps(maps, "accuracy $").axes
    assert bar.get_ylim() == (0.25, 1.0) and bar.get_ylabel() == r"accuracy \$"
    assert first.get_ylabel() == "training.lr"
    assert first.get_xlabel() == "…me_of_a_task.pooling.option"
    darkest, brightest = first.images[0].get_array()[0, 0], second.images[0].get_array()[0, 0]
    assert darkest.sum() < brightest.sum()
    save_figure(grid_figures.draw_heatmaps(maps * 4), tmp_path / "h.png")
    assert imread(tmp_path / "h.png").std() > 0.01


def test_the_gap_is_the_loss_above_the_training_loss_since_the_evaluation_before(tmp_path):
    write_run(tmp_path / "run")
    log = tmp_path / "run" / "metrics.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for event in events:
        if event["event"] == "eval":
            for place, scores in enumerate(event["tasks"].values()):
                scores["loss"] = 1 + place + 1 / (1 + event["step"])
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    drawn = panels(
        grid_figures.draw_curve_bands({"run": [tmp_path / "run"]}, grid_figures.loss_gaps, "gap")
    )
    for task in ("sst", "para", "sts"):
        steps = {e["step"]: e["loss"] for e in events if e["event"] == "step" and e["task"] == task}
        before, expected = 0, []
        for event in evaluations(tmp_path / "run"):
            between = [v for step, v in steps.items() if before < step <= event["step"]]
            before = event["step"]
            losses = [loss for loss in between if loss is not None]
            if losses:
                expected.append(event["tasks"][task]["loss"] - sum(losses) / len(losses))
        lines = {line.get_label(): line for line in drawn[f"{task}: loss gap"].lines}
        assert expected
        np.testing.assert_allclose(lines["run (1 seed)"].get_ydata(), expected)
