"""Rules for the metrics of every task type, and how scores are joined and compared."""

import math
import subprocess
import sys

import numpy as np
import pytest

from multitask.config.registry import TASK_TYPES, task_type
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.metrics import compute
from tests.support.cases import type_case

pytestmark = pytest.mark.usefixtures("no_warnings")


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_metrics_equal_their_formulas_and_some_can_select_weights(label_type):
    kind, case = task_type(label_type), type_case(label_type)
    columns = case.columns(rows=60)
    values = compute(kind, columns)
    assert tuple(values) == kind.metrics
    assert values == pytest.approx(case.naive(*columns), abs=1e-12)
    assert kind.selects == case.SELECTS and kind.metrics[0] == kind.selects[0]


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_the_set_is_scored_as_a_whole_not_as_a_mean_over_batches(label_type):
    columns = type_case(label_type).columns(rows=50)
    scores = compute(task_type(label_type), columns)
    batches = [slice(0, 32), slice(32, 50)]
    parts = [
        compute(task_type(label_type), tuple(column[b] for column in columns)) for b in batches
    ]
    for name, value in scores.items():
        assert value != pytest.approx(np.mean([part[name] for part in parts]), abs=1e-6)


def test_masked_language_modelling_counts_only_alone():
    def counted(**names):
        return metrics.joint_tasks({task: task_type(name) for task, name in names.items()})

    assert counted(a="class", mlm="tokens", b="number") == ["a", "b"]
    assert counted(mlm="tokens") == ["mlm"]
    assert counted(a="class", simcse="views") == ["a"]
    assert counted(mlm="tokens", simcse="views") == ["mlm", "simcse"]


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_no_rows_is_nan_throughout(label_type):
    columns = (column[:0] for column in type_case(label_type).columns())
    labels, predictions, scores = columns
    assert all(
        math.isnan(v)
        for v in compute(task_type(label_type), (labels, predictions, scores)).values()
    )
    bounds = intervals(task_type(label_type), (labels, predictions, scores), resamples=10)
    assert np.isnan(list(bounds.values())).all()


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_metrics_asked_for_by_name_are_the_same_and_no_others(label_type):
    columns = type_case(label_type).columns(rows=40)
    kind, rows = task_type(label_type), np.arange(40)[None]
    every = metrics.resampled_values(kind, columns, rows)
    for name in kind.metrics:
        assert metrics.resampled_values(kind, columns, rows, [name]) == {name: every[name]}
    with pytest.raises(ValueError, match="mrr"):
        metrics.resampled_values(kind, columns, rows, ["mrr"])


def test_joint_and_overall_scores():
    values = {"sst": 0.5, "para": 0.8, "sts": 0.6}
    assert metrics.joint(values) == pytest.approx(1.9 / 3)
    assert math.isnan(metrics.joint({**values, "sts": math.nan}))
    without = {task: value for task, value in values.items() if task != "sts"}
    assert metrics.mean_of_defined({**values, "sts": math.nan}) == metrics.joint(without)
    assert metrics.mean_of_defined(values) == metrics.joint(values)
    assert math.isnan(metrics.mean_of_defined({"sts": math.nan}))


def test_the_course_s_score_is_the_mean_of_its_three_tasks():
    accuracies = {"sst": {"accuracy": 0.5}, "qqp": {"accuracy": 0.8, "f1": 0.1}}
    dev = {**accuracies, "sts": {"pearson": 0.6}, "other": {"accuracy": 0.0}}
    assert metrics.overall_cs224n(dev) == pytest.approx((0.5 + 0.8 + 0.8) / 3)
    assert math.isnan(metrics.overall_cs224n({**dev, "sts": {"pearson": math.nan}}))
    for missing in (accuracies, {**dev, "sst": {"mcc": 0.5}}):
        assert metrics.overall_cs224n(missing) is None


def test_improves_compares_nan_safely():
    assert metrics.improves(0.1, None) and metrics.improves(-1.0, math.nan)
    assert metrics.improves(0.51, 0.5) and not metrics.improves(0.5, 0.5)
    assert not metrics.improves(0.51, 0.5, min_delta=0.05)
    for best in (None, math.nan, 0.5):
        assert not metrics.improves(math.nan, best)


def test_importing_the_module_stays_light():
    code = "import sys, multitask.tasks.metrics; assert not {'torch', 'scipy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
