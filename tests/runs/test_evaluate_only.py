"""A task that is only evaluated: never trained, followed at every evaluation, counted nowhere."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.data.splits import fingerprint
from multitask.inference.similarity import alignment, uniformity
from multitask.reporting.compare import compare
from multitask.reporting.read_runs import group_runs
from multitask.reporting.sheet import MEAN
from multitask.training.setup import set_up
from tests.conftest import ROOT
from tests.support.run_files import events, report_of
from tests.support.sts_files import write_suites

CONFIG = """\
extends: {root}/configs/cs224n.yaml
training: {{epochs: 2, frozen_baseline: false, eval_steps: 4, max_steps: 8}}
tasks:
  sst: {{max_length: 48}}
  qqp: {{max_length: 48}}
  sts: {{max_length: 48, metric: spearman}}
  suite:
    evaluate_only: true
    share_head: sts
    metric: spearman
    max_length: 48
    dropout: 0.0
    data:
      id: null
      quoting: false
      dev: {suites}/STS12/*.tsv
      text: sentence1
      text2: sentence2
      label: score
"""


@pytest.fixture(scope="module")
def suites(tmp_path_factory) -> Path:
    return write_suites(tmp_path_factory.mktemp("suites"))


@pytest.fixture
def config(tmp_path, suites) -> Path:
    file = tmp_path / "followed.yaml"
    file.write_text(CONFIG.format(root=ROOT, suites=suites))
    return file


def train(config: Path, encoder: Path, data: Path, *more: str, command: str = "train") -> int:
    names = [f"data_dir={data}", f"encoder.name={encoder}", f"output_dir={config.parent / 'run'}"]
    return run_multitask.main([command, str(config), *names, *more])


@pytest.mark.slow
def test_a_suite_is_followed_and_changes_nothing_else(config, tiny_encoder, course_files, capsys):
    more = ["training.select=per_task", "training.holdout=0.2"]
    assert train(config, tiny_encoder, course_files, *more) == 0
    run = config.parent / "run"
    steps = events(run, "step")
    assert {line["task"] for line in steps} == {"sst", "qqp", "sts"}
    result = [line["tasks"]["suite"] for line in events(run, "eval")]
    assert len(result) == 2 and {"spearman", "alignment", "uniformity", "mean_cosine"} <= set(
        result[0]
    )
    report = report_of(run)
    entry = report["tasks"]["suite"]
    assert entry["evaluate_only"] and entry["turns"] == {"trained": 0, "skipped": 0}
    assert entry["dev"]["rows"] == 42  # both files of the year
    assert entry["selected_step"] == report["tasks"]["sts"]["selected_step"]
    assert "suite" not in json.loads((run / "best.json").read_text())
    trained = [
        report["tasks"][t]["dev"][report["tasks"][t]["metric"]] for t in ("sst", "qqp", "sts")
    ]
    assert report["overall"]["mean"] == pytest.approx(np.mean(trained))
    assert not any("suite: nothing to train" in line for line in report["warnings"])
    # the same run without the suite has the same weights, losses and scores
    alone = config.with_name("alone.yaml")
    text = config.read_text()
    alone.write_text(text[: text.index("  suite:")])
    run.rename(run.with_name("with"))
    assert train(alone, tiny_encoder, course_files, *more) == 0
    assert [line["loss"] for line in events(run, "step")] == [line["loss"] for line in steps]
    other = report_of(run)
    for task in ("sst", "qqp", "sts"):
        assert other["tasks"][task]["dev"] == report["tasks"][task]["dev"]
    capsys.readouterr()
    compared = compare(group_runs([run, run.with_name("with")]), "run")
    overall = [row["cells"][MEAN]["mean"] for row in compared["rows"]]
    assert overall[0] == overall[1]  # the suite is a column, but not in the mean


def test_its_space_is_that_of_its_vectors_and_the_run_can_be_loaded(
    config, tiny_encoder, course_files
):
    precise = ["training.precision=fp32"]
    assert train(config, tiny_encoder, course_files, *precise, "training.max_steps=4") == 0
    run = load(config.parent / "run")
    (line,), (start,) = (events(config.parent / "run", kind) for kind in ("eval", "space"))
    assert list(start["tasks"]) == ["suite"] and start["step"] == 0
    assert start["tasks"]["suite"]["uniformity"] != line["tasks"]["suite"]["uniformity"]
    rows = run.load_split("suite", "dev").rows
    vectors = [run.encode([pair[side] for pair in rows.texts], "suite") for side in (0, 1)]
    positive = rows.gold > 4
    expected = alignment(vectors[0][positive], vectors[1][positive])
    assert line["tasks"]["suite"]["alignment"] == pytest.approx(expected, rel=1e-4)
    distinct = list(dict.fromkeys(text for pair in rows.texts for text in pair))
    expected = uniformity(run.encode(distinct, "suite"))
    assert line["tasks"]["suite"]["uniformity"] == pytest.approx(expected, rel=1e-4)
    assert (config.parent / "run" / "figures" / "space.png").is_file()
    page = (config.parent / "run" / "report.md").read_text()
    assert "figures/space.png" in page


@pytest.mark.slow
def test_resuming_goes_on_with_it(config, tiny_encoder, course_files):
    assert train(config, tiny_encoder, course_files) == 0
    before = report_of(config.parent / "run")["tasks"]
    assert train(config, tiny_encoder, course_files, "--resume") == 0
    after = report_of(config.parent / "run")["tasks"]
    assert after["suite"]["dev"] == before["suite"]["dev"]


def test_other_rows_in_a_suite_are_other_data(config, suites, tiny_encoder, course_files, tmp_path):
    """They may select the weights: a run does not resume on them."""
    data = Path(shutil.copytree(suites, tmp_path / "more"))
    names = [f"data_dir={course_files}", f"encoder.name={tiny_encoder}"]
    result = []
    for place in (suites, data):
        config.write_text(CONFIG.format(root=ROOT, suites=place))
        made = set_up(load_config(config, names), torch.device("cpu"), lambda line: None)
        result.append(fingerprint(made.config, made.data.splits))
        file = data / "STS12" / "MSRpar.tsv"
        file.write_text(file.read_text() + "a film\ta cat\t5\n")
    assert [task for task in result[0] if result[0][task] != result[1][task]] == ["suite"]


def test_pairs_that_any_task_trains_on_are_counted(
    config, suites, tiny_encoder, course_files, tmp_path, capsys
):
    data = Path(shutil.copytree(suites, tmp_path / "more"))
    first, second = (course_files / "quora-train.csv").read_text().splitlines()[1].split("\t")[2:4]
    file = data / "STS12" / "MSRpar.tsv"
    file.write_text(file.read_text() + f"{second}\t{first}\t5\n")
    config.write_text(CONFIG.format(root=ROOT, suites=data))
    assert train(config, tiny_encoder, course_files, command="check") == 0
    out = capsys.readouterr().out
    assert "warning: suite: 1 of 43 dev rows are in train" in out
    assert "suite: only scored" in out
    # and its report has the scores without them too
    more = ["training.max_steps=1", "training.select=per_task"]
    assert train(config, tiny_encoder, course_files, *more) == 0
    report = report_of(config.parent / "run")
    entry = report["tasks"]["suite"]
    lines = (config.parent / "run" / "predictions" / "suite.dev.jsonl").read_text().splitlines()
    shown = [json.loads(line) for line in lines]
    (known,) = [i for i, one in enumerate(shown) if first in one["texts"]]
    gold, predicted = ([one[name] for one in shown] for name in ("label", "prediction"))
    rounded = {"abs": 5e-3}  # the saved predictions are: some ranks tie
    expected = spearmanr(gold, predicted).statistic
    assert entry["dev"]["spearman"] == pytest.approx(expected, **rounded)
    del gold[known], predicted[known]
    without = spearmanr(gold, predicted).statistic
    assert entry["unseen"]["rows"] == 42 and abs(without - expected) > 0.02
    assert entry["unseen"]["spearman"] == pytest.approx(without, **rounded)
    words = f"without the 1 rows in train: spearman {entry['unseen']['spearman']:.3f}"
    assert words in entry["flags"]
    assert report["tasks"]["sts"]["unseen"] is None


def test_a_head_without_weights_scores_another_tasks_vectors(config, tiny_encoder, course_files):
    sharing = "share_pooling: qqp\n    head: cosine_regression\n    input: siamese\n"
    text = config.read_text().replace("share_head: sts\n", sharing)
    config.write_text(
        text.replace("      label: score", "      label: score\n      label_range: [0, 5]")
    )
    more = ["training.select=suite", "training.max_steps=4"]
    assert train(config, tiny_encoder, course_files, *more) == 0
    run = config.parent / "run"
    report = report_of(run)["tasks"]
    assert {entry["selected_step"] for entry in report.values()} == {
        json.loads((run / "best.json").read_text())["suite"]
    }


def test_a_head_with_weights_that_nothing_trains_is_refused(
    config, tiny_encoder, course_files, capsys
):
    head = "head: {name: cosine_regression, linear: true}\n"
    sharing = f"share_pooling: sts\n    {head}    input: siamese\n"
    config.write_text(config.read_text().replace("share_head: sts\n", sharing))
    change = "tasks.suite.data.label_range=[0, 5]"
    assert train(config, tiny_encoder, course_files, change, command="check") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "weights would never be trained" in line
