"""Holdout scores of a comparison: against scikit-learn and scipy, and where there are none."""

import json
import statistics

import pytest
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from multitask.config.run_directory import load_lines
from multitask.reporting.comparison import score_tables
from multitask.reporting.comparison.compare import Group, compare
from multitask.reporting.comparison.holdout import holdout_scores
from multitask.utils.errors import UserError
from tests.support.fabricated_run import write_run


def hold_out(run):
    """Every second dev row stands for the holdout; returns the naive score of each task."""
    result = {}
    for file in sorted((run / "predictions").glob("*.dev.jsonl")):
        records = load_lines(file)[::2]
        task = file.name.split(".")[0]
        text = "".join(json.dumps(record) + "\n" for record in records)
        file.with_name(f"{task}.holdout.jsonl").write_text(text)
        gold = [record["label"] for record in records]
        if task == "sts":
            result[task] = pearsonr(gold, [record["scores"][0] for record in records]).statistic
        else:
            result[task] = accuracy_score(gold, [record["prediction"] for record in records])
    return result


@pytest.fixture
def groups(tmp_path):
    result = {}
    for name, noise in (("one", 0.5), ("two", 0.1), ("none", 0.2)):
        result[name] = Group(name, [tmp_path / f"{name}-{seed}" for seed in (1, 2)])
        for seed, run in enumerate(result[name].runs, 1):
            write_run(run, rows=60, seed=seed, noise=noise)
    return result


def test_scores_are_those_of_the_held_out_rows(groups):
    naive = [hold_out(run) for run in groups["one"].runs]
    hold_out(groups["two"].runs[0])  # the other seed has none: nothing is said of the group
    comparison = compare(list(groups.values()), "one", resamples=20)
    one, two, none = (group["holdout"] for group in comparison["groups"])
    assert two is None and none is None
    for task, entry in one["tasks"].items():
        assert entry["values"] == pytest.approx([scores[task] for scores in naive])
        assert entry["sd"] == pytest.approx(statistics.stdev(scores[task] for scores in naive))
    means = [statistics.fmean(scores.values()) for scores in naive]
    assert one["overall"]["values"] == pytest.approx(means)
    assert score_tables.holdout_table(comparison) is None, "one group alone is no choice"


def test_the_table_marks_the_best_and_stands_after_the_dev_scores(groups):
    for name in ("one", "two"):
        for run in groups[name].runs:
            hold_out(run)
    comparison = compare(list(groups.values()), "one", resamples=20)
    table = score_tables.holdout_table(comparison)
    assert [row[0] for row in table.rows] == ["one", "two"]
    assert table.marked == {(1, column) for column in range(1, len(table.header))}, "less noise"
    for group in comparison["groups"][1:]:  # alone, nothing is best
        if group["holdout"]:
            group["holdout"]["overall"] = None
    assert (0, len(table.header) - 1) not in score_tables.holdout_table(comparison).marked
    titles = [title for title, _ in score_tables.titled_tables(comparison)]
    assert titles[:2] == ["Dev scores", score_tables.HOLDOUT_TITLE]


def test_the_score_of_a_run_is_the_mean_or_that_of_each_objective(groups):
    run, other = groups["one"].runs
    naive = hold_out(run)
    assert holdout_scores(run) == pytest.approx([statistics.fmean(naive.values())])
    assert holdout_scores(run, ["sts", "sst"]) == pytest.approx([naive["sts"], naive["sst"]])
    with pytest.raises(UserError, match="no scores on held-out rows"):
        holdout_scores(other)
    with pytest.raises(UserError, match="no scores on held-out rows"):
        holdout_scores(run, ["mlm"])
