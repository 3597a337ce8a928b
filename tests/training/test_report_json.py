"""The entries of report.json against scikit-learn, and the files that a run saves at its end."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.inference.scoring import Scores
from multitask.store.run_directory import RunDirectory
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.training.report_json import (
    dev_results,
    save_task_predictions,
    unseen_results,
)
from multitask.training.setup import set_up
from tests.conftest import ROOT

MOODS = LabelReader(task_type("class"), {"0": 0, "1": 1, "2": 2}, ("bad", "fine", "good"))


@pytest.fixture
def scored():
    """40 rows of three classes, and what a model said of them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    scores = rng.dirichlet([1, 1, 1], 40)
    texts = [(f"text {i}",) for i in range(40)]
    rows = Rows("dev.csv", [str(i) for i in range(40)], texts, labels)
    return rows, Scores(scores.argmax(1), scores, 0.7)


def test_dev_results_are_those_of_scikit_learn(scored):
    rows, scores = scored
    dev, intervals = dev_results(scores, rows, MOODS)
    assert (dev["rows"], dev["loss"]) == (40, 0.7)
    assert dev["accuracy"] == pytest.approx(accuracy_score(rows.labels, scores.predictions))
    macro = f1_score(rows.labels, scores.predictions, average="macro")
    assert dev["macro_f1"] == pytest.approx(macro)
    assert dev["confusion"] == confusion_matrix(rows.labels, scores.predictions).tolist()
    low, high = intervals["accuracy"]
    assert low < dev["accuracy"] < high


def test_unseen_results_leave_out_the_rows_that_training_has_seen(scored):
    rows, scores = scored
    actual = unseen_results(scores, rows, MOODS, np.isin(np.arange(40), [0, 7]))
    left = [i for i in range(40) if i not in (0, 7)]
    expected = accuracy_score(rows.labels[left], scores.predictions[left])
    assert actual["rows"] == 38 and actual["accuracy"] == pytest.approx(expected)


def test_all_splits_but_train_are_scored_and_saved(tiny_overrides, tmp_path):
    changes = [*tiny_overrides, "training.holdout=0.2"]
    plan = set_up(
        load_config(ROOT / "configs/cs224n.yaml", changes), torch.device("cpu"), lambda line: None
    )
    (tmp_path / "run").mkdir()
    run = RunDirectory(tmp_path / "run")
    scores, seconds = save_task_predictions(plan, "sst", run)
    assert len(scores.predictions) == 12 and seconds > 0
    lines = [run.predictions_of("sst", split) for split in ("dev", "holdout", "test")]
    course = [run.course_file("sst", split) for split in ("dev", "test")]
    assert sorted(run.predictions.iterdir()) == sorted([*lines, *course])
    saved = [record["prediction"] for record in run.load_predictions("sst", "dev")]
    assert saved == scores.predictions.tolist()
    plan.data.splits["sst"].pop("dev")
    assert save_task_predictions(plan, "sst", run) is None
