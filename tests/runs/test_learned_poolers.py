"""The poolers of MaxPoolBERT and HIRE inside the model: with every input, encoder and adapter."""

import math

import pytest
import torch

from multitask.config import SmartConfig, load_config
from multitask.data.collate import separate
from multitask.models.build import assemble
from multitask.models.pretrained import load_pretrained
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.step import train_step
from tests.conftest import ROOT
from tests.support.losses import task_losses
from tests.support.small_models import CONTEXT, WEIGHTS, batch, scores_of

POOLINGS = {
    "max_cls": "{name: max_cls, last: 2}",
    "mha": "{name: mha, dropout: 0.1}",
    "max_seq_mha": "{name: max_seq_mha, last: 2}",
    "mean_seq_mha": "{name: mean_seq_mha, last: 2, residual: true, norm: true}",
    "hire": "hire",
    "hire in chunks": "{name: hire, states_at_once: 2}",
    "hire without fusion": "{name: hire, fusion_layers: null}",
    "hire without hire": "{name: hire, scores: none}",
}
CROSS = ["tasks.qqp.input=cross", "tasks.qqp.head=binary"]
every_pooling = pytest.mark.parametrize("pooling", POOLINGS)


@pytest.fixture
def make(tiny_overrides):
    def make(*changes, autocast=None):
        config = load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])
        torch.manual_seed(0)
        model = assemble(config, load_pretrained(config), CONTEXT, autocast=autocast)
        return model, config

    return make


def cross(rows):
    """Pairs of `qqp` as one input each."""
    result = batch("qqp", rows=rows)
    result.input_ids, result.attention_mask = result.input_ids[:rows], result.attention_mask[:rows]
    result.token_type_ids = (result.attention_mask.cumsum(1) > 3) * result.attention_mask
    result.sides = 1
    return result


def first_and_last_loss(model, config, batches, steps=15):
    model.train()
    optimizer = build_optimizer(model, config.training, dict.fromkeys(batches, 3e-3))
    objective = Objective(WEIGHTS)
    losses = [
        sum(
            train_step(
                model, [separate(batches)], optimizer, objective, clip_norm=1.0
            ).losses.values()
        )
        for _ in range(steps)
    ]
    return losses[0], sum(losses[-3:]) / 3


@pytest.mark.parametrize("implementation", ["own", "transformers"])
@pytest.mark.parametrize("pooling", ["max_seq_mha", "hire"])
def test_built_beside_pretrained_weights_the_new_ones_keep_their_start(
    make, pooling, implementation
):
    """Trap 1: inside a model of `from_pretrained` they were memory as it was (std 1e27)."""
    model, _ = make(
        f"tasks.sst.pooling={POOLINGS[pooling]}", f"encoder.implementation={implementation}"
    )
    dim = model.encoder.dim
    for name, parameter in model.tasks["sst"].pooler.named_parameters():
        bound = 1 / math.sqrt(dim) if "in_proj" not in name else math.sqrt(6 / (4 * dim))
        assert parameter.isfinite().all() and parameter.abs().max() <= bound, name
        assert name.endswith("bias") or parameter.std() > bound / 4, name


@pytest.mark.parametrize(
    ("pooling", "kind"),
    [
        *((pooling, "siamese") for pooling in POOLINGS),
        *((p, k) for p in ("max_seq_mha", "hire") for k in ("cross", "pal", "transformers")),
        *((pooling, "bf16") for pooling in ("max_cls", "mean_seq_mha", "hire in chunks")),
    ],
)
def test_the_loss_falls(make, pooling, kind):
    changes = [f"tasks.{task}.pooling={POOLINGS[pooling]}" for task in ("sst", "qqp")]
    changes += ["tasks.sst.projection={name: tanh, output_dim: 32}", "training.lr=3e-4"]
    changes += CROSS if kind == "cross" else []
    changes += ["defaults.adapter={name: pal, size: 12, heads: 3}"] if kind == "pal" else []
    changes += ["encoder.implementation=transformers"] if kind == "transformers" else []
    model, config = make(*changes, autocast=torch.bfloat16 if kind == "bf16" else None)
    pair = cross(8) if kind == "cross" else batch("qqp", rows=8)
    first, last = first_and_last_loss(model, config, {"sst": batch("sst", rows=10), "qqp": pair})
    assert last < 0.8 * first
    for task in ("sst", "qqp"):
        for name, parameter in model.tasks[task].pooler.named_parameters():
            assert parameter.isfinite().all(), name


@every_pooling
@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_scores_are_the_same_alone_and_with_other_tasks_and_pads(make, pooling, implementation):
    """Siamese pairs and single texts of one pass, each task's pads no longer than its own."""
    changes = [f"tasks.{task}.pooling={POOLINGS[pooling]}" for task in ("sst", "qqp")]
    model, _ = make(*changes, f"encoder.implementation={implementation}")
    model.double().eval()
    batches = {"sst": batch("sst", padding=3), "qqp": batch("qqp"), "sts": batch("sts")}
    together = model(separate(batches))
    for task in ("sst", "qqp"):
        alone = scores_of(model, task, batch(task))
        torch.testing.assert_close(together[task], alone, rtol=1e-9, atol=1e-9)


@every_pooling
def test_both_encoders_give_the_same_scores(make, pooling):
    changes = [f"tasks.sst.pooling={POOLINGS[pooling]}", "encoder.dropout=0"]
    result, weights = [], None
    for implementation in ("own", "transformers"):
        model, _ = make(*changes, f"encoder.implementation={implementation}")
        weights = weights or model.tasks.state_dict()
        model.tasks.load_state_dict(weights)
        result.append(scores_of(model.double().eval(), "sst", batch("sst")))
    torch.testing.assert_close(*result, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("pooling", ["mha", "hire", "hire in chunks"])
def test_smart_reaches_through_them(make, pooling):
    """Its second pass drops what the first one dropped: without a perturbation it is the same."""
    name = POOLINGS[pooling].replace("name: hire", "name: hire, dropout: 0.5")
    changes = [f"tasks.{task}.pooling={name}" for task in ("sst", "qqp")]
    model, _ = make(*changes)
    model.double().train()
    for task in ("sst", "qqp"):
        penalties = {}
        for dropout in ("same_mask", "eval", "independent"):
            smoothing = SmartConfig(eps=1e-9, noise=1e-9, step_size=1e-9, dropout=dropout)
            result = task_losses(model, separate({task: batch(task)}), {task: smoothing})[task]
            (result.loss + result.penalty).backward()
            assert all(p.grad.isfinite().all() for p in model.module(task).pooler.parameters())
            penalties[dropout] = result.penalty.item()
        assert max(penalties["same_mask"], penalties["eval"]) < 1e-12
        assert penalties["independent"] > 1e-6


@pytest.mark.parametrize(
    ("pooling", "layers"),
    [("max_cls", {1, 2}), ("mha", {2}), ("hire", {0, 1, 2}), ("hire without hire", {2})],
)
def test_no_layer_is_kept_that_is_not_pooled(make, monkeypatch, pooling, layers):
    model, _ = make(f"tasks.sst.pooling={POOLINGS[pooling]}")
    asked = []
    encode = model.encoder.encode
    monkeypatch.setattr(
        model.encoder,
        "encode",
        lambda *given, **more: asked.append(given[2:4]) or encode(*given, **more),
    )
    model(separate({"sst": batch("sst")}))
    assert asked == [(layers, "first" if pooling == "max_cls" else "all")]
