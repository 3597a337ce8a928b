"""Saved predictions: read, checked against the report and against another run's, resampled."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from multitask.config.run_directory import RunDirectory, load_lines
from multitask.reporting.comparison.saved_predictions import (
    check_same_rows,
    load_split,
    resampled_metric,
)
from multitask.utils.errors import UserError
from tests.support.fabricated_run import edited, rewritten, write_run

ROWS = 60


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path / "a", rows=ROWS, seed=1)
    return tmp_path / "a"


@pytest.fixture
def other(tmp_path):
    write_run(tmp_path / "b", rows=ROWS, seed=2, noise=0.4)
    return tmp_path / "b"


def dev_rows(run, task="sst"):
    """The dev rows of a task as the run's report has it."""
    return load_split(run, task, "dev", RunDirectory(run).load_report().tasks[task])


@pytest.mark.parametrize(("task", "metric"), [("sst", "accuracy"), ("sts", "pearson")])
def test_the_rows_give_the_reported_score(task, metric, run):
    result = dev_rows(run, task)
    reported = RunDirectory(run).load_report().tasks[task].dev[metric]
    assert (result.metric, len(result.rows)) == (metric, ROWS)
    assert result.value() == pytest.approx(reported)
    saved = load_lines(run / "predictions" / f"{task}.dev.jsonl")
    assert result.rows.ids == [record["id"] for record in saved]


def test_test_rows_without_labels_have_no_score_and_are_read(run):
    file = RunDirectory(run).predictions_of("sst", "test")
    records = [r | {"label": None} for r in load_lines(run / "predictions" / "sst.dev.jsonl")]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = RunDirectory(run).load_report().tasks["sst"]
    outcome = load_split(run, "sst", "test", result)
    assert outcome.rows.labels is None and len(outcome.rows) == ROWS


def test_dev_rows_that_are_cut_short_are_refused(run):
    """Of half the rows, the score may still be the same."""
    rewritten(run, "sst", lambda i, r: r if i < 50 else None)
    edited(run, lambda r: r["tasks"]["sst"]["dev"].update(accuracy=None))
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl has 50 rows, but report\.json says 60"):
        dev_rows(run)


def test_predictions_that_do_not_belong_to_the_report_are_refused(run):
    file = run / "predictions" / "sst.dev.jsonl"
    rewritten(run, "sst", lambda i, r: r | {"prediction": 0})
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl gives accuracy .* but report\.json says"):
        dev_rows(run)
    file.write_text(file.read_text()[:-30])
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl: damaged or incomplete.*predict"):
        dev_rows(run)
    file.unlink()
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl does not exist"):
        dev_rows(run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i, r: r | {"id": "x"} if i == 4 else r, "dev row 5 has another id"),
        (lambda i, r: r | {"label": (r["label"] + 1) % 5} if i == 59 else r, "another label"),
        (lambda i, r: None if i == 0 else r, "60 against 59"),
    ],
)
def test_other_dev_rows_cannot_be_paired(change, words, run, other):
    rewritten(other, "sst", change)
    edited(other, lambda r: r["tasks"]["sst"]["dev"].update(accuracy=None, rows=None))
    with pytest.raises(UserError, match=words) as error:
        check_same_rows("sst", dev_rows(run), dev_rows(other))
    for part in ("sst: ", str(run), str(other)):
        assert part in str(error.value)


def test_other_metrics_cannot_stand_in_one_column(run, other):
    edited(other, lambda r: r["tasks"]["para"].update(metric="f1"))
    with pytest.raises(UserError, match="accuracy of binary labels against f1 of binary labels"):
        check_same_rows("para", dev_rows(run, "para"), dev_rows(other, "para"))


def test_runs_are_resampled_together(run, other):
    both = [dev_rows(run), dev_rows(other)]
    result = resampled_metric("sst", both, 7)
    assert result.shape == (7, 2)
    np.testing.assert_array_equal(result, resampled_metric("sst", both, 7))
    np.testing.assert_array_equal(result[:, :1], resampled_metric("sst", both[:1], 7))
    drawn = np.arange(ROWS)[None, ::2]
    rows = both[1].rows.labels[::2], both[1].predictions[::2]
    assert both[1].values(drawn)[0] == pytest.approx(accuracy_score(*rows))
