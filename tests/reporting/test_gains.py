"""The gain of averaging, against plain loops."""

import json
import statistics
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from multitask.config.registry import task_type
from multitask.reporting.gains import average, gains, gains_table
from multitask.reporting.read_runs import ScoredRows
from multitask.tasks.bootstrap import resampled_rows
from multitask.tasks.rows import Rows

ROWS = 50
KINDS = {"sst": ("class", 3, "accuracy"), "para": ("binary", None, "accuracy")}
KINDS["sts"] = ("number", None, "pearson")


def rows_of(labels):
    names = [str(i) for i in range(len(labels))]
    return Rows("made up", names, [(name,) for name in names], labels)


def one(task, run, labels, scores):
    label_type, _, metric = KINDS[task]
    predictions = average(task_type(label_type), [scores])[0]
    return ScoredRows(
        Path(run), rows_of(labels), task_type(label_type), metric, predictions, scores
    )


def made_up(task, count=3):
    """An ensemble and its members, with different errors."""
    generator = np.random.default_rng(sum(map(ord, task)))
    label_type, classes, _ = KINDS[task]
    if label_type == "number":
        labels = generator.uniform(0, 5, ROWS)
        scores = [labels[:, None] + generator.normal(0, 2, (ROWS, 1)) for _ in range(count)]
    else:
        labels = generator.integers(0, classes or 2, ROWS)
        shape = (ROWS, classes or 1)
        noise = [generator.random(shape) for _ in range(count)]
        right = np.eye(classes)[labels] if classes else labels[:, None]
        scores = [0.6 * each + 0.4 * right for each in noise]
        scores = [s / s.sum(1, keepdims=True) if classes else s for s in scores]
    members = [one(task, f"run-{i}", labels, s) for i, s in enumerate(scores)]
    return one(task, "all", labels, average(task_type(label_type), scores)[1]), members


probabilities = st.lists(
    st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=4, max_size=4
)  # of 3 runs each, for 4 classes or rows


@given(probabilities)
def test_averages_equal_plain_loops(table):
    scores = [np.array([[table[c][m] for c in range(4)]]) for m in range(3)]  # one row, 4 classes
    predictions, shown = average(task_type("class"), scores)
    means = [sum(table[c]) / 3 for c in range(4)]
    assert shown[0] == pytest.approx(means)
    assert means[predictions[0]] == pytest.approx(max(means))

    columns = [np.array([[table[r][m]] for r in range(4)]) for m in range(3)]  # four rows
    predictions, shown = average(task_type("binary"), columns)
    for r in range(4):
        assert shown[r, 0] == pytest.approx(means[r])
        if abs(means[r] - 0.5) > 1e-9:
            assert predictions[r] == (1 if means[r] > 0.5 else 0)
    predictions, shown = average(task_type("number"), columns)
    assert predictions == pytest.approx(means) and shown[:, 0] == pytest.approx(means)


@pytest.mark.parametrize(
    ("kind", "scores", "expected"),
    [  # one half is no paraphrase, as in the heads; a number may leave its range
        ("binary", [[[0.4], [0.5]], [[0.6], [0.52]]], [0, 1]),
        ("number", [[[6.0]], [[5.5]]], [5.75]),
    ],
)
def test_the_average_decides_at_the_ends(kind, scores, expected):
    assert average(task_type(kind), [np.array(each) for each in scores])[0].tolist() == expected


def naive_score(task, member, rows):
    gold, predicted = member.rows.labels[rows], member.predictions[rows]
    return pearsonr(gold, predicted)[0] if task == "sts" else accuracy_score(gold, predicted)


def test_tasks_that_are_only_evaluated_do_not_count_in_the_mean():
    tasks = {task: made_up(task) for task in KINDS}
    one, *others = KINDS
    alone = gains(["a", "b", "c"], {one: tasks[one]}, resamples=20)
    result = gains(["a", "b", "c"], tasks, evaluate_only=others, resamples=20)
    assert result["overall"] == alone["overall"] and set(result["tasks"]) == set(KINDS)
    every = gains(["a", "b", "c"], tasks, evaluate_only=KINDS, resamples=20)
    assert every["overall"] == gains(["a", "b", "c"], tasks, resamples=20)["overall"]


def test_gains_equal_a_naive_paired_bootstrap():
    tasks = {task: made_up(task) for task in KINDS}
    result = gains(["a", "b", "c"], tasks, resamples=40)
    drawn_means, drawn_bests, points = [], [], []
    for task, (ensemble, members) in tasks.items():
        entry = result["tasks"][task]
        every = np.arange(ROWS)
        values = [naive_score(task, member, every) for member in members]
        averaged = naive_score(task, ensemble, every)
        points.append([averaged, *values])
        assert entry["ensemble"] == pytest.approx(averaged)
        assert entry["dev"][KINDS[task][2]] == pytest.approx(averaged)
        assert entry["members"] == pytest.approx(values)
        assert entry["mean"] == pytest.approx(statistics.fmean(values))
        best = values.index(max(values))
        assert entry["best"] == pytest.approx(values[best])
        assert entry["best_run"] == "abc"[best]
        seed = zlib.crc32(task.encode())
        over_mean, over_best = [], []
        for rows in np.concatenate(list(resampled_rows(ROWS, 40, seed))):
            drawn = [naive_score(task, member, rows) for member in members]
            mine = naive_score(task, ensemble, rows)
            over_mean.append(mine - statistics.fmean(drawn))
            over_best.append(mine - drawn[best])
            drawn_bests.append((mine, *drawn))
        drawn_means.append(over_mean)
        for key, differences, base in (
            ("gain_over_mean", over_mean, statistics.fmean(values)),
            ("gain_over_best", over_best, values[best]),
        ):
            low, high = np.percentile(differences, (2.5, 97.5))
            wanted = {"value": averaged - base, "low": low, "high": high}
            assert entry[key] == pytest.approx(wanted, abs=1e-9)
    overall = result["overall"]
    means = np.mean(points, axis=0)
    assert [overall["ensemble"], *overall["members"]] == pytest.approx(means)
    wanted = np.percentile(np.mean(drawn_means, axis=0), (2.5, 97.5))
    gain = overall["gain_over_mean"]
    assert (gain["low"], gain["high"]) == pytest.approx(tuple(wanted), abs=1e-9)
    by_resample = np.array(drawn_bests).reshape(3, 40, 4).mean(axis=0)
    best = int(means[1:].argmax())
    wanted = np.percentile(by_resample[:, 0] - by_resample[:, 1 + best], (2.5, 97.5))
    gain = overall["gain_over_best"]
    assert (gain["low"], gain["high"]) == pytest.approx(tuple(wanted), abs=1e-9)
    assert overall["best_run"] == "abc"[best]
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_with_itself_gains_nothing(count):
    tasks = {}
    for task in KINDS:
        member = made_up(task)[1][0]
        label_type = KINDS[task][0]
        scores = average(task_type(label_type), [member.scores] * count)[1]
        tasks[task] = (one(task, "all", member.rows.labels, scores), [member] * count)
    result = gains(["same"] * count, tasks, resamples=50)
    for entry in (*result["tasks"].values(), result["overall"]):
        for key in ("gain_over_mean", "gain_over_best"):
            assert entry[key] == pytest.approx({"value": 0, "low": 0, "high": 0}, abs=1e-12)


def test_an_undefined_member_has_no_gain_and_is_never_best():
    ensemble, members = made_up("sts", 2)
    labels = members[0].rows.labels
    flat = one("sts", "flat", labels, np.full((ROWS, 1), 2.5))
    result = gains(["flat", "good"], {"sts": (ensemble, [flat, members[0]])}, resamples=20)
    entry = result["tasks"]["sts"]
    assert entry["members"][0] is None and entry["mean"] is None and entry["best_run"] == "good"
    assert entry["gain_over_mean"] == {"value": None, "low": None, "high": None}
    assert entry["gain_over_best"]["value"] == pytest.approx(entry["ensemble"] - entry["best"])
    result = gains(["flat", "flat"], {"sts": (flat, [flat, flat])}, resamples=20)
    entry = result["tasks"]["sts"]
    assert entry["best"] is None and entry["best_run"] is None and entry["ensemble"] is None
    assert "- [-, -]" in gains_table(result)


def test_the_table_shows_every_task_and_their_mean():
    tasks = {task: made_up(task) for task in KINDS}
    result = gains(["runs/a", "runs/b", "runs/c"], tasks, resamples=20)
    lines = gains_table(result).splitlines()
    for line, (task, entry) in zip(lines[2:5], result["tasks"].items(), strict=True):
        assert line.startswith(f"{task} {KINDS[task][2]}") and f"{entry['ensemble']:.3f}" in line
        assert f"{entry['best']:.3f} {entry['best_run']}" in line
        assert f"{entry['gain_over_mean']['value']:+.3f} [" in line
    assert lines[5].startswith("mean of tasks")
    single = gains_table(gains(["a", "b", "c"], {"sst": tasks["sst"]}, resamples=20))
    assert "mean of tasks" not in single and "20 resamples" in single
