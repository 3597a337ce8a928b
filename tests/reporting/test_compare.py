# Long: it mirrors compare.py.
"""Comparisons of fabricated runs: against naive loops, and with every gap that runs may have."""

import json
import math
import statistics
import zlib

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error

from multitask.reporting.compare import compare, transfer
from multitask.reporting.read_runs import Group, group_runs
from multitask.reporting.sheet import MEAN
from multitask.reporting.sheet_tables import metric_tables
from multitask.reporting.statistics import drawn_seeds, scored_groups
from multitask.reporting.write_sheet import write_sheet
from multitask.store.run_log import load_lines
from multitask.tasks.bootstrap import resampled_rows
from multitask.utils.errors import UserError
from tests.support.fabricated_run import edited, rewritten, write_run

TASKS = ("sst", "para", "sts")
ROWS = 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories by setting: three paired ones, one with other seeds, one with a single seed."""
    root = tmp_path_factory.mktemp("runs")
    settings = {"base": (0.3, (1, 2, 3)), "good": (0.1, (1, 2, 3)), "odd": (0.1, (7, 8))}
    settings["alone"] = (0.5, (1,))
    result = {}
    for number, (name, (noise, seeds)) in enumerate(settings.items()):
        result[name] = [root / f"{name}-{seed}" for seed in seeds]
        for directory, seed in zip(result[name], seeds, strict=True):
            write_run(directory, rows=ROWS, seed=seed, noise=noise, lr=number)
    return result


def naive_differences(task, base, other, seeds, resamples, value=None):
    """Resampled differences of the seed means by plain loops, with scikit-learn and scipy.

    ``value`` of labels and predictions; default: Pearson for sts, accuracy for the others.
    """

    def read(run):
        records = load_lines(run / "predictions" / f"{task}.dev.jsonl")
        gold = [record["label"] for record in records]
        key = (lambda r: r["scores"][0]) if task == "sts" else (lambda r: r["prediction"])
        return np.array(gold), np.array([key(record) for record in records])

    def score(run, rows):
        gold, predicted = (side[rows] for side in read(run))
        if value:
            return value(gold, predicted)
        if task == "sts":
            return pearsonr(gold, predicted).statistic
        return accuracy_score(gold, predicted)

    drawn = [r for rows in resampled_rows(ROWS, resamples, zlib.crc32(task.encode())) for r in rows]
    differences = []
    for r in range(resamples):
        means = [
            statistics.fmean(score(side[s], drawn[r]) for s in drawn_seeds(numbers, resamples)[r])
            for side, numbers in zip((base, other), seeds, strict=True)
        ]
        differences.append(means[1] - means[0])
    return np.array(differences)


@pytest.mark.parametrize(("other", "seeds"), [("good", (1, 2, 3)), ("odd", (7, 8))])
def test_differences_equal_a_naive_paired_bootstrap(other, seeds, runs):
    actual = compare(
        [Group("base", runs["base"]), Group("other", runs[other])], "base", resamples=30
    )
    base, entry = actual["rows"]
    overall = []
    for task in TASKS:
        naive = naive_differences(task, runs["base"], runs[other], ((1, 2, 3), seeds), 30)
        overall.append(naive)
        difference = entry["cells"][task]["difference"]
        expected = np.percentile(naive, (2.5, 97.5))
        assert (difference["low"], difference["high"]) == pytest.approx(tuple(expected), abs=1e-9)
        means = [group["cells"][task]["mean"] for group in (entry, base)]
        assert difference["value"] == pytest.approx(means[0] - means[1])
    difference = entry["cells"][MEAN]["difference"]
    expected = np.percentile(np.mean(overall, axis=0), (2.5, 97.5))
    assert (difference["low"], difference["high"]) == pytest.approx(tuple(expected), abs=1e-9)


def test_scores_are_those_of_the_reports(runs):
    result = compare(group_runs([*runs["base"], *runs["alone"]]), "base", resamples=20)
    assert [group["name"] for group in result["rows"]] == ["base", "alone"]
    reports = [json.loads((run / "report.json").read_text()) for run in runs["base"]]
    base, alone = result["rows"]
    assert base["seeds"] == [1, 2, 3] and base["runs"] == [str(run) for run in runs["base"]]
    for task in TASKS:
        metric = result["columns"][task]["metric"]
        values = [report["tasks"][task]["dev"][metric] for report in reports]
        assert base["cells"][task]["values"] == values
        assert base["cells"][task]["mean"] == pytest.approx(np.mean(values))
        assert base["cells"][task]["sd"] == pytest.approx(np.std(values, ddof=1))
        assert alone["cells"][task]["sd"] is None
        assert base["cells"][task]["difference"] is None
    means = [report["overall"]["mean"] for report in reports]
    assert base["cells"][MEAN]["values"] == pytest.approx(means)
    assert base["cells"][MEAN]["best"] and not alone["cells"][MEAN]["best"]


def test_comparisons_are_plain_json_and_repeat(runs):
    groups = group_runs([run for group in runs.values() for run in group])
    result = compare(groups, "base", resamples=50)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert compare(groups, "base", resamples=50) == result
    # the other groups do not change what two of them say of each other, but for Holm
    fewer = compare(groups[:2], "base", resamples=50)
    keys = ("value", "low", "high", "p")
    for task in TASKS:
        many, few = (f["rows"][1]["cells"][task]["difference"] for f in (result, fewer))
        assert [many[key] for key in keys] == [few[key] for key in keys]
        assert many["p_holm"] >= few["p_holm"] == few["p"]


def test_holm_corrects_over_the_groups_of_each_column(runs):
    result = compare(
        group_runs([r for members in runs.values() for r in members]), "base", resamples=200
    )
    for column in (*TASKS, MEAN):
        entries = [row["cells"][column] for row in result["rows"][1:]]
        *several, alone = (e["difference"] for e in entries)
        ranked = sorted((d["p"], d["p_holm"]) for d in several)
        assert len(ranked) == 2
        assert ranked[0][1] == pytest.approx(min(1, 2 * ranked[0][0]))
        assert ranked[1][1] == pytest.approx(max(ranked[1][0], ranked[0][1]))
        # one seed says nothing about another: the interval is of the rows alone
        assert alone["p"] is None and alone["p_holm"] is None and alone["low"] < alone["high"]


def test_equal_predictions_are_one_comparison_and_differ_by_nothing(tmp_path, runs):
    """As cells of a probe grid that share their probes."""
    copies = {"again": 0.1, "same": 0.3}  # of `good`, and of the baseline
    for name, noise in copies.items():
        for seed in (1, 2, 3):
            write_run(tmp_path / f"{name}-{seed}", rows=ROWS, seed=seed, noise=noise, lr=name)
    more = [tmp_path / f"{name}-{seed}" for name in copies for seed in (1, 2, 3)]
    result = compare(group_runs([*runs["base"], *runs["good"], *more]), "base", resamples=200)
    for column in (*TASKS, MEAN):
        first, second, none = (row["cells"][column]["difference"] for row in result["rows"][1:])
        assert first == second and first["p_holm"] == first["p"]
        assert none == {"value": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "p_holm": 1.0}


def test_a_task_that_a_group_lacks_is_a_gap(tmp_path, runs):
    write_run(tmp_path / "pair-1", rows=ROWS, seed=1, only=("sst", "sts"))
    groups = group_runs([*runs["base"], tmp_path / "pair-1"])
    base, pair = compare(groups, "base", resamples=20)["rows"]
    assert set(pair["cells"]) == {"sst", "sts"}
    assert pair["cells"]["sst"]["difference"] and MEAN in base["cells"]
    assert not base["cells"]["para"]["best"]  # it has no rival
    base, pair = compare(groups, "pair", resamples=20)["rows"]  # the baseline lacks it
    assert base["cells"]["para"]["difference"] is None and base["cells"][MEAN]["difference"] is None
    assert base["cells"]["sst"]["difference"] and pair["cells"]["sst"]["difference"] is None


@pytest.mark.parametrize("score", [2.5, None], ids=["constant", "diverged"])
def test_an_undefined_score_is_no_score_and_never_the_best(score, tmp_path, runs):
    for seed in (1, 2):
        write_run(tmp_path / f"flat-{seed}", rows=ROWS, seed=seed, lr=5)
    flat_1 = {"scores": [score], "prediction": score}
    rewritten(tmp_path / "flat-1", "sts", lambda i, r: r | flat_1)
    edited(tmp_path / "flat-1", lambda r: r["tasks"]["sts"]["dev"].update(pearson=None))
    groups = group_runs([*runs["base"], tmp_path / "flat-1", tmp_path / "flat-2"])
    for baseline in ("base", "flat"):
        result = compare(groups, baseline, resamples=20)
        base, flat = result["rows"]
        assert flat["cells"]["sts"]["values"][0] is None and flat["cells"]["sts"]["values"][1]
        for entry in (flat["cells"]["sts"], flat["cells"][MEAN]):
            assert [entry[key] for key in ("mean", "sd", "low", "high")] == [None] * 4
            assert not entry["best"] and entry["difference"] is None
        assert base["cells"]["sts"]["difference"] is None
        assert (flat if baseline == "base" else base)["cells"]["sst"]["difference"]
        assert any("sts has no score" in note and "flat-1" in note for note in result["notes"])


def test_the_unclipped_scores_of_an_old_run_count_as_in_its_report(tmp_path, runs):
    """It saved clipped predictions, and reported the correlation of its scores."""
    write_run(tmp_path / "a", rows=ROWS, seed=1)
    rewritten(tmp_path / "a", "sts", lambda i, r: r | {"prediction": 0.0 if i % 2 else 5.0})
    result = compare(group_runs([*runs["base"], tmp_path / "a"]), "base", resamples=20)
    assert result["rows"][1]["cells"]["sts"]["difference"]["low"] is not None


def test_the_axes_points_and_settings_of_a_grid_are_kept(runs):
    axes = [
        {"key": "lr", "labels": ("lr_0", "lr_1"), "values": (0, math.inf)},
        {"key": "x", "labels": ("a",), "values": ({"u": 1},)},
    ]
    groups = [
        Group(name, runs[name], {"lr": label, "x": "a"})
        for name, label in (("base", "lr_0"), ("good", "lr_1"))
    ]
    result = compare(groups, "base", axes=axes, resamples=20)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["axes"] == [
        {"key": "lr", "labels": ["lr_0", "lr_1"], "values": [0, None]},
        {"key": "x", "labels": ["a"], "values": [{"u": 1}]},
    ]
    assert [group["point"] for group in result["rows"]] == [group.point for group in groups]
    assert [group["settings"] for group in result["rows"]] == [{"lr": 0}, {"lr": 1}]
    assert result["marginals"] == []
    plain = compare(group_runs(runs["base"]), "base", resamples=20)
    assert (plain["axes"], plain["rows"][0]["point"]) == ([], {})


def test_the_baseline_must_be_a_group(runs):
    with pytest.raises(UserError, match=r"'bas'.*did you mean 'base'"):
        compare(group_runs(runs["base"]), "bas")


def test_a_task_that_is_only_evaluated_may_stand_alone_and_has_no_mean(tmp_path):
    groups = [Group(name, [tmp_path / name]) for name in ("a", "b")]
    for noise, group in enumerate(groups):
        write_run(group.runs[0], rows=ROWS, only=("sts",), noise=0.1 * noise)
        edited(group.runs[0], lambda r: r["tasks"]["sts"].update(evaluate_only=True))
    comparison = compare(groups, "a", resamples=20)
    assert [set(row["cells"]) for row in comparison["rows"]] == [{"sts"}] * 2
    assert comparison["rows"][1]["cells"]["sts"]["difference"] is not None
    assert write_sheet(tmp_path / "out", comparison)


def test_probes_and_runs_of_other_tasks_are_never_seeds_of_one_group(tmp_path):
    for number in (1, 2):
        write_run(tmp_path / f"a-{number}", rows=ROWS, seed=number)
        write_run(tmp_path / f"p-{number}", rows=ROWS, seed=number)
        edited(tmp_path / f"p-{number}", lambda r: r.update(probe=True))
    write_run(tmp_path / "single", rows=ROWS, only=("sst",))
    *both, single = (tmp_path / name for name in ("a-1", "a-2", "p-1", "p-2", "single"))
    (note,) = compare(group_runs(both), "a", resamples=10)["notes"]
    assert note.startswith(f"Rows composed of probes: {both[2]}, {both[3]}.")
    for other, said in ((both[3], "one is a probe"), (single, "their tasks differ")):
        with pytest.raises(UserError, match=f"{both[0]} and {other} .* {said}"):
            compare([Group("mixed", [both[0], other])], "mixed")


def test_nan_resamples_are_left_out():
    samples = np.array([0.1, math.nan, 0.3])
    base, other = scored_groups([([0.1, 0.1], np.zeros(3)), ([0.3, 0.3], samples)], [None, 0])
    assert other["difference"]["low"] == pytest.approx(np.percentile([0.1, 0.3], 2.5))
    assert other["difference"]["p"] == pytest.approx(2 / 3)
    assert base["difference"] is None


def test_trials_are_compared_with_trials_alone(tmp_path):
    for name in ("run", "one", "two"):
        write_run(tmp_path / name, rows=ROWS, lr=name, trial=name != "run")
    for name in ("one", "two"):
        edited(tmp_path / name, lambda report: report.update(trial=True))
    with pytest.raises(UserError, match=r"one is a trial \(--try\), \S*run is none: compare"):
        compare(group_runs([tmp_path / "run", tmp_path / "one"]), "run")
    trials = compare(group_runs([tmp_path / "one", tmp_path / "two"]), "one")
    assert any("Trials" in note for note in trials["notes"])


def made(**groups):
    """A comparison that holds mean scores alone, by group and task."""
    cells = {name: {t: {"mean": mean} for t, mean in of.items()} for name, of in groups.items()}
    return {"rows": [{"name": name, "cells": of} for name, of in cells.items()]}


def test_delta_m_and_the_matrix_of_a_task_subset_grid():
    result = transfer(
        made(
            a={"sst": 0.5},
            b={"qqp": 0.8},
            c={"sts": 0.4},
            ab={"sst": 0.55, "qqp": 0.76},
            bc={"qqp": 0.8, "sts": 0.5},
            abc={"sst": 0.6, "qqp": 0.84, "sts": 0.3},
        )
    )
    assert result["singles"] == {"sst": "a", "qqp": "b", "sts": "c"}
    gains = result["gains"]
    assert gains["ab"]["tasks"] == pytest.approx({"sst": 10, "qqp": -5})
    assert gains["ab"]["delta_m"] == pytest.approx(2.5)
    assert gains["abc"]["delta_m"] == pytest.approx((20 + 5 - 25) / 3)
    assert list(gains) == ["ab", "bc", "abc"]
    matrix = result["matrix"]
    assert matrix["qqp"]["sst"] == {"change": pytest.approx(0.05), "row": "ab"}
    assert matrix["sst"]["qqp"]["change"] == pytest.approx(-0.04)
    assert matrix["sts"]["qqp"]["change"] == 0.0
    assert matrix["qqp"]["sts"]["change"] == pytest.approx(0.1)
    assert "sts" not in matrix["sst"]  # no run has these two alone


def test_a_task_that_was_never_trained_alone_leaves_a_group_out():
    singles = {"a": {"sst": 0.5}, "c": {"sts": 0.4}}
    assert transfer(made(**singles, ab={"sst": 0.5, "qqp": 0.5})) == {}
    assert transfer(made(**singles)) == {}
    assert transfer(made(ab={"sst": 0.5, "qqp": 0.5})) == {}


def test_undefined_scores_and_those_not_above_zero_have_no_relative_gain():
    result = transfer(
        made(a={"sst": None}, b={"qqp": 0.5}, c={"sts": -0.1},
             ab={"sst": 0.5, "qqp": 0.6}, bc={"qqp": 0.5, "sts": 0.2})
    )  # fmt: skip
    relative = {"sst": None, "qqp": pytest.approx(20)}
    assert result["gains"]["ab"] == {"delta_m": None, "tasks": relative}
    assert result["gains"]["bc"]["delta_m"] is None
    assert result["matrix"]["qqp"]["sst"]["change"] is None
    assert result["matrix"]["qqp"]["sts"]["change"] == pytest.approx(0.3)


def test_the_first_of_several_single_task_groups_stands_for_the_task():
    result = transfer(made(first={"a": 0.5}, second={"a": 0.6}, b={"b": 0.5}, ab={"a": 1, "b": 1}))
    assert result["singles"] == {"a": "first", "b": "b"}


def test_a_comparison_of_runs_holds_its_transfer(tmp_path):
    subsets = [("sst",), ("sts",), ("sst", "sts"), ("para", "sst")]
    runs = [tmp_path / "_".join(only) for only in subsets]
    for run, only in zip(runs, subsets, strict=True):
        write_run(run, rows=40, only=only, noise=0.1 * len(only))
    comparison = compare(group_runs(runs), "sst", resamples=10)
    result = comparison["transfer"]
    assert list(result["gains"]) == ["sst_sts"]  # para was never trained alone
    alone, both = (row["cells"]["sts"]["mean"] for row in comparison["rows"][1:3])
    assert result["matrix"]["sst"]["sts"]["change"] == pytest.approx(both - alone)


def test_every_metric_of_each_group_is_kept_over_its_seeds(runs):
    groups = [Group(name, runs[name]) for name in ("base", "alone")]
    result = compare(groups, "base", resamples=50)
    for group in groups:
        reports = [json.loads((run / "report.json").read_text()) for run in group.runs]
        for task, metrics in result["metrics"].items():
            assert len(metrics) > 1
            for metric, cells in metrics.items():
                values = [report["tasks"][task]["dev"][metric] for report in reports]
                assert cells[group.name]["values"] == values
                if None not in values:
                    assert cells[group.name]["mean"] == pytest.approx(statistics.fmean(values))
    first = json.loads((runs["base"][0] / "report.json").read_text())
    for task, metrics in result["metrics"].items():
        guess = first["tasks"][task]["baselines"]["trivial"]
        assert guess and all(metrics[m]["trivial"]["values"][0] == guess[m] for m in metrics)
    tables = metric_tables(result)
    for task, (_, scores), (title, differences) in zip(
        TASKS, tables[::2], tables[1::2], strict=True
    ):
        assert scores.header == differences.header == ("group", *result["metrics"][task])
        assert [row[0] for row in scores.rows] == ["base", "alone", "trivial"]
        assert [row[0] for row in differences.rows] == ["alone"] and title.startswith(task)


def test_every_metric_has_its_interval_and_its_difference(runs):
    groups = [Group(name, runs[name]) for name in ("base", "odd")]
    result = compare(groups, "base", resamples=30)
    for task in TASKS:  # the selecting metric has one result
        selecting = result["metrics"][task][result["columns"][task]["metric"]]
        assert all(selecting[row["name"]] == row["cells"][task] for row in result["rows"])
    for task, metric, value in [
        ("sst", "macro_f1", lambda gold, guess: f1_score(gold, guess, average="macro")),
        ("sts", "mse", mean_squared_error),
    ]:
        sides = (runs["base"], runs["odd"])
        naive = naive_differences(task, *sides, ((1, 2, 3), (7, 8)), 30, value=value)
        base, odd = (result["metrics"][task][metric][group.name] for group in groups)
        bounds = (odd["difference"]["low"], odd["difference"]["high"])
        assert bounds == pytest.approx(tuple(np.percentile(naive, (2.5, 97.5))), abs=1e-9)
        assert odd["difference"]["value"] == pytest.approx(odd["mean"] - base["mean"])
        assert base["low"] < base["mean"] < base["high"]


def test_a_metric_that_only_some_groups_report_is_kept_of_these(tmp_path):
    """As `data.ordered`, which adds one."""
    for name in ("with", "other", "without"):
        write_run(tmp_path / name, rows=40, noise=0.2 + 0.1 * (name == "other"), lr=len(name))
    edited(tmp_path / "without", lambda report: report["tasks"]["sst"]["dev"].pop("macro_f1"))
    groups = [Group(name, [tmp_path / name]) for name in ("without", "with", "other")]
    result = compare(groups, "with", resamples=20)
    macro = result["metrics"]["sst"]["macro_f1"]
    assert set(macro) == {"trivial", "with", "other"}
    (_, scores), (_, differences) = metric_tables(result)[:2]
    place = scores.header.index("macro_f1")
    assert [row[place] for row in scores.rows if row[0] == "without"] == ["-"]
    by_name = {row[0]: row[place] for row in differences.rows}
    assert by_name["without"] == "-" and by_name["other"] != "-"
