"""Several labels per row, and one head for two sets: real runs on a tiny model."""

import math
from collections import Counter

import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.data.collate import collate, separate
from multitask.training.describe_plan import describe_plan
from multitask.training.setup import set_up
from multitask.training.trainer import Trainer
from multitask.utils.errors import UserError
from tests.support.losses import task_losses
from tests.support.run_files import events, report_of, results


@pytest.fixture
def reviews(tmp_path, tiny_encoder):
    """Rows with two labels, each sometimes missing, and a second set with the first label."""
    words = ["good", "bad", "film", "dull", "bright", "story"]

    def row(i):
        one = "" if i % 5 == 4 else str(i % 3)
        two = "" if i % 4 == 3 else f"{i % 7 / 2}"
        return f'"{words[i % 6]} {words[(i * 5) % 6]} film",{one},{two}'

    for name, count, start in (("a-train", 50, 0), ("a-dev", 20, 3), ("b-train", 30, 7)):
        lines = [row(i) for i in range(start, start + count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["sentence,mood,stars", *lines]) + "\n")
    config = tmp_path / "reviews.yaml"
    config.write_text(
        f"""
data_dir: {tmp_path}
encoder: {{name: {tiny_encoder}}}
training: {{precision: fp32, epochs: 2, frozen_baseline: false, head_lr: 0.01}}
defaults: {{max_length: 32, batch_size: 8}}
tasks:
  mood:
    data: {{train: a-train.csv, dev: a-dev.csv, label: mood, labels: [0, 1, 2]}}
    head: classification
  stars:
    data: {{same_rows_as: mood, label: stars, label_range: [0, 5]}}
    head: regression
    pooling: mean
  more:
    data: {{train: b-train.csv, dev: a-dev.csv, label: mood}}
    share_head: mood
"""
    )
    return config


def test_tasks_that_share_rows_train_together_on_their_own_labels(reviews, tmp_path, monkeypatch):
    config = load_config(reviews)
    made = set_up(config, torch.device("cpu"), lambda line: None)
    assert list(made.loaders) == ["mood", "more"]
    feed = made.loaders["mood"]
    assert list(feed.labels) == ["mood", "stars"]
    # rows 19 and 39 lack both labels and are left out
    assert len(feed.tokens) == 48
    assert len(made.data.splits["mood"]["train"].rows) == 40
    assert len(made.data.splits["stars"]["train"].rows) == 38
    dropped = {task: parts["train"].unlabelled_dropped for task, parts in made.data.summary.items()}
    assert dropped == {"mood": 10, "stars": 12, "more": 6}  # of 50, 50 and 30
    calls = []
    encode = made.model.encoder.encode
    monkeypatch.setattr(
        made.model.encoder,
        "encode",
        lambda e, *rest, **more: calls.append(len(e)) or encode(e, *rest, **more),
    )
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    loop = Trainer(made, run_dir, lambda line: None)
    loop._evaluation_due = lambda: False
    loop.run()
    log = events(run_dir, "step")
    rows = Counter()
    for event in log:
        rows[event["task"]] += event["rows"]
    passes = feed.stream.passes + (feed.stream.position == len(feed.stream._batches))
    assert passes == 2 and rows["mood"] == 2 * 40 and rows["stars"] == 2 * 38
    assert len(calls) == loop.step  # one encoder pass for both
    assert sum(calls) == 2 * 48 + rows["more"]


def test_the_plan_counts_shared_rows_once(reviews):
    made = set_up(load_config(reviews), torch.device("cpu"), lambda line: None)
    plan = describe_plan(made)
    (start,) = [place for place, line in enumerate(plan) if "sampling share" in line]
    shares = {line.split()[0]: line.split()[1:3] for line in plan[start + 2 : start + 5]}
    assert shares["mood"][0] == shares["more"][0] == "50.0%"
    assert shares["stars"] == ["with", "mood"]


def test_the_rule_of_oversampling_goes_by_the_tasks_that_train(reviews, tmp_path):
    """Not by the one whose rows they are, where a stage leaves it out."""
    rule = "training.sampler={name: round_robin, oversample: {while_train_score_below: -2}}"
    stage = "stages=[{tasks: [more, stars]}]"
    made = set_up(load_config(reviews, [rule, stage]), torch.device("cpu"), lambda line: None)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    loop = Trainer(made, run_dir, lambda line: None)
    loop._evaluation_due = lambda: False
    loop.run()
    longer, shorter = made.loaders["mood"].stream.steps_per_pass, made.loaders["more"].stream
    assert loop.progress.trained == {"stars": 2 * longer, "more": longer + shorter.steps_per_pass}
    loop.turns.train_scores = {"stars": 0.9, "mood": 0.1}  # mood is not of this stage
    assert loop.turns.stream_scores(loop.stages.now) == {"mood": 0.9, "more": -math.inf}


def test_a_row_without_a_label_gives_its_task_no_gradient(reviews):
    """The same update as from the labelled rows alone, in float64."""
    made = set_up(load_config(reviews), torch.device("cpu"), lambda line: None)
    model, feed = made.model.double().eval(), made.loaders["mood"]
    index = torch.arange(10).numpy()
    labels = feed.labels["stars"][index]
    have = ~torch.from_numpy(labels).isnan().numpy()
    assert 0 < have.sum() < 10
    result = []
    for rows in (index, index[have]):
        inputs = collate(feed.tokens, rows, pad_id=0)
        model.zero_grad()
        batch = feed.labelled("stars", inputs, rows, share=1.0, step_rows=len(rows))
        loss = task_losses(model, separate({"stars": batch}))
        loss["stars"].loss.backward()
        result.append((loss["stars"].loss, {n: p.grad for n, p in model.named_parameters()}))
    torch.testing.assert_close(result[0][0], result[1][0], rtol=1e-10, atol=0)
    for name, gradient in result[0][1].items():
        if gradient is None:
            assert result[1][1][name] is None
        else:
            torch.testing.assert_close(gradient, result[1][1][name], rtol=1e-8, atol=1e-12)


def test_a_stage_of_one_label_alone_skips_batches_without_it(reviews, tmp_path):
    """Rows that only the other task can use train nothing then."""
    more = ["tasks.more=null", "tasks.mood.batch_size=1", "stages=[{tasks: [stars], epochs: 1}]"]
    assert run_multitask.main([str(reviews), f"output_dir={tmp_path / 'run'}", *more]) == 0
    turns = results(tmp_path / "run")["tasks"]
    assert turns["stars"]["turns"] == {"trained": 38, "skipped": 10}
    assert turns["mood"]["turns"] == {"trained": 0, "skipped": 0}


def test_a_shared_head_is_one_module_for_both_tasks(reviews, tmp_path):
    overrides = [f"output_dir={tmp_path / 'run'}"]
    assert run_multitask.main([str(reviews), *overrides]) == 0
    from multitask import load

    run = load(tmp_path / "run")
    assert set(run.model.tasks) == {"mood", "stars"}
    assert run.model.module("more") is run.model.module("mood")
    texts = ["good film", "bad dull story"]
    assert run.predict("more", texts) == run.predict("mood", texts)
    report = report_of(tmp_path / "run")
    assert set(report["tasks"]) == {"mood", "stars", "more"}
    again = [str(tmp_path / "run" / "config.yaml"), f"output_dir={tmp_path / 'again'}"]
    assert run_multitask.main(again) == 0
    assert events(tmp_path / "again") == events(tmp_path / "run")


def test_tasks_of_one_head_have_the_same_labels(reviews):
    config = load_config(reviews, ["tasks.more.data.labels=[0, 1, 2, 3]"])
    with pytest.raises(UserError, match="share_head: more and mood"):
        set_up(config, torch.device("cpu"), lambda line: None)
