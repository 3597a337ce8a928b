"""Every figure is drawn, decodes, and shows the saved numbers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from multitask.config.run_directory import load_lines
from multitask.config.saved.report_model import TaskReport
from multitask.reporting.figures import training_curves
from multitask.reporting.figures.confusion_matrix import confusion
from multitask.reporting.figures.scatter import scatter
from multitask.reporting.figures.style import new_figure, save_figure, step_axis
from tests.support.fabricated_run import write_run
from tests.support.run_files import full_report, task_entry

pytestmark = pytest.mark.usefixtures("no_warnings")


def one_task(folder):
    """A run of one task alone, that selected no step."""
    report = write_run(folder)
    report["tasks"] = {"para": report["tasks"]["para"] | {"selected_step": None}}
    (folder / "report.json").write_text(json.dumps(report))


def panels(figure):
    """Axes by title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_all_figures_are_written_and_decode(tmp_path):
    write_run(tmp_path)
    paths = training_curves.draw_all(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        "figures/curves.png",
        "figures/confusion_sst.png",
        "figures/confusion_para.png",
        "figures/scatter_sts.png",
        "figures/schedule.png",
    ]
    for path in paths:
        image = imread(path)
        assert min(image.shape[:2]) > 300
        assert image.std() > 0.01  # not blank


def test_a_second_drawing_replaces_the_first_and_needs_neither_pyplot_nor_torch(tmp_path):
    one_task(tmp_path)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "curves.png").write_text("old")
    code = (
        "import pathlib, sys; from multitask.reporting.figures.training_curves import draw_all;"
        "draw_all(pathlib.Path(sys.argv[1]));"
        "assert not {'torch', 'matplotlib.pyplot'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert imread(tmp_path / "figures" / "curves.png").size


def test_the_curves_show_the_evaluations_baselines_and_selected_step(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    drawn = panels(training_curves._curves(full_report(**report), events))
    assert list(drawn) == ["sst: accuracy", "para: accuracy", "sts: pearson"]
    lines = {line.get_label(): line for line in drawn["sst: accuracy"].lines}
    evals = [event for event in events if event["event"] == "eval" and event["split"] == "dev"]
    assert list(lines["dev"].get_xdata()) == [event["step"] for event in evals]
    np.testing.assert_equal(
        lines["dev"].get_ydata(), [event["tasks"]["sst"]["accuracy"] for event in evals]
    )
    baselines = report["tasks"]["sst"]["baselines"]
    assert lines["frozen encoder"].get_ydata()[0] == baselines["frozen"]["accuracy"]
    assert lines["trivial (labels only)"].get_ydata()[0] == baselines["trivial"]["accuracy"]
    assert lines["selected step"].get_xdata() == [report["tasks"]["sst"]["selected_step"]]

    # Null: the first evaluation of sts is a gap, and neither baseline has a line.
    lines = {line.get_label(): line for line in drawn["sts: pearson"].lines}
    assert (
        np.isnan(lines["dev"].get_ydata()[0]) and not np.isnan(lines["dev"].get_ydata()[1:]).any()
    )
    assert set(lines) == {"dev", "holdout", "selected step"}


def test_the_confusion_matrix_shows_counts_and_names_without_mathematics(tmp_path):
    report = write_run(tmp_path)
    axes = confusion("sst", full_report(**report).tasks["sst"], tmp_path).axes[0]
    counts = [int(text.get_text().split("\n")[0].replace(",", "")) for text in axes.texts]
    assert counts == np.ravel(report["tasks"]["sst"]["dev"]["confusion"]).tolist()
    assert [label.get_text() for label in axes.get_yticklabels()][3] == r"costs \$5 or \$6"
    assert axes.yaxis_inverted()  # the first class is on top


def test_of_tagged_words_the_words_are_counted():
    dev = {"confusion": [[9, 1], [0, 5]]}
    figure = confusion("ner", task_entry("tags", dev=dev), Path())
    assert figure.axes[0].get_title() == "ner: 14 of 15 words of dev right"


def test_in_joint_steps_every_task_has_every_step():
    entry = task_entry("class", turns={"trained": 400, "skipped": 0})
    events = [{"event": "step", "step": i, "task": t} for i in range(1, 401) for t in ("a", "b")]
    figure = training_curves._schedule(full_report(tasks={"a": entry, "b": entry}), events)
    assert "full height = 100 %" in figure.axes[0].get_title()


def test_a_task_that_is_only_evaluated_has_a_curve_of_dev(tmp_path):
    report = write_run(tmp_path)
    events = [
        {"event": "eval", "step": s, "split": "holdout", "tasks": {"sst": {"accuracy": 0.5}}}
        for s in (1, 2)
    ]
    for only, label in ((False, "holdout"), (True, "dev")):
        axes = new_figure(4, 3).subplots()
        result = report["tasks"]["sst"] | {"evaluate_only": only, "selected_step": 2}
        entry = TaskReport.model_validate(result)
        training_curves._metric_curve(axes, "sst", entry, events, selects="holdout")
        assert axes.lines[0].get_label() == label


def test_the_counts_of_the_confusion_matrix_can_be_read_on_every_colour():
    dev = {"confusion": [[99, 1], [30, 70]]}
    figure = confusion("t", task_entry("class", dev=dev), Path())
    colours = [text.get_color() for text in figure.axes[0].texts]
    # dark blue, near white, light blue, a blue on which black has the higher contrast
    assert colours == ["white", "black", "black", "black"]


def test_a_stage_that_evaluates_its_own_tasks_only_is_marked_and_leaves_gaps(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    for event in events:
        if event["event"] == "eval" and event["step"] > 60:
            event["tasks"] = {"sst": event["tasks"]["sst"]}
    events.append({"event": "stage", "step": 60, "stage": "one $ alone", "tasks": ["sst"]})
    figure = training_curves._curves(full_report(**report), events)
    drawn = panels(figure)
    last = {
        title: max(axes.lines[0].get_xdata()) for title, axes in drawn.items() if axes.get_title()
    }
    assert last == {"sst: accuracy": 120, "para: accuracy": 60, "sts: pearson": 60}
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == [r"one \$ alone"]
    save_figure(figure, tmp_path / "curves.png")


def test_the_scatter_says_pearson(tmp_path):
    report = write_run(tmp_path)
    file, result = tmp_path / "predictions" / "sts.dev.jsonl", report["tasks"]["sts"]
    file.write_text(file.read_text() + '{"label": null, "prediction": 1.0}\n')
    axes = scatter("sts", TaskReport.model_validate(result), file).axes[0]
    assert axes.get_title() == f"sts: Pearson {result['dev']['pearson']:.3f} on 120 dev rows"
    assert len(axes.collections[0].get_offsets()) == 120
    result["dev"]["pearson"] = None
    assert (
        "undefined" in scatter("sts", TaskReport.model_validate(result), file).axes[0].get_title()
    )


def test_the_schedule_marks_skipped_turns_and_the_stop(tmp_path):
    report = write_run(tmp_path)
    events = load_lines(tmp_path / "metrics.jsonl")
    figure = training_curves._schedule(full_report(**report), events)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["trained", "turn skipped", "stopped early"]
    without = [event for event in events if event["event"] == "step"]
    legend = training_curves._schedule(full_report(**report), without).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["trained"]


@pytest.mark.parametrize("tasks", [1, 3, 7])
@pytest.mark.parametrize("last", [1, 119, 120, 121, 360, 10_000])
def test_the_bins_of_the_schedule_cover_every_step_and_stay_few(last, tasks):
    edges = training_curves._schedule_bins(last, tasks)
    assert (edges[0], edges[-1]) == (0.5, last + 0.5)
    assert 1 <= len(edges) - 1 <= training_curves.SCHEDULE_BINS
    assert (np.diff(edges) > 0).all()
    if last > training_curves.SCHEDULE_BINS:
        assert set(np.diff(edges[:-1]) % tasks) == {0}


def test_smoothing_is_a_mean_that_skips_nan():
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])
    # A window of five; at the ends, and beside NaN, the mean of what is there.
    expected = [1.5, 7 / 3, 3.0, 4.25, 5.0, 5.0]
    np.testing.assert_allclose(training_curves._smoothed(values), expected)
    assert np.isnan(training_curves._smoothed(np.full(3, np.nan))).all()
    assert training_curves._smoothed(np.array([2.0])) == [2.0]


def test_a_run_without_events_still_draws(tmp_path):
    one_task(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    assert len(training_curves.draw_all(tmp_path)) == 3


@pytest.mark.parametrize("size", [1, 13, 31])
def test_any_number_of_classes_fits(tmp_path, size):
    dev = {"confusion": np.eye(size, dtype=int).tolist()}
    names = [f"intent number {i}" for i in range(size)]
    result = task_entry("class", names, dev=dev)
    figure = confusion("a task with a rather long name", result, tmp_path)
    figure.savefig(tmp_path / "confusion.png", dpi=50)


@pytest.mark.parametrize("steps", [[14], [14, 15], range(0, 3000, 300)])
def test_ticks_are_whole_steps(steps):
    axes = new_figure(4, 3).subplots()
    axes.plot(list(steps), list(steps), marker="o")
    step_axis(axes)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(set(names)) == len(names)
