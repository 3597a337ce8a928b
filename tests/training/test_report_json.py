"""The entries of report.json against scikit-learn, and the files that a run saves at its end."""

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from heads.binary import BinaryHead
from heads.siamese_paraphrase import SiameseParaphraseHead
from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.inference.scoring import Scores
from multitask.reporting.table_formats import CODE
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import Baselines
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.training.report_json import (
    dev_results,
    flags,
    next_steps,
    save_task_predictions,
    still_improving,
    unseen_results,
)
from tests.conftest import ROOT

MOODS = LabelReader(task_type("class"), {"0": 0, "1": 1, "2": 2}, ("bad", "fine", "good"))
CLASSES = ("different", "same")


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


def test_all_splits_but_train_are_scored_and_saved(planned, tmp_path):
    plan = planned("training.holdout=0.2")
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


# --- flags: one test per rule ---


@pytest.mark.parametrize(
    ("dev", "frozen", "trivial", "expected"),
    [
        (0.7, 0.6, 0.5, []),
        (0.55, 0.6, 0.5, ["below the frozen-encoder baseline (0.550 < 0.600)"]),
        (0.5, None, 0.5, ["not above the trivial baseline (0.500)"]),
        (0.6, 0.6, None, []),
        (math.nan, 0.6, 0.5, ["accuracy is undefined: all scores, or all labels, are alike"]),
    ],
)
def test_a_flag_for_each_baseline_that_is_not_reached(dev, frozen, trivial, expected):
    measured = None if frozen is None else {"accuracy": frozen}
    baselines = Baselines(trivial={"accuracy": trivial}, frozen=measured)
    assert flags("accuracy", {"accuracy": dev}, baselines) == expected


def test_only_advice_has_code_in_backticks():
    """So a page tells advice from warnings: ``Tile.flags``."""
    baselines = Baselines(trivial={"f1": 0.5}, frozen={"f1": 0.6})
    scores = (0.4, 0.5, math.nan)
    warnings = [flag for score in scores for flag in flags("f1", {"f1": score}, baselines)]
    assert len(warnings) == 5 and "`" not in "".join(warnings)
    advice = next_steps("qqp", SiameseParaphraseHead(4), binary(0.8, [[60, 0], [40, 0]]), CLASSES)
    advice += still_improving(8, 8, 2)
    assert len(advice) == 3 and all(CODE.search(each) for each in advice)


def binary(average_precision, confusion):
    """The entry `dev` of 100 rows of a binary task."""
    return {"rows": 100, "average_precision": average_precision, "confusion": confusion}


def test_one_predicted_class_with_good_scores_names_threshold_and_rate():
    (flag,) = next_steps("qqp", BinaryHead(4), binary(0.8, [[60, 0], [40, 0]]), CLASSES)
    assert flag.startswith("predicts only 'different', though average precision 0.800 is above")
    assert "0.400" in flag and "threshold" in flag and "`tasks.qqp.head_lr`" in flag
    (flag,) = next_steps("qqp", BinaryHead(4), binary(0.8, [[0, 60], [0, 40]]), CLASSES)
    assert flag.startswith("predicts only 'same'")


@pytest.mark.parametrize(
    "dev",
    [
        binary(0.8, [[59, 1], [40, 0]]),  # two classes are predicted
        binary(0.4, [[60, 0], [40, 0]]),  # the scores do not rank the rows
        binary(math.nan, [[60, 0], [40, 0]]),
        {"rows": 100, "accuracy": 0.6, "confusion": [[60, 0], [40, 0]]},  # no such metric
    ],
)
def test_no_such_flag_otherwise(dev):
    assert next_steps("qqp", BinaryHead(4), dev, CLASSES) == []


def test_a_best_step_at_the_end_names_more_epochs():
    (remark,) = still_improving(120, 120, 2)
    assert "`training.epochs`" in remark
    assert still_improving(60, 120, 2) == [] and still_improving(None, 120, 2) == []
    assert still_improving(120, 120, 1) == []  # it was the only evaluation


def test_a_head_on_the_difference_alone_names_features():
    (flag,) = next_steps("para", SiameseParaphraseHead(8), {"rows": 100}, CLASSES)
    assert flag == "reads |u - v| alone: try `tasks.para.head.features=[u,v,abs_diff]`"
    change = flag.split("`")[1].replace("tasks.para", "tasks.qqp")
    head = load_config(ROOT / "configs/cs224n.yaml", [change]).tasks["qqp"].head
    assert head.name == "siamese_paraphrase"
    assert head.options == {"features": ["u", "v", "abs_diff"]}
    more = SiameseParaphraseHead(8, features=["abs_diff", "product"])
    assert next_steps("para", more, {"rows": 100}, CLASSES) == []


@pytest.mark.parametrize(("rate", "flags"), [(0.042, 1), (0.0, 0)])
def test_a_head_whose_predictions_depend_on_the_order_names_features(rate, flags):
    head = SiameseParaphraseHead(8, features=["u", "v", "abs_diff"])
    found = next_steps("para", head, {"rows": 100, "flip_rate": rate}, CLASSES)
    assert len(found) == flags
    if flags:
        change = found[0].split("`")[1].replace("tasks.para", "tasks.qqp")
        options = load_config(ROOT / "configs/cs224n.yaml", [change]).tasks["qqp"].head.options
        assert not SiameseParaphraseHead(8, **options).order_matters
