# Long: it mirrors curves.py.
"""Curves of runs, by step and by layer."""

import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from multitask.reporting.figures import curves, maps
from multitask.reporting.figures.curves import (
    draw_conflict,
    draw_domains,
    draw_layers,
    draw_space,
    scatter,
)
from multitask.reporting.figures.maps import confusion
from multitask.reporting.figures.style import group_style, new_figure, save_figure, step_axis
from multitask.reporting.run_report import dev_records
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import load_lines
from multitask.store.saved import TaskReport
from multitask.tasks.sts_names import NAMES
from multitask.utils.errors import UserError
from tests.support.fabricated_run import edited, edited_log, write_run
from tests.support.figure_rules import faults
from tests.support.run_files import full_report, task_entry


def drawn(directory: Path) -> dict[Path, str]:
    run = RunDirectory(directory)
    report = run.load_report()
    return curves.draw_all(
        run, report, run.load_events(), {task: dev_records(run, task) for task in report.tasks}
    )


pytestmark = pytest.mark.usefixtures("no_warnings")


def panels(figure):
    """Axes by title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_all_figures_are_written_and_decode(tmp_path):
    write_run(tmp_path)
    paths = drawn(tmp_path)
    names = "curves confusion_sst confusion_para scatter_sts schedule".split()
    assert list(paths) == [tmp_path / "figures" / f"{name}.png" for name in names]
    for path in paths:
        image = imread(path)
        assert min(image.shape[:2]) > 300
        assert image.std() > 0.01  # not blank


def test_the_curves_show_the_evaluations_baselines_and_selected_step(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    drawn = panels(curves.draw_curves(full_report(**report), events))
    assert list(drawn) == ["sst: accuracy", "para: accuracy", "sts: pearson"]
    lines = {line.get_label(): line for line in drawn["sst: accuracy"].lines}
    evals = [event for event in events if event["event"] == "eval" and event["split"] == "dev"]
    points = [(event["step"], event["tasks"]["sst"]["accuracy"]) for event in evals]
    np.testing.assert_equal(lines["dev"].get_xydata(), points)
    baselines = report["tasks"]["sst"]["baselines"]
    assert lines["frozen encoder"].get_ydata()[0] == baselines["frozen"]["accuracy"]
    assert lines["trivial (labels only)"].get_ydata()[0] == baselines["trivial"]["accuracy"]
    assert lines["selected step"].get_xdata() == [report["tasks"]["sst"]["selected_step"]]

    # Null: the first evaluation of sts is a gap, and neither baseline has a line.
    lines = {line.get_label(): line for line in drawn["sts: pearson"].lines}
    assert np.isnan(lines["dev"].get_ydata()).tolist() == [True] + [False] * 5
    assert set(lines) == {"dev", "holdout", "selected step"}


def test_the_confusion_matrix_shows_counts_and_names_without_mathematics(tmp_path):
    report = write_run(tmp_path)
    axes = confusion("sst", full_report(**report).tasks["sst"], []).axes[0]
    counts = [int(text.get_text().split("\n")[0].replace(",", "")) for text in axes.texts]
    assert counts == np.ravel(report["tasks"]["sst"]["dev"]["confusion"]).tolist()
    assert [label.get_text() for label in axes.get_yticklabels()][3] == r"costs \$5 or \$6"
    assert axes.yaxis_inverted()  # the first class is on top


def test_of_tagged_words_the_words_are_counted():
    dev = {"confusion": [[9, 1], [0, 5]]}
    figure = confusion("ner", task_entry("tags", dev=dev), [])
    assert figure.axes[0].get_title() == "ner: 14 of 15 words of dev right"


def test_in_joint_steps_every_task_has_every_step():
    entry = task_entry("class", turns={"trained": 400, "skipped": 0})
    events = [{"event": "step", "step": i, "task": t} for i in range(1, 401) for t in ("a", "b")]
    figure = curves.draw_schedule(full_report(tasks={"a": entry, "b": entry}), events)
    assert "full height = 100 %" in figure.axes[0].get_title()


@pytest.mark.parametrize(("only", "label"), [(False, "holdout"), (True, "dev")])
def test_a_task_that_is_only_evaluated_has_a_curve_of_dev(only, label):
    entry = task_entry("class", evaluate_only=only, selected_step=2)
    report = full_report(selection_split="holdout", tasks={"sst": entry})
    events = [evaluation(step, "holdout", sst={"accuracy": 0.5}) for step in (1, 2)]
    assert curves.draw_curves(report, events).axes[0].lines[0].get_label() == label


def test_a_stage_that_evaluates_its_own_tasks_only_is_marked_and_leaves_gaps(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    for event in events:
        if event["event"] == "eval" and event["step"] > 60:
            event["tasks"] = {"sst": event["tasks"]["sst"]}
    events.append({"event": "stage", "step": 60, "stage": "one $ alone", "tasks": ["sst"]})
    figure = curves.draw_curves(full_report(**report), events)
    last = {title: max(axes.lines[0].get_xdata()) for title, axes in panels(figure).items()}
    assert last == {"sst: accuracy": 120, "para: accuracy": 60, "sts: pearson": 60}
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == [r"one \$ alone"]


def test_the_scatter_says_pearson(tmp_path):
    report = write_run(tmp_path)
    result, records = report["tasks"]["sts"], dev_records(RunDirectory(tmp_path), "sts")
    records.append({"label": None, "prediction": 1.0})
    axes = scatter("sts", TaskReport.model_validate(result), records).axes[0]
    assert axes.get_title() == f"sts: Pearson {result['dev']['pearson']:.3f} on 120 dev rows"
    assert len(axes.collections[0].get_offsets()) == 120
    result["dev"]["pearson"] = None
    (axes,) = scatter("sts", TaskReport.model_validate(result), records).axes
    assert "undefined" in axes.get_title()


def test_the_schedule_marks_skipped_turns_and_the_stop(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    figure = curves.draw_schedule(full_report(**report), events)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["trained", "turn skipped", "stopped early"]
    without = [event for event in events if event["event"] == "step"]
    legend = curves.draw_schedule(full_report(**report), without).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["trained"]


@pytest.mark.parametrize("tasks", [1, 3, 7])
@pytest.mark.parametrize("last", [1, 119, 120, 121, 360, 10_000])
def test_the_bins_of_the_schedule_cover_every_step_and_stay_few(last, tasks):
    edges = curves.schedule_bins(last, tasks)
    assert (edges[0], edges[-1]) == (0.5, last + 0.5)
    assert 1 <= len(edges) - 1 <= curves.SCHEDULE_BINS
    assert (np.diff(edges) > 0).all()
    if last > curves.SCHEDULE_BINS:
        assert set(np.diff(edges[:-1]) % tasks) == {0}


def test_smoothing_is_a_mean_that_skips_nan():
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])
    # A window of five; at the ends, and beside NaN, the mean of what is there.
    expected = [1.5, 7 / 3, 3.0, 4.25, 5.0, 5.0]
    np.testing.assert_allclose(curves.smoothed(values), expected)
    assert np.isnan(curves.smoothed(np.full(3, np.nan))).all()
    assert curves.smoothed(np.array([2.0])) == [2.0]


def test_a_run_without_events_still_draws(tmp_path):
    write_run(tmp_path, only=("para",))
    edited(tmp_path, lambda report: report["tasks"]["para"].update(selected_step=None))
    (tmp_path / "metrics.jsonl").write_text("")
    assert len(drawn(tmp_path)) == 3


@pytest.mark.parametrize("size", [1, 13, 31])
def test_any_number_of_classes_fits(tmp_path, size):
    dev = {"confusion": np.eye(size, dtype=int).tolist()}
    names = [f"intent number {i}" for i in range(size)]
    result = task_entry("class", names, dev=dev)
    figure = confusion("a task with a rather long name", result, [])
    figure.savefig(tmp_path / "confusion.png", dpi=50)


@pytest.mark.parametrize("steps", [[14], [14, 15], range(0, 3000, 300)])
def test_ticks_are_whole_steps(steps):
    axes = new_figure(4, 3).subplots()
    axes.plot(list(steps), list(steps), marker="o")
    step_axis(axes)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(set(names)) == len(names)


def shifted(folder, by, last=math.inf):
    """A run whose evaluations are ``by`` higher, and end at step ``last``."""

    def shift(event):
        for scores in event["tasks"].values() if event["event"] == "eval" else ():
            scores |= {
                name: None if value is None else value + by for name, value in scores.items()
            }

    write_run(folder)
    events = [event for event in edited_log(folder, shift) if event["step"] <= last]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


def evaluations(folder):
    """On the split that selects."""
    events = load_lines(folder / "metrics.jsonl")
    return [e for e in events if e["event"] == "eval" and e["split"] == "holdout"]


def test_the_curves_are_means_over_seeds_with_a_band_from_lowest_to_highest(tmp_path):
    runs = [shifted(tmp_path / str(seed), by) for seed, by in enumerate([0.0, 0.03, -0.06])]
    alone = shifted(tmp_path / "alone", 0.1)
    drawn = panels(curves.draw_curve_bands({"three": runs, "one $": [alone]}))
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
    heights = band.get_paths()[0].vertices[:, 1]
    expected = base.min() - 0.06, base.max() + 0.03
    assert (heights.min(), heights.max()) == pytest.approx(expected)


def test_a_null_score_is_a_gap_and_steps_of_some_seeds_only_are_left_out(tmp_path):
    runs = [shifted(tmp_path / "long", 0.0), shifted(tmp_path / "short", 0.1, last=80)]
    (line,) = panels(curves.draw_curve_bands({"g": runs}))["sts: pearson"].lines
    assert list(line.get_xdata()) == [20, 40, 60, 80]
    assert np.isnan(line.get_ydata()).tolist() == [True, False, False, False]


def test_curves_of_very_different_lengths_are_over_the_share_of_their_steps(tmp_path):
    long, short = shifted(tmp_path / "long", 0.0), shifted(tmp_path / "short", 0.1, last=40)
    figure = curves.draw_curve_bands({"long": [long], "short": [short]})
    axes = panels(figure)["sst: accuracy"]
    last = max(event["step"] for event in evaluations(long))
    lines = {line.get_label(): line.get_xdata() for line in axes.lines}
    assert list(lines) == [f"long ({last} steps, 1 seed)", "short (40 steps, 1 seed)"]
    assert [max(steps) for steps in lines.values()] == [100, 100]
    assert "own steps" in axes.get_xlabel()


def test_tasks_and_metrics_that_differ_between_groups_have_separate_panels(tmp_path):
    plain, other = tmp_path / "plain", tmp_path / "other"
    write_run(plain)
    write_run(other, only=("sst", "sts"))
    edited(other, lambda report: report["tasks"]["sst"].update(metric="macro_f1"))
    drawn = panels(curves.draw_curve_bands({"a": [plain], "b": [other]}))
    lines = {title: len(axes.lines) for title, axes in drawn.items()}
    assert lines == {"sst: accuracy": 1, "para: accuracy": 1, "sts: pearson": 2, "sst: macro f1": 1}


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
    save_figure(curves.draw_curve_bands({f"group {i}": [tmp_path / "run"] for i in range(9)}), file)
    assert imread(file).std() > 0.01


def test_a_run_without_evaluations_draws_and_one_without_report_or_log_is_named(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(UserError, match=r"run/report\.json does not exist"):
        curves.draw_curve_bands({"g": [run]})
    write_run(run)
    (run / "metrics.jsonl").write_text("")
    assert curves.draw_curve_bands({"g": [run] * 2}).axes
    for damaged in ("no line of a log", json.dumps(evaluation(1, "holdout", sst=1))):
        (run / "metrics.jsonl").write_text(damaged + "\n")
        with pytest.raises(UserError, match=r"run/metrics\.jsonl: "):
            curves.draw_curve_bands({"g": [run]})


def staged(folder, *begins):
    """A run with stages that begin after these steps."""
    write_run(folder)
    with (folder / "metrics.jsonl").open("a") as file:
        for step, name in begins:
            line = {"event": "stage", "step": step, "stage": name, "tasks": []}
            file.write(json.dumps(line) + "\n")
    return folder


def test_stages_are_marked_where_all_runs_begin_them_at_the_same_steps(tmp_path):
    same = [staged(tmp_path / str(seed), (40, "heads $"), (80, "all")) for seed in (1, 2)]
    other = staged(tmp_path / "other", (60, "all"))
    for axes in panels(curves.draw_curve_bands({"a": same})).values():
        assert [text.get_text() for text in axes.texts] == [r"heads \$", "all"]
        assert [text.xy[0] for text in axes.texts] == [40, 80]
    for axes in panels(curves.draw_curve_bands({"a": same, "b": [other]})).values():
        assert not axes.texts


def test_the_legend_names_the_groups_in_their_order(tmp_path):
    write_run(tmp_path / "sts", only=("sts",))
    write_run(tmp_path / "both", only=("sst", "sts"))
    groups = {"b": [tmp_path / "sts"], "a": [tmp_path / "both"]}  # b is not in the first panel
    legend = curves.draw_curve_bands(groups).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["b (1 seed)", "a (1 seed)"]


def test_the_heatmap_shows_every_number_and_a_dash_where_there_is_none():
    values = np.array([[0.5, math.nan, 0.75], [0.125, 0.25, 1.0]])
    labels = ["a", "b"], ["x", "a long $ column", "z"]
    axes = maps.draw_heatmaps([maps.Heatmap(values, *labels)]).axes[0]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert shown == {
        (0.5, 0.5): "0.500", (1.5, 0.5): "-", (2.5, 0.5): "0.750",
        (0.5, 1.5): "0.125", (1.5, 1.5): "0.250", (2.5, 1.5): "1.000",
    }  # fmt: skip
    assert [label.get_text() for label in axes.get_xticklabels()][1] == r"a long \$ column"


@pytest.mark.parametrize("values", [np.full((1, 1), np.nan), np.full((2, 2), 0.5), np.eye(12)])
def test_any_values_fit(tmp_path, values):
    names = [f"a rather long combination, number {i}" for i in range(len(values))]
    save_figure(maps.draw_heatmaps([maps.Heatmap(values, names, names)]), tmp_path / "h.png")
    assert imread(tmp_path / "h.png").size


def test_several_heatmaps_have_one_scale_and_name_their_sides(tmp_path):
    low, high = np.array([[0.25, 0.5]]), np.array([[1.0, math.nan]])
    key = "tasks.a_long_name_of_a_task.pooling.option"
    several = [
        maps.Heatmap(values, ["x"], ["1", "2"], "training.lr", key) for values in (low, high)
    ]
    first, second, bar = maps.draw_heatmaps(several, "accuracy $").axes
    assert bar.get_ylim() == (0.25, 1.0) and bar.get_ylabel() == r"accuracy \$"
    assert first.get_ylabel() == "training.lr"
    assert first.get_xlabel() == "…me_of_a_task.pooling.option"
    meshes = [axes.collections[0] for axes in (first, second)]
    darkest, brightest = (mesh.to_rgba(mesh.get_array())[0, 0, :3] for mesh in meshes)
    assert darkest.sum() < brightest.sum()
    save_figure(maps.draw_heatmaps(several * 4), tmp_path / "h.png")
    assert imread(tmp_path / "h.png").std() > 0.01


def test_the_gap_is_the_loss_above_the_training_loss_since_the_evaluation_before(tmp_path):
    def lose(event):
        if event["event"] == "eval":
            for place, scores in enumerate(event["tasks"].values()):
                scores["loss"] = 1 + place + 1 / (1 + event["step"])

    write_run(tmp_path)
    events = edited_log(tmp_path, lose)
    drawn = panels(curves.draw_curve_bands({"run": [tmp_path]}, curves.loss_gaps, "gap"))
    for task in ("sst", "para", "sts"):
        steps = {e["step"]: e["loss"] for e in events if e["event"] == "step" and e["task"] == task}
        before, expected = 0, []
        for event in evaluations(tmp_path):
            between = [v for step, v in steps.items() if before < step <= event["step"]]
            before = event["step"]
            losses = [loss for loss in between if loss is not None]
            if losses:
                expected.append(event["tasks"][task]["loss"] - sum(losses) / len(losses))
        lines = {line.get_label(): line for line in drawn[f"{task}: loss gap"].lines}
        assert expected
        np.testing.assert_allclose(lines["run (1 seed)"].get_ydata(), expected)


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
    (axes,) = draw_domains({"costs $5": result}).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["STS12 MSRpar", "STS12 MSRvid", "SICK-R"]
    assert len(axes.collections) == 4
    heights = [marks.get_offsets().data[:, 1].round(3) for marks in axes.collections]
    assert len(set(np.concatenate(heights))) == 12  # equal scores do not hide one another


def test_several_encoders_have_a_panel_of_subsets_each():
    first, second = suites(0.1, 3, "STS12", "STS-B"), suites(0.5, 5, "STS13", "STS-B")
    figure = draw_domains({"runs/small": first, "large": second})
    assert [axes.get_title() for axes in figure.axes] == ["small", "large"]
    (small, large) = (axes.collections[1].get_offsets() for axes in figure.axes)  # the mean
    np.testing.assert_allclose(small[:, 0], [12, 12])
    assert np.ma.getmaskarray(large[0])[0] or np.isnan(large[0, 0])  # it lacks the suite
    assert large[1, 0] == pytest.approx(54)


def suites(start: float, layers: int, *names: str) -> dict:
    curve = [start + i / 100 for i in range(layers)]
    entry = {"cls": [None, *curve[1:]], "mean": curve, "max": curve, "first-last mean": start}
    return {name: {"all": entry, "subsets": {"test": entry}} for name in names}


def test_several_encoders_have_a_panel_per_pooling():
    """A curve per encoder, the mean over suites; the average of layers is a horizontal line."""
    small = suites(0.1, 3, "STS12") | suites(0.3, 3, "STS-B")
    figure = draw_layers({"runs/small": small, "large": suites(0.5, 5, "STS12", "STS13")})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["[CLS]", "mean of tokens", "maximum over tokens"]
    for axes in figure.axes:
        assert sum(line.get_alpha() == 0.3 for line in axes.lines if len(line.get_xdata())) == 3
    named = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(named["small"].get_ydata(), [math.nan, 21, 22])
    large = named["large (1 of 2 suites)"]
    np.testing.assert_allclose(large.get_ydata(), [math.nan, 51, 52, 53, 54])
    levels = [line for line in figure.axes[1].lines if line.get_linewidth() == 1.2]
    assert [line.get_ydata()[0] for line in levels] == pytest.approx([20, 50])
    assert levels[1].get_color() == large.get_color() != named["small"].get_color()
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["small", "large (1 of 2 suites)", "mean of first and last layer", "one suite"]


LONG = "runs/a-directory-with-a-long-name/cells/and-a-cell-with-a-long-name/seed-1"


@pytest.mark.parametrize("encoders", [1, 2, 5])
@pytest.mark.parametrize("names", [["STS-B"], NAMES])
def test_names_are_distinct_and_panels_are_high(encoders, names):
    every = {f"{LONG}, task {n}": suites(0.1 * n, 13, *names) for n in range(encoders)}
    several = 4 if encoders == 1 else encoders + 2  # poolings, or encoders, average and suites
    for figure, entries in ((draw_layers(every), several), (draw_domains(every), 4)):
        assert not faults(figure)
        for axes in figure.axes:
            assert axes.get_position().height * figure.get_figheight() > 1  # inch
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(set(texts)) == len(texts) == entries
        assert figure.get_suptitle().startswith("Agreement of the sentence vectors with human sco")


def event(step, **cosines):
    parts = {"all": 1, "embeddings": 2, "layer_1": 3}
    shares = {part: {p: v / by for p, v in cosines.items()} for part, by in parts.items()}
    return {"event": "conflict", "step": step, "cosines": shares}


def test_lines_and_cells_are_the_logged_cosines():
    events = [
        {"event": "step", "step": 1},
        event(10, sst_qqp=-0.4, sst_sts=0.2),
        event(20, sst_qqp=0.2),
    ]
    figure = draw_conflict(events, [(15, "second")])
    over_time, by_layer = figure.axes[:2]
    lines = {line.get_label(): line.get_ydata() for line in over_time.lines}
    np.testing.assert_allclose(lines["sst_qqp"], [-0.4, -0.1])  # the running mean
    np.testing.assert_allclose(lines["sst_sts"], [0.2, 0.2])
    dots = [line.get_ydata() for line in over_time.lines if line.get_marker() == "."]
    np.testing.assert_allclose(dots, [[-0.4, 0.2], [0.2, np.nan]])
    cells = by_layer.collections[0].get_array()
    np.testing.assert_allclose(cells, [[-0.05, 0.1], [-0.1 / 3, 0.2 / 3]])
    assert [tick.get_text() for tick in by_layer.get_yticklabels()] == ["embeddings", "layer 1"]
    assert {text.get_text() for text in by_layer.texts} == {"-0.050", "0.100", "-0.033", "0.067"}


def test_a_part_that_a_stage_freezes_is_shown_where_another_does_not():
    late, early = event(30, sst_qqp=0.2), event(10, sst_qqp=0.4)
    late["cosines"]["layer_10"] = {"sst_qqp": 0.3}
    del early["cosines"]["embeddings"], early["cosines"]["layer_1"]
    by_layer = draw_conflict([early, late], []).axes[1]
    names = [tick.get_text() for tick in by_layer.get_yticklabels()]
    assert names == ["embeddings", "layer 1", "layer 10"]
    np.testing.assert_allclose(by_layer.collections[0].get_array(), [[0.1], [0.2 / 3], [0.3]])


def test_no_figure_of_what_was_not_measured():
    assert draw_conflict([{"event": "step", "step": 1}, event(5) | {"cosines": {}}], []) is None
    assert draw_space([], []) is None
    assert draw_space([evaluation(10, sts={"pearson": 0.4})], []) is None


def evaluation(step, split="dev", **tasks):
    return {"event": "eval", "step": step, "split": split, "tasks": tasks}


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
    names = [
        "alignment of similar pairs", "uniformity of all sentences", "mean cosine of any two",
    ]  # fmt: skip
    assert titles == [f"{name}\n(lower is better)" for name in names]
    lines = figure.axes[1].lines
    np.testing.assert_array_equal(lines[0].get_data(), [[0, 10, 20, 30], [-1, -2, -3, -4]])
    np.testing.assert_array_equal(lines[1].get_ydata(), [0, np.nan, -1, np.nan])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
