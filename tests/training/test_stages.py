"""Stages, joint steps, shared rows and heads: real runs on a tiny model."""

import copy
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

import run_multitask
from multitask.sweep.progress_bars import steps_done
from multitask.training.stages import Progress, Stages, trained_parameters
from multitask.training.step import Stepped
from multitask.training.trainer import Trainer
from multitask.utils.errors import UserError
from multitask.utils.terminal import silent
from tests.support.kill import kill_inside
from tests.support.run_files import events, results

CPU = torch.device("cpu")
PRESET = "configs/cs224n.yaml"
FAST = ["training.frozen_baseline=false", "training.checkpoint_steps=4"]
STAGES = (
    "stages=[{name: heads, freeze: [encoder], epochs: 1, head_lr: 0.01, schedule: constant},"
    " {name: all, epochs: 1, lr: 1e-3, schedule: polynomial, schedule_power: 2},"
    " {tasks: [sts, sst], freeze: [embeddings, layer_1, sst],"
    " max_steps: 5, sampler: proportional}]"
)
RULE = "training.sampler={name: round_robin, oversample: {while_train_score_below: 0.4}}"


def train(overrides, directory, *more):
    assert run_multitask.main([PRESET, *overrides, *FAST, f"output_dir={directory}", *more]) == 0
    return events(directory)


# ---- stages


def test_the_encoders_frozen_parts_stay_frozen_in_every_stage(planned):
    parts = "encoder.freeze=[embeddings, layer_1]"
    made = planned(parts, "stages=[{}, {freeze: [sst], epochs: 1}]")
    frozen = {"embeddings", "layer_1"}
    assert [stage.frozen for stage in made.stages] == [frozen, {*frozen, "sst"}]
    with pytest.raises(UserError, match=r"encoder\.freeze\.1: no part 'layer_9'"):
        planned("encoder.freeze=[embeddings, layer_9]")


def test_trained_parameters_are_those_that_some_stage_moves(planned):
    def trained(*arguments):
        made = planned(*arguments)
        sizes = {part: sum(p.numel() for p in ps) for part, ps in made.model.parts().items()}
        return trained_parameters(made.model, made.stages), sizes

    result, sizes = trained()
    assert result == sum(sizes.values())
    result, sizes = trained("encoder.freeze=true")
    assert result == sizes["sst"] + sizes["qqp"]  # the cosine has no parameters
    result, sizes = trained("stages=[{tasks: [sst], freeze: [encoder]}]")
    assert result == sizes["sst"]
    result, sizes = trained("stages=[{freeze: [layer_1]}, {tasks: [qqp], freeze: [embeddings]}]")
    assert result == sum(sizes.values())
    result, sizes = trained(
        "encoder.freeze=true", "tasks.sts.adapter={name: pal, size: 8, heads: 2}"
    )
    assert result == sizes["sst"] + sizes["qqp"] + sizes["sts.adapter"] > sizes["sts.adapter"] > 0


def test_each_stage_has_its_tasks_rates_schedule_and_frozen_parts(planned, tmp_path):
    made = planned(STAGES)
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
        result = {name for name in now if not torch.equal(now[name], before[name])}
        before.update({name: value.clone() for name, value in now.items()})
        return result

    loop = Trainer(made, tmp_path, silent)
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
    warmup = round(every.settings.warmup * every.steps)
    left = 1 / (every.steps - warmup)  # one step
    last_rate = rates[heads.steps + every.steps - 1]["encoder"]
    assert last_rate == pytest.approx(1e-3 * (1e-4 + (1 - 1e-4) * left**2))
    assert [e["stage"] for e in events(tmp_path) if e["event"] == "stage"] == ["all", "3"]
    assert loop.step == loop.stages.total_steps == heads.steps + every.steps + 5
    # what a sweep shows of it: the shorter epochs of the first stage are planned as such
    per_epoch = last.sampler.steps_per_epoch
    assert heads.steps < every.steps and per_epoch > 5
    epochs = pytest.approx(2 + 5 / per_epoch, abs=1e-4)
    assert steps_done(tmp_path) == (loop.step, loop.stages.total_steps, epochs, epochs)


@pytest.mark.parametrize(
    ("more", "nth"),
    [
        ([STAGES], 3),  # first stage, before any checkpoint
        ([STAGES], 10),  # second stage
        ([STAGES], 17),  # third stage
        (["training.combine=joint"], 5),
        ([RULE], 11),  # with the running training scores of half an epoch
        (["training.sampler=annealed", "training.epochs=3"], 14),
    ],
)
@pytest.mark.slow
def test_killed_in_any_stage_it_resumes_to_the_same_numbers(
    more, nth, tiny_overrides, tmp_path, capsys
):
    unbroken, killed = tmp_path / "whole", tmp_path / "killed"
    expected = train(tiny_overrides, unbroken, *more)
    arguments = [PRESET, *tiny_overrides, *FAST, f"output_dir={killed}", *more]
    kill_inside("multitask.training.trainer:train_step", "after", nth, arguments)
    assert train(tiny_overrides, killed, *more, "--resume") == expected
    assert results(killed) == results(unbroken)


def test_patience_starts_anew_in_every_stage(tiny_overrides, tmp_path):
    stop = ["defaults.early_stopping.patience=1", "defaults.early_stopping.min_delta=9"]
    log = train(tiny_overrides, tmp_path / "run", *stop, "stages=[{epochs: 3}, {epochs: 3}]")
    ends = [e["step"] for e in log if e["event"] == "stop"]
    (second,) = [e["step"] for e in log if e["event"] == "stage"]
    # nothing gains 9: every task stops at its second evaluation of the first stage, then again
    assert set(ends[:3]) == {second} and len(ends) == 6 and min(ends[3:]) > second


def test_max_steps_bounds_all_stages_together(planned):
    made = planned("stages=[{epochs: 1}, {epochs: 2}]", "training.max_steps=12")
    assert [stage.steps for stage in made.stages] == [9, 3]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["stages=[{freeze: [layer_9]}]"], "stages.0.freeze.0: no part 'layer_9'"),
        (["stages=[{tasks: [sts], freeze: [encoder]}]"], "stages.0: nothing to train"),
        (["encoder.freeze=true", "tasks.sst=null", "tasks.qqp=null"], "encoder.freeze: nothing"),
        (["stages=[{tasks: [sst], epoch: qqp}]"], "stages.0.epoch: 'qqp' has no turns here"),
        (["stages=[{combine: joint, sampler: annealed}]"], "stages.0.combine: "),
        (["training.combine=joint", "tasks.qqp.accumulation=2"], "tasks.qqp.accumulation: "),
        (["training.sampler={name: fixed, weights: {sst: 1}}"], "training.sampler.weights: "),
    ],
)
def test_what_cannot_be_trained_says_where(planned, overrides, message):
    with pytest.raises(UserError) as caught:
        planned(*overrides)
    assert message in str(caught.value)


# ---- joint steps, shares, normalisation


def test_a_joint_step_trains_every_task_and_encodes_once(planned, tmp_path, monkeypatch):
    made = planned("training.combine=joint", "training.epochs=1")
    calls = []
    encode = made.model.encoder.encode
    monkeypatch.setattr(
        made.model.encoder,
        "encode",
        lambda e, *rest, **more: calls.append(len(e)) or encode(e, *rest, **more),
    )
    loop = Trainer(made, tmp_path, silent)
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


def test_the_running_training_score_is_that_of_the_epoch(planned, tmp_path):
    """Below the bound a task is oversampled; it is measured on what the steps themselves saw."""
    made = planned(RULE, "training.epochs=2", "tasks.sst.batch_size=40")
    loop = Trainer(made, tmp_path, silent)
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


# ---- progress


def test_a_step_counts_for_those_that_trained_and_those_left_out():
    progress = Progress(CPU)
    progress.count(["a", "b"], Stepped(losses={"a": 1.0}, sequences=8))
    progress.count(["b"], Stepped())
    progress.count(["a"], Stepped(losses={"a": 1.0}, sequences=4))
    assert (progress.step, progress.sentences) == (3, 12)
    assert progress.trained == {"a": 2} and progress.skipped == {"b": 2}


def test_time_goes_on_where_the_session_before_ended():
    progress = Progress(CPU, step=3, evaluated_at=2, seconds=1.5, earlier_seconds=100.0)
    progress.trained["a"] = 3
    saved = progress.state_dict()
    assert 100 <= saved["wall_seconds"] < 110
    resumed = Progress(CPU)
    resumed.load_state_dict(saved)
    assert saved["wall_seconds"] <= resumed.wall_seconds() < saved["wall_seconds"] + 10
    begun = Progress(CPU, began=resumed.began - 50)  # the command began 50 seconds before
    begun.load_state_dict(saved)
    assert begun.wall_seconds() >= saved["wall_seconds"] + 50
    counters = {key: value for key, value in resumed.state_dict().items() if key != "wall_seconds"}
    assert counters == {key: value for key, value in saved.items() if key != "wall_seconds"}
    resumed.count(["a"], Stepped(losses={"a": 1.0}))
    assert resumed.trained == {"a": 4} and saved["trained"] == {"a": 3}


class FakeStage:
    """A stage of so many steps on a linear layer; its optimizer has momentum."""

    def __init__(self, steps, steps_per_epoch, lr):
        self.steps, self.lr = steps, lr
        self.sampler = SimpleNamespace(steps_per_epoch=steps_per_epoch)
        self.begun = 0

    def begin(self, model):
        self.begun += 1
        optimizer = torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)
        return optimizer, LambdaLR(optimizer, lambda step: 1 - step / self.steps)


def two_stages():
    return [FakeStage(4, 2, 0.1), FakeStage(9, 3, 0.01)]


def move(stages, model):
    model.weight.sum().backward()
    stages.optimizer.step()
    stages.scheduler.step()
    stages.optimizer.zero_grad()


def test_each_stage_has_a_new_optimizer():
    stages = Stages(two_stages(), nn.Linear(2, 2))
    assert (stages.total_steps, stages.total_epochs) == (13, 5.0)
    assert not stages.is_last and stages.steps_done(3) == 3 and stages.epoch(3) == 1.5
    first = stages.optimizer
    stages.next(4)
    assert stages.is_last and stages.optimizer is not first
    assert stages.steps_done(7) == 3 and stages.epoch(7) == 2 + 1
    assert stages.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_a_stage_goes_on_with_its_momentum_and_schedule():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    stages = Stages(two_stages(), model)
    for step in range(6):
        if step == 4:
            stages.next(4)
        move(stages, model)
    saved, weights = copy.deepcopy((stages.state_dict(), model.state_dict()))  # as on disk
    expected = []
    for _ in range(3):
        move(stages, model)
        expected.append(model.weight.detach().clone())
    model.load_state_dict(weights)
    resumed = Stages(two_stages(), model)
    resumed.load_state_dict(saved)
    assert (resumed.index, resumed.steps_done(6), resumed.epoch(6)) == (1, 2, 2 + 2 / 3)
    for weight in expected:
        move(resumed, model)
        assert torch.equal(model.weight, weight)
