"""Stages, joint steps, shared rows and heads: real runs on a tiny model."""

import json
import math
from collections import Counter

import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.data.collate import separate
from multitask.sweep.progress_bars import steps_done
from multitask.training.build_trainer import build_trainer
from multitask.training.setup import set_up
from multitask.training.stages import trained_parameters
from multitask.utils.errors import UserError
from tests.support.kill import kill_inside
from tests.support.run_files import events, results

PRESET = "configs/cs224n.yaml"
FAST = ["training.frozen_baseline=false", "training.checkpoint_steps=4"]
STAGES = (
    "stages=[{name: heads, freeze: [encoder], epochs: 1, head_lr: 0.01, schedule: constant},"
    " {name: all, epochs: 1, lr: 1e-3}, {tasks: [sts, sst], freeze: [embeddings, layer_1, sst],"
    " max_steps: 5, sampler: proportional}]"
)
RULE = "training.sampler={name: round_robin, oversample: {while_train_score_below: 0.4}}"


def prepared(*arguments):
    config = load_config(PRESET, list(arguments))
    return set_up(config, torch.device("cpu"), lambda line: None)


def train(overrides, directory, *more):
    assert run_multitask.main([PRESET, *overrides, *FAST, f"output_dir={directory}", *more]) == 0
    return events(directory)


# ---- stages


def test_the_encoders_frozen_parts_stay_frozen_in_every_stage(tiny_overrides):
    parts = "encoder.freeze=[embeddings, layer_1]"
    made = prepared(*tiny_overrides, parts, "stages=[{}, {freeze: [sst], epochs: 1}]")
    frozen = {"embeddings", "layer_1"}
    assert [stage.frozen for stage in made.stages] == [frozen, {*frozen, "sst"}]
    with pytest.raises(UserError, match=r"encoder\.freeze\.1: no part 'layer_9'"):
        prepared(*tiny_overrides, "encoder.freeze=[embeddings, layer_9]")


def test_trained_parameters_are_those_that_some_stage_moves(tiny_overrides):
    def trained(*arguments):
        made = prepared(*tiny_overrides, *arguments)
        sizes = {part: sum(p.numel() for p in ps) for part, ps in made.model.parts().items()}
        return trained_parameters(made.model, made.stages), sizes

    found, sizes = trained()
    assert found == sum(sizes.values())
    found, sizes = trained("encoder.freeze=true")
    assert found == sizes["sst"] + sizes["qqp"]  # the cosine has no parameters
    found, sizes = trained("stages=[{tasks: [sst], freeze: [encoder]}]")
    assert found == sizes["sst"]
    found, sizes = trained("stages=[{freeze: [layer_1]}, {tasks: [qqp], freeze: [embeddings]}]")
    assert found == sum(sizes.values())
    found, sizes = trained(
        "encoder.freeze=true", "tasks.sts.adapter={name: pal, size: 8, heads: 2}"
    )
    assert found == sizes["sst"] + sizes["qqp"] + sizes["sts.adapter"] > sizes["sts.adapter"] > 0


def test_each_stage_has_its_tasks_rates_schedule_and_frozen_parts(tiny_overrides, tmp_path):
    made = prepared(*tiny_overrides, STAGES)
    heads, every, last = made.stages
    assert (heads.name, every.name, last.name) == ("heads", "all", "3")
    assert heads.frozen == {"embeddings", "layer_1", "layer_2"}
    assert last.frozen == {"embeddings", "layer_1", "sst"}
    assert heads.tasks == ["sst", "qqp"]  # the cosine of frozen vectors has nothing to train
    assert every.tasks == ["sst", "qqp", "sts"]
    assert last.tasks == ["sst", "sts"] and last.steps == 5
    before = {name: value.clone() for name, value in made.model.state_dict().items()}

    def moved(trainer):
        now = trainer.model.state_dict()
        found = {name for name in now if not torch.equal(now[name], before[name])}
        before.update({name: value.clone() for name, value in now.items()})
        return found

    loop = build_trainer(made, tmp_path, lambda line: None)
    rates, at_end = [], {}
    step = loop.take_step

    def watched():
        index = loop.stages.index
        rates.append({group["name"]: group["lr"] for group in loop.stages.optimizer.param_groups})
        step()
        if loop.in_stage == loop.stages.now.steps:
            at_end[index] = moved(loop)

    loop.take_step = watched
    loop.run()
    names = set(made.model.state_dict())
    encoder = {name for name in names if name.startswith("encoder")}
    assert at_end[0] == {n for n in names if n.startswith(("tasks.sst", "tasks.qqp"))}
    assert at_end[1] == names
    # pooled by the first token or the mean, both depend on the whole last layer
    assert at_end[2] == {name for name in encoder if "layers.1." in name}
    first, second = rates[0], rates[heads.steps + 1]
    assert set(first) == {"sst", "qqp"} and set(second) == {"encoder", "sst", "qqp"}
    assert all(rate["sst"] == 0.01 for rate in rates[1 : heads.steps])  # constant, warmed up
    assert max(rate.get("encoder", 0) for rate in rates[heads.steps : -5]) == pytest.approx(1e-3)
    assert [e["stage"] for e in events(tmp_path) if e["event"] == "stage"] == ["all", "3"]
    assert loop.step == loop.stages.total_steps == heads.steps + every.steps + 5
    # what a sweep shows of it: the shorter epochs of the first stage are planned as such
    per_epoch = last.sampler.steps_per_epoch
    assert heads.steps < every.steps and per_epoch > 5
    whole = pytest.approx(2 + 5 / per_epoch, abs=1e-4)
    assert steps_done(tmp_path) == (loop.step, loop.stages.total_steps, whole, whole)


@pytest.mark.parametrize(
    ("more", "nth"),
    [
        pytest.param([STAGES], 3, marks=pytest.mark.slow),  # first stage, before any checkpoint
        pytest.param([STAGES], 10, marks=pytest.mark.slow),  # second stage
        pytest.param([STAGES], 17, marks=pytest.mark.slow),  # third stage
        pytest.param(["training.combine=joint"], 5, marks=pytest.mark.slow),
        pytest.param(
            [RULE], 11, marks=pytest.mark.slow
        ),  # with the running training scores of half an epoch
        pytest.param(
            ["training.sampler=annealed", "training.epochs=3"], 14, marks=pytest.mark.slow
        ),
    ],
)
def test_killed_in_any_stage_it_resumes_to_the_same_numbers(
    more, nth, tiny_overrides, tmp_path, capsys
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected = train(tiny_overrides, whole, *more)
    arguments = [PRESET, *tiny_overrides, *FAST, f"output_dir={killed}", *more]
    kill_inside("multitask.training.trainer:train_step", "after", nth, arguments)
    assert train(tiny_overrides, killed, *more, "--resume") == expected
    assert results(killed) == results(whole)


def test_patience_starts_anew_in_every_stage(tiny_overrides, tmp_path):
    stop = ["defaults.early_stopping.patience=1", "defaults.early_stopping.min_delta=9"]
    log = train(tiny_overrides, tmp_path / "run", *stop, "stages=[{epochs: 3}, {epochs: 3}]")
    ends = [e["step"] for e in log if e["event"] == "stop"]
    (second,) = [e["step"] for e in log if e["event"] == "stage"]
    # nothing gains 9: every task stops at its second evaluation of the first stage, then again
    assert set(ends[:3]) == {second} and len(ends) == 6 and min(ends[3:]) > second


def test_max_steps_bounds_all_stages_together(tiny_overrides):
    made = prepared(*tiny_overrides, "stages=[{epochs: 1}, {epochs: 2}]", "training.max_steps=12")
    assert [stage.steps for stage in made.stages] == [9, 3]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["stages=[{freeze: [layer_9]}]"], "stages.0.freeze.0: no part 'layer_9'"),
        (["stages=[{tasks: [sts], freeze: [encoder]}]"], "stages.0: nothing to train"),
        (["encoder.freeze=true", "tasks.sst=null", "tasks.qqp=null"], "encoder.freeze: nothing"),
        (["stages=[{tasks: [sst], epoch: qqp}]"], "stages.0.epoch: 'qqp' has no turns here"),
        (["stages=[{combine: joint, sampler: annealed}]"], "stages.0.combine: joint takes"),
        (
            ["training.combine=joint", "tasks.qqp.accumulation=2"],
            "tasks.qqp.accumulation: joint needs the same accumulation for all: sst has 1",
        ),
        (
            ["training.sampler={name: fixed, weights: {sst: 1}}"],
            "training.sampler.weights: sampler 'fixed': weights must give",
        ),
    ],
)
def test_what_cannot_be_trained_says_where(tiny_overrides, overrides, message):
    with pytest.raises(UserError) as caught:
        prepared(*tiny_overrides, *overrides)
    assert message in str(caught.value)


# ---- joint steps, shares, normalisation


def test_a_joint_step_trains_every_task_and_encodes_once(tiny_overrides, tmp_path, monkeypatch):
    made = prepared(*tiny_overrides, "training.combine=joint", "training.epochs=1")
    calls = []
    encode = made.model.encoder.encode
    monkeypatch.setattr(
        made.model.encoder,
        "encode",
        lambda e, *rest, **more: calls.append(len(e)) or encode(e, *rest, **more),
    )
    loop = build_trainer(made, tmp_path, lambda line: None)
    loop._evaluation_due = lambda: False
    loop.run()
    steps = [e for e in events(tmp_path) if e["event"] == "step"]
    assert Counter(e["task"] for e in steps) == {"sst": 3, "qqp": 3, "sts": 3}
    assert [e["step"] for e in steps] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    rows = Counter()
    for event in steps:
        rows[event["step"]] += event["rows"] * (1 if event["task"] == "sst" else 2)
    assert calls == [rows[1], rows[2], rows[3]]


def test_without_oversampling_a_joint_step_drops_exhausted_tasks(tiny_overrides, tmp_path):
    off = "training.sampler={name: round_robin, oversample: false}"
    log = train(
        tiny_overrides, tmp_path / "run", "training.combine=joint", off, "tasks.sst.batch_size=40"
    )
    steps = [(e["event"], e["task"], e["step"]) for e in log if e["event"] in ("step", "skip")]
    assert steps[:9] == [
        ("step", "sst", 1), ("step", "qqp", 1), ("step", "sts", 1),
        ("skip", "sst", 2), ("step", "qqp", 2), ("step", "sts", 2),
        ("skip", "sst", 3), ("step", "qqp", 3), ("step", "sts", 3),
    ]  # fmt: skip


def test_the_report_has_the_realised_turns(tiny_overrides, tmp_path):
    fixed = "training.sampler={name: fixed, weights: {sst: 1, qqp: 2, sts: 3}}"
    train(tiny_overrides, tmp_path / "run", fixed, "training.epoch=12", "training.epochs=2")
    tasks = results(tmp_path / "run")["tasks"]
    assert {t: e["turns"]["trained"] for t, e in tasks.items()} == {"sst": 4, "qqp": 8, "sts": 12}


def test_unit_normalisation_divides_by_the_trivial_loss(tiny_overrides):
    weights = prepared(
        *tiny_overrides, "training.loss_normalization=unit", "tasks.qqp.loss_weight=0.5"
    ).loss_weights
    assert weights["sst"] == pytest.approx(1 / math.log(5), rel=1e-6)  # five classes alike
    assert weights["qqp"] == pytest.approx(0.5 / math.log(2), rel=1e-6)
    labels = torch.tensor([round(5 * (i % 6) / 5, 1) for i in range(40)], dtype=torch.float64)
    assert weights["sts"] == pytest.approx(1 / labels.var(correction=0).item(), rel=1e-6)


def test_the_running_training_score_is_that_of_the_epoch(tiny_overrides, tmp_path):
    """Below the bound a task is oversampled; it is measured on what the steps themselves saw."""
    made = prepared(*tiny_overrides, RULE, "training.epochs=2", "tasks.sst.batch_size=40")
    loop = build_trainer(made, tmp_path, lambda line: None)
    seen = {}
    watch = loop.turns.watch

    def watched(task, scores, labels):
        seen.setdefault(
            (loop.in_stage // loop.stages.now.sampler.steps_per_epoch, task), []
        ).append((scores.argmax(-1) == labels).float() if task == "sst" else None)
        watch(task, scores, labels)

    loop.turns.watch = watched
    loop.run()
    (scores,) = [e["tasks"] for e in events(tmp_path) if e["event"] == "train_scores"]
    assert scores["sst"] == pytest.approx(torch.cat(seen[0, "sst"]).mean().item())
    skipped = Counter(e["task"] for e in events(tmp_path) if e["event"] == "skip")
    again = {task: value < 0.4 for task, value in scores.items()}
    assert skipped == ({} if again["sst"] else {"sst": 2})  # one step of sst is a whole pass


# ---- several labels a row, one head for two sets


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
    dropped = {
        task: parts["train"]["unlabelled_dropped"] for task, parts in made.data.summary.items()
    }
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
    loop = build_trainer(made, run_dir, lambda line: None)
    loop._evaluation_due = lambda: False
    loop.run()
    log = [e for e in events(run_dir) if e["event"] == "step"]
    rows = Counter()
    for event in log:
        rows[event["task"]] += event["rows"]
    passes = feed.stream.passes + (feed.stream.position == len(feed.stream._batches))
    assert passes == 2 and rows["mood"] == 2 * 40 and rows["stars"] == 2 * 38
    assert len(calls) == loop.step  # one encoder pass for both
    assert sum(calls) == 2 * 48 + rows["more"]


def test_the_plan_counts_shared_rows_once(reviews):
    from multitask.training.describe_plan import describe_plan

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
    loop = build_trainer(made, run_dir, lambda line: None)
    loop._evaluation_due = lambda: False
    loop.run()
    longer, shorter = made.loaders["mood"].stream.steps_per_pass, made.loaders["more"].stream
    assert loop.progress.trained == {"stars": 2 * longer, "more": longer + shorter.steps_per_pass}
    loop.turns.train_scores = {"stars": 0.9, "mood": 0.1}  # mood is not of this stage
    assert loop.turns.stream_scores(loop.stages.now) == {"mood": 0.9, "more": -math.inf}


def test_a_row_without_a_label_gives_its_task_no_gradient(reviews):
    """The same update as from the labelled rows alone, in float64."""
    from multitask.data.collate import collate
    from multitask.training.loss import task_losses

    made = set_up(load_config(reviews), torch.device("cpu"), lambda line: None)
    model, feed = made.model.double().eval(), made.loaders["mood"]
    index = torch.arange(10).numpy()
    labels = feed.labels["stars"][index]
    have = ~torch.from_numpy(labels).isnan().numpy()
    assert 0 < have.sum() < 10
    found = []
    for rows in (index, index[have]):
        inputs = collate(feed.tokens, rows, pad_id=0)
        model.zero_grad()
        loss = task_losses(
            model,
            separate({"stars": inputs.with_labels(feed.labels["stars"][rows], 1.0, len(rows))}),
        )
        loss["stars"].loss.backward()
        found.append((loss["stars"].loss, {n: p.grad for n, p in model.named_parameters()}))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-10, atol=0)
    for name, gradient in found[0][1].items():
        if gradient is None:
            assert found[1][1][name] is None
        else:
            torch.testing.assert_close(gradient, found[1][1][name], rtol=1e-8, atol=1e-12)


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
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert set(report["tasks"]) == {"mood", "stars", "more"}
    again = [str(tmp_path / "run" / "config.yaml"), f"output_dir={tmp_path / 'again'}"]
    assert run_multitask.main(again) == 0
    assert events(tmp_path / "again") == events(tmp_path / "run")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tasks.more.data.labels=[0, 1, 2, 3]", "share_head: more and mood have other labels"),
        ("tasks.more.dropout=0.5", "tasks.more.dropout: must be as in 'mood'"),
        ("tasks.stars.share_head=more", "tasks.stars.share_head: name the task that owns"),
        ("tasks.more.data.same_rows_as=stars", "same_rows_as: name the task with the rows: 'mood'"),
        ("tasks.stars.data.train=b-train.csv", "tasks.stars.data.train: the rows are those of"),
        ("tasks.stars.max_length=16", "tasks.stars.max_length: must be as in 'mood'"),
        (
            "tasks.stars.batch_size=4",
            "tasks.stars.batch_size: goes by the rows, which are those of",
        ),
        ("tasks.stars.max_rows=9", "tasks.stars.max_rows: goes by the rows"),
        ("tasks.more.head_lr=0.5", "tasks.more.head_lr: must be as in 'mood'"),
    ],
)
def test_sharing_that_does_not_fit_says_where(reviews, override, message):
    with pytest.raises(UserError) as caught:
        set_up(load_config(reviews, [override]), torch.device("cpu"), lambda line: None)
    assert message in str(caught.value)
