"""A run in which one task has no score: the others still select, and the user is told once."""

import json
import statistics

import pytest

import run_multitask
from tests.conftest import ROOT, write_tsv
from tests.support.run_files import events, report_of


@pytest.fixture
def alike(tmp_path):
    """An STS dev set with equal labels: no prediction has a correlation with them."""
    rows = [[f"t{i}", f"the film {i % 3}", f"a dog {i % 2}", 2.5] for i in range(8)]
    header = ["id", "sentence1", "sentence2", "similarity"]
    return write_tsv(tmp_path / "alike.csv", header, rows)


def test_the_other_tasks_select_and_the_user_is_told_once(alike, tiny_overrides, tmp_path, capsys):
    changes = ["training.eval_steps=2", "training.max_steps=10", "training.frozen_baseline=false"]
    changes += [f"tasks.sts.data.dev={alike}", "training.head_lr=0.05"]
    config = str(ROOT / "configs" / "cs224n.yaml")
    assert run_multitask.main([config, *tiny_overrides, *changes]) == 0
    run = tmp_path / "run"
    evaluations = events(run, "eval")
    means = []
    for event in evaluations:
        scores = event["tasks"]
        assert scores["sts"]["pearson"] is None
        means.append(statistics.fmean(scores[task]["accuracy"] for task in ("sst", "qqp")))
        assert event["joint"] == pytest.approx(means[-1])
    best = evaluations[means.index(max(means))]["step"]
    assert best < evaluations[-1]["step"], "the last step would be selected without a rule"
    assert json.loads((run / "best.json").read_text())["joint"] == best

    report = report_of(run)
    dev = [report["tasks"][task]["dev"]["accuracy"] for task in ("sst", "qqp")]
    assert report["overall"] == {"mean": pytest.approx(statistics.fmean(dev)), "cs224n": None}
    assert report["tasks"]["sts"]["selected_step"] == best
    assert report["tasks"]["sts"]["flags"] == [
        "pearson is undefined: all scores, or all labels, are alike"
    ]
    count = len(evaluations)
    told = f"sts: pearson was undefined on dev in {count} of {count} evaluations"
    assert [told in line for line in report["warnings"]].count(True) == 1
    page = (run / "report.md").read_text()
    assert told in page and "mean of the tasks' metrics, without sts: undefined" in page
    shown = capsys.readouterr().out
    assert shown.count("sts: pearson is undefined on dev") == 1
    assert shown.count("sts pearson undefined  mean") == count
    assert shown.count("(without sts)") == count and "nan" not in shown
