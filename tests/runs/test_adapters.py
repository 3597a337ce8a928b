"""Adapters of tasks: built, trained, frozen, saved, and the right one used everywhere."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.data.collate import separate
from multitask.data.load_rows import load_rows
from multitask.inference.scoring import Scorer, measure
from multitask.models.build import assemble
from multitask.models.multitask_model import parameter_counts
from multitask.models.pretrained import load_pretrained
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.setup import set_up
from multitask.training.step import train_step
from multitask.training.trainer import Trainer
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.losses import task_losses
from tests.support.run_files import report_of
from tests.support.small_models import CONTEXT, TASKS, D, batch, every_task, scores_of

PRESET = ROOT / "configs" / "cs224n.yaml"
PAL = "defaults.adapter={name: pal, size: 12, heads: 3}"
MIXED = [
    "tasks.sst.adapter={name: pal, size: 12, heads: 3}",
    "tasks.qqp.adapter={name: houlsby, size: 7}",
    "tasks.sts.adapter={name: low_rank, size: 5, layers: [2]}",
]
SIZES = {
    "sst": 2 * D * 12 + 12 + D + 2 * 3 * (12 * 12 + 12),
    "qqp": 2 * 2 * (2 * D * 7 + 7 + D),
    "sts": 2 * D * 5 + 5 + D,
}


@pytest.fixture
def configure(tiny_overrides):
    return lambda *changes: load_config(PRESET, [*tiny_overrides, *changes])


@pytest.fixture
def make(configure):
    """A model; ``trained``: its adapters have weights as after a training run."""

    def make(*changes, trained=False):
        config = configure(*changes)
        torch.manual_seed(0)
        model = assemble(config, load_pretrained(config), CONTEXT)
        if trained:
            with torch.no_grad():
                for parameter in model.adapters.parameters():
                    parameter += 0.3 * torch.randn_like(parameter)
        return model

    return make


@pytest.fixture
def prepared(configure):
    return lambda *changes: set_up(configure(*changes), torch.device("cpu"), lambda line: None)


def adapter_names(model, task):
    return {n for n, _ in model.named_parameters() if n.startswith(f"adapters.{task}.")}


def encode_calls(model, monkeypatch):
    """Rows and adapter of every encoder pass."""
    calls = []
    encode = model.encoder.encode

    def watched(states, *arguments, adapter=None, **options):
        calls.append((len(states), adapter))
        return encode(states, *arguments, adapter=adapter, **options)

    monkeypatch.setattr(model.encoder, "encode", watched)
    return calls


# ---- what a model has


def test_parameters_are_counted_apart_from_the_heads(make):
    plain, model = parameter_counts(make()), parameter_counts(make(*MIXED))
    assert model == plain | {f"adapters.{task}": size for task, size in SIZES.items()}
    assert sum(model.values()) == sum(p.numel() for p in make(*MIXED).parameters())


def test_the_model_starts_as_without_adapters(make):
    plain, model = make().eval(), make(PAL).eval()
    assert all(torch.equal(model.state_dict()[n], t) for n, t in plain.state_dict().items())
    for task in TASKS:
        expected = scores_of(plain, task, batch(task))
        assert torch.equal(scores_of(model, task, batch(task)), expected)
        changed = make(PAL, trained=True).eval()
        assert not torch.allclose(scores_of(changed, task, batch(task)), expected, atol=1e-3)


def test_a_task_without_an_adapter_gets_the_plain_encoder(make):
    plain, model = make().eval(), make(PAL, "tasks.qqp.adapter=null", trained=True).eval()
    assert set(model.adapters) == {"sst", "sts"}
    expected = scores_of(plain, "qqp", batch("qqp"))
    assert torch.equal(scores_of(model, "qqp", batch("qqp")), expected)


@every_task
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_padding_never_changes_scores(make, pooling, task):
    model = make(*MIXED, f"tasks.{task}.pooling={pooling}", trained=True).double().eval()
    result = [scores_of(model, task, batch(task, padding=padding)) for padding in (0, 7)]
    torch.testing.assert_close(*result, rtol=1e-10, atol=1e-10)


def test_one_pass_for_each_adapter_and_one_for_the_tasks_without(make, monkeypatch):
    """Losses, scores and gradients are those of each task alone."""
    changes = ["tasks.sts.pooling=max", MIXED[0]]
    model = make(*changes, trained=True).double().eval()
    reference = make(*changes, trained=True).double().eval()
    reference.load_state_dict(model.state_dict())
    batches = {"qqp": batch("qqp", padding=6), "sst": batch("sst", rows=5), "sts": batch("sts")}
    calls = encode_calls(model, monkeypatch)
    together = task_losses(model, separate(batches))
    assert calls == [(16, None), (5, model.adapters["sst"])]
    assert list(together) == list(batches)
    sum(outcome.loss for outcome in together.values()).backward()
    for task, rows in batches.items():
        alone = task_losses(reference, separate({task: rows}))[task]
        alone.loss.backward()
        torch.testing.assert_close(together[task].scores, alone.scores, rtol=1e-9, atol=1e-10)
    for (name, one), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-10, msg=name)


def test_tasks_that_share_a_head_share_the_adapter(make, monkeypatch):
    more = "tasks.more={share_head: sst, data: {train: ids-sst-train.csv, dev: ids-sst-dev.csv, "
    more += "text: sentence, label: sentiment}}"
    model = make(PAL, more)
    assert set(model.adapters) == set(TASKS)
    assert model.owned("more") == {"sst", "sst.adapter"}
    calls = encode_calls(model, monkeypatch)
    model(separate({"sst": batch("sst"), "more": batch("sst")}))
    assert calls == [(8, model.adapters["sst"])]


# ---- training


@every_task
def test_a_step_moves_the_tasks_own_adapter_and_no_other(make, configure, task):
    model = make(PAL, trained=True).train()
    optimizer = build_optimizer(model, configure().training, dict.fromkeys(TASKS, 1e-3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    objective = Objective(dict.fromkeys(TASKS, 1.0))
    train_step(model, [separate({task: batch(task)})], optimizer, objective)
    moved = {n for n, t in model.state_dict().items() if not torch.equal(t, before[n])}
    assert adapter_names(model, task) <= moved
    assert not any(n.startswith("adapters.") for n in moved - adapter_names(model, task))


@pytest.mark.parametrize(
    ("changes", "rates"),
    [
        ([], {"sst": 3e-5, "qqp": 3e-5, "sts": 3e-5}),  # that of the encoder
        (["training.adapter_lr=1e-4"], {"sst": 1e-4, "qqp": 1e-4, "sts": 1e-4}),
        (
            ["training.adapter_lr=1e-4", "tasks.qqp.adapter_lr=2e-4"],
            {"sst": 1e-4, "qqp": 2e-4, "sts": 1e-4},
        ),
        (["tasks.qqp.adapter_lr=2e-4", "stages=[{lr: 5e-5}]"], {"sst": 5e-5, "qqp": 2e-4}),
        (["tasks.qqp.adapter_lr=2e-4", "stages=[{adapter_lr: 4e-4}]"], {"qqp": 4e-4, "sts": 4e-4}),
    ],
)
def test_adapters_have_separate_rates(prepared, changes, rates):
    made = prepared(*MIXED, "training.lr=3e-5", "training.weight_decay=0.3", *changes)
    optimizer, _ = made.stages[0].begin(made.model)
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for task, rate in rates.items():
        for parameter in made.model.adapters[task].parameters():
            group = groups[id(parameter)]
            assert group["name"] == f"{task}.adapter"
            assert group["initial_lr"] == rate
            assert group["weight_decay"] == (0.3 if parameter.ndim == 2 else 0.0)


STAGES = (
    "stages=[{freeze: [encoder, adapters], epochs: 1}, {freeze: [encoder, heads], epochs: 1}, "
    "{freeze: [sst.adapter, qqp], epochs: 1}, {epochs: 1}]"
)


def test_stages_freeze_and_release_adapters(prepared, tmp_path):
    """Every module is there from the first step, and in the optimizer of every stage it moves in.

    The head of `sts` has nothing to train, so its turns begin with its adapter.
    """
    made = prepared(*MIXED, STAGES, "training.schedule=constant", "training.warmup=0")
    model = made.model
    assert [stage.tasks for stage in made.stages] == [["sst", "qqp"], *[list(TASKS)] * 3]
    names = set(model.state_dict())
    encoder, heads = ({n for n in names if n.startswith(p)} for p in ("encoder.", "tasks."))
    by_task = {task: adapter_names(model, task) for task in TASKS}
    adapters = set().union(*by_task.values())
    assert names == encoder | heads | adapters
    qqp = {n for n in heads if n.startswith("tasks.qqp")} | by_task["qqp"]
    expected = [heads, adapters, names - by_task["sst"] - qqp, names]
    loop = Trainer(made, tmp_path, lambda line: None)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    at_end = {}
    step = loop.take_step

    def watched():
        step()
        if loop.in_stage == 1:
            held = {id(p) for group in loop.stages.optimizer.param_groups for p in group["params"]}
            free = {n for n, p in model.named_parameters() if p.requires_grad}
            assert free == expected[loop.stages.index]
            assert held == {id(p) for n, p in model.named_parameters() if n in free}
            assert model.adapters.training
            assert model.encoder.training == (not expected[loop.stages.index].isdisjoint(encoder))
        if loop.in_stage == loop.stages.now.steps:
            now = model.state_dict()
            at_end[loop.stages.index] = {n for n in now if not torch.equal(now[n], before[n])}
            before.update({name: value.clone() for name, value in now.items()})

    loop.take_step = watched
    loop.run()
    assert at_end == dict(enumerate(expected))


def test_adapters_train_on_a_frozen_encoder(prepared, tmp_path):
    made = prepared(*MIXED, "encoder.freeze=true")
    assert made.stages[0].tasks == list(TASKS)
    assert made.stages[0].frozen == {"embeddings", "layer_1", "layer_2"}
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    Trainer(made, tmp_path, lambda line: None).run()
    for name, value in made.model.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name


def test_an_adapter_has_a_frozen_baseline_beside_it(tiny_overrides, tmp_path):
    """Heads on the frozen encoder are another thing than adapters in it."""
    changes = ["encoder.freeze=true", "training.max_steps=2", "tasks.sst.adapter=houlsby"]
    assert run_multitask.main([str(PRESET), *tiny_overrides, *changes]) == 0
    baselines = json.loads((tmp_path / "run" / "baselines.json").read_text())
    assert baselines["sst"]["frozen"] and not baselines["qqp"]["frozen"]


# ---- the right task's adapter


def swap(state):
    """`sst` and `qqp` with each other's adapter."""
    other = {"sst": "qqp", "qqp": "sst"}
    return {
        re.sub(
            r"^adapters\.(sst|qqp)\.", lambda m: f"adapters.{other[m[1]]}.", name
        ): tensor.clone()
        for name, tensor in state.items()
    }


def test_evaluation_takes_the_tasks_own_adapter(prepared):
    made = prepared(PAL)
    with torch.no_grad():
        for parameter in made.model.adapters.parameters():
            parameter += 0.3 * torch.randn_like(parameter)

    def scores():
        scorer = Scorer(made.model, made.data.tokenizer, 5, torch.device("cpu"))
        return {t: scorer.score(t, made.data.splits[t]["dev"]).scores for t in TASKS}

    before = scores()
    made.model.load_state_dict(swap(made.model.state_dict()))
    after = scores()
    for task in TASKS:
        assert (abs(before[task] - after[task]).max() > 1e-3) == (task != "sts"), task


def test_prediction_takes_the_tasks_own_adapter(tiny_overrides, tmp_path):
    """From the weights on disk, where each tensor stands once: as the run's report says."""
    run_dir = tmp_path / "run"
    fast = ["training.lr=0.01", "training.epochs=1", "training.frozen_baseline=false"]
    assert run_multitask.main([str(PRESET), *tiny_overrides, PAL, *fast]) == 0
    texts = ["a good film .", "the dull cat sleeps"]

    def said():
        run = load(run_dir)
        pairs = [tuple(texts)]
        return {
            "sst": run.predict("sst", texts)[0]["scores"],
            "sst vectors": run.encode(texts, task="sst").tolist(),
            "qqp": run.predict("qqp", pairs)[0]["scores"],
            "sts": run.predict("sts", pairs)[0]["scores"],
        }

    def dev_losses():
        run, result = load(run_dir), {}
        for task, reader in run.readers.items():
            rows = load_rows(run.config, task, "dev", reader)
            result[task] = measure(run.score(task, rows), rows, reader)["loss"]
        return result

    report = report_of(run_dir)
    reported = {task: entry["dev"]["loss"] for task, entry in report["tasks"].items()}
    before = said()
    assert dev_losses() == pytest.approx(reported)
    (file,) = (run_dir / "weights").iterdir()
    state = load_file(file)
    counted = sum(parameter_counts(load(run_dir).model).values())
    assert sum(tensor.numel() for tensor in state.values()) == counted
    assert set(swap(state)) == set(state)
    save_file(swap(state), file)
    after = said()
    assert {name for name in before if before[name] != after[name]} == {"sst", "sst vectors", "qqp"}
    result = dev_losses()
    assert {t for t in TASKS if result[t] != pytest.approx(reported[t])} == {"sst", "qqp"}


# ---- what is shown and what is refused


def test_check_prints_the_adapters(tiny_overrides, capsys):
    assert run_multitask.main(["check", str(PRESET), *tiny_overrides, *MIXED, STAGES]) == 0
    plan = capsys.readouterr().out
    for task, size in SIZES.items():
        assert f"  adapters.{task}: {size:,}\n" in plan
    assert "tasks.sst: 165\n" in plan
    assert "sts.adapter 2e-05" in plan
    assert "frozen: qqp, qqp.adapter, sst.adapter\n" in plan


def test_an_encoder_that_is_not_ours_is_named_with_the_line_of_the_adapter(
    configure, tiny_encoder, tmp_path
):
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"extends: {PRESET}\nencoder: {{name: {tiny_encoder}, implementation: transformers}}\n"
        "tasks:\n  qqp:\n    adapter: low_rank\n"
    )
    config = load_config(file)
    with pytest.raises(UserError, match=r"mine.yaml:5: tasks.qqp.adapter: .* our own encoder"):
        assemble(config, load_pretrained(config), CONTEXT)
