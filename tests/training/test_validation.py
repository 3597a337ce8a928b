"""The measurements of a run while it trains."""

import shutil

import numpy as np
import pytest
import torch

from multitask.config import load_config
from multitask.inference.scoring import measure
from multitask.inference.sts_scores import pair_space
from multitask.training.setup import set_up
from multitask.training.validation import Monitor
from multitask.utils.terminal import silent
from tests.support.contrastive_run import write_config, write_triplets


class Log(list):
    """Collects what is written to the log."""

    def write(self, event, **values):
        self.append({"event": event, **values})


@pytest.mark.parametrize(("holdout", "split"), [(0.2, "holdout"), (0, "dev")])
def test_every_task_is_scored_on_the_split_that_selects(planned, holdout, split):
    plan = planned(f"training.holdout={holdout}")
    monitor, log, batches = Monitor(plan), Log(), []
    actual = monitor.evaluate(lambda: batches.append(1), log.write)
    expected = {}
    for task in ("sst", "qqp", "sts"):
        part = plan.data.splits[task][split]
        scores = plan.scorer.score(task, part)
        expected[task] = measure(scores, part.rows, plan.data.readers[task])
    assert monitor.split == split and actual == expected
    assert len(batches) >= 3 and log == []
    assert monitor.joint_tasks == ["sst", "qqp", "sts"]


def test_weights_of_hidden_states_are_logged(planned):
    log = Log()
    Monitor(planned("tasks.sst.pooling=hire")).evaluate(lambda: None, log.write)
    (event,) = log
    assert (event["event"], event["task"], event["split"]) == ("importance", "sst", "dev")
    assert event["layers"] == 2 and sum(event["mean"]) == pytest.approx(1)


def test_the_training_score_is_the_metric_that_selects(planned):
    monitor = Monitor(planned())
    scores = torch.eye(5)[[0, 1, 2, 3]].double()
    assert monitor.train_score("sst", scores, torch.tensor([0, 1, 2, 0])) == 0.75


def test_a_task_without_training_leaves_out_of_the_joint_score(planned):
    monitor = Monitor(planned("stages=[{tasks: [sst, qqp]}]"))
    assert monitor.joint_tasks == ["sst", "qqp"]


@pytest.fixture
def contrastive(tiny_encoder, course_files, tmp_path):
    files = shutil.copytree(course_files, tmp_path / "files")
    write_triplets(files)
    file = write_config(tmp_path / "c.yaml", tiny_encoder, files)
    config = load_config(file, ["tasks.views.pooling=layer_attention"])
    return set_up(config, torch.device("cpu"), silent)


def test_a_task_that_is_followed_is_encoded_once(contrastive, monkeypatch):
    plain, passes = contrastive.model.pooled, []
    monkeypatch.setattr(contrastive.model, "pooled", lambda b: passes.append(1) or plain(b))
    for task in ("views", "sts"):
        contrastive.scorer.score(task, contrastive.data.splits[task]["dev"])
    once, log, batches = len(passes), Log(), []
    Monitor(contrastive).evaluate(lambda: batches.append(1), log.write)
    assert once > 1 and len(passes) == 2 * once
    assert len(batches) == once  # a signal is noticed between any two batches
    (rows,) = [event["rows"] for event in log if event["task"] == "sts"]
    assert rows == len(contrastive.data.splits["sts"]["dev"].tokens.inputs[0])


def test_the_space_is_that_of_the_sentence_vectors(contrastive):
    split, reader = contrastive.data.splits["sts"]["dev"], contrastive.data.readers["sts"]
    result = Monitor(contrastive).evaluate(lambda: None, Log().write)["sts"]
    texts = sorted({text for pair in split.rows.texts for text in pair})
    length = contrastive.config.tasks["sts"].max_length
    vectors = dict(zip(texts, contrastive.scorer.vectors("sts", texts, length), strict=True))
    pooled = contrastive.scorer.pooled_sides("sts", split.tokens)
    assert pooled.shape[1] == 2 * len(vectors[texts[0]])  # the projection halves the width
    expected = pair_space(
        split.rows, lambda some: np.stack([vectors[text] for text in some]), reader.high
    )
    assert {name: result[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_the_vectors_of_a_task_that_is_only_scored_are_followed(contrastive):
    monitor = Monitor(contrastive)
    log = Log()
    monitor.at_start(log.write)
    result = monitor.evaluate(lambda: None, log.write)
    (event,) = [event for event in log if event["event"] == "space"]
    assert (event["step"], list(event["tasks"])) == (0, ["sts"])
    space = event["tasks"]["sts"]
    assert {"alignment", "uniformity", "mean_cosine"} <= set(space)
    assert {name: result["sts"][name] for name in space} == space  # nothing is trained in between
    assert "alignment" not in result["views"]
