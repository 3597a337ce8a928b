"""The multi-task model: what is shared, what a task owns, and what one task's step touches."""

import dataclasses
from itertools import pairwise

import pytest
import torch

from multitask.data.collate import Batch, separate
from multitask.models.multitask_model import parameter_counts
from multitask.models.pretrained import load_head_weights
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.step import train_step
from tests.conftest import WORDS
from tests.support.losses import task_losses
from tests.support.small_models import TASKS, WEIGHTS, D, batch, every_task, scores_of

ENCODER = {"embeddings", "layer_1", "layer_2"}


def task_loss(model, task, rows):
    return task_losses(model, separate({task: rows}))[task].loss


def gradients(module):
    return [parameter.grad for parameter in module.parameters()]


def test_parameter_counts(make):
    words, positions, inner = 5 + len(WORDS), 64, 64
    layer = 4 * (D * D + D) + (D * inner + inner) + (inner * D + D) + 2 * 2 * D
    encoder = (words + positions + 2) * D + 2 * D + 2 * layer
    assert parameter_counts(make()) == {
        "encoder": encoder,
        "tasks.sst": 5 * D + 5,
        "tasks.qqp": D + 1,
        "tasks.sts": 0,
    }
    changed = make(
        "tasks.sst.projection=bert_pooler", "tasks.sts.head={name: cosine_regression, linear: true}"
    )
    assert parameter_counts(changed) == {
        "encoder": encoder,
        "tasks.sst": D * D + D + 5 * D + 5,
        "tasks.qqp": D + 1,
        "tasks.sts": D * D + D,
    }


def test_bert_pooler_is_the_checkpoints_after_building(make, configure):
    changes = ["tasks.sst.projection=bert_pooler"]
    model = make(*changes)
    weight, bias = load_head_weights(configure(*changes)).pooler
    dense = model.tasks["sst"].projection.dense
    assert torch.equal(dense.weight, weight) and torch.equal(dense.bias, bias)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_siamese_is_one_batch_of_both_sides(make, monkeypatch, pooling):
    model = make(f"tasks.qqp.pooling={pooling}", "tasks.qqp.head.features=[u, v, abs_diff]")
    model.double().eval()
    both = batch("qqp", rows=3)
    calls = []
    encode = model.encoder.encode
    monkeypatch.setattr(
        model.encoder,
        "encode",
        lambda e, *rest, **more: calls.append(e.shape) or encode(e, *rest, **more),
    )
    scores = scores_of(model, "qqp", both)
    assert calls == [(6, 8, D)]
    tensors = (both.input_ids, both.attention_mask, both.token_type_ids)
    u, v = (
        model.pooled(separate({"qqp": Batch(*(tensor[side] for tensor in tensors), None, 1, 0)}))[
            "qqp"
        ]
        for side in (slice(0, 3), slice(3, 6))
    )
    torch.testing.assert_close(scores, model.head("qqp")(u, v), rtol=1e-10, atol=1e-10)
    assert not torch.allclose(scores, model.head("qqp")(v, u))


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@every_task
def test_padding_never_changes_scores_loss_or_gradients(make, pooling, task):
    result = []
    for padding in (0, 7):
        model = make(f"tasks.{task}.pooling={pooling}").double().eval()
        loss = task_loss(model, task, batch(task, padding=padding))
        loss.backward()
        scores = scores_of(model, task, batch(task, padding=padding))
        touched = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        result.append([scores, loss, touched])
    (scores, loss, touched), (padded_scores, padded_loss, padded_touched) = result
    torch.testing.assert_close(padded_scores, scores, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(padded_loss, loss, rtol=1e-10, atol=1e-10)
    assert padded_touched.keys() == touched.keys()
    for name, gradient in touched.items():
        torch.testing.assert_close(padded_touched[name], gradient, rtol=1e-8, atol=1e-10, msg=name)


@every_task
def test_batch_equals_single(make, task):
    model = make().double().eval()
    undivided = batch(task)
    scores = scores_of(model, task, undivided)
    for i in range(undivided.rows):
        rows = [i + side * undivided.rows for side in range(undivided.sides)]
        width = int(undivided.attention_mask[rows].sum(1).max())
        tensors = (undivided.input_ids, undivided.attention_mask, undivided.token_type_ids)
        alone = Batch(*(tensor[rows][:, :width] for tensor in tensors), None, undivided.sides, 0)
        torch.testing.assert_close(
            scores_of(model, task, alone)[0], scores[i], rtol=1e-10, atol=1e-10
        )


@every_task
def test_a_task_gives_no_gradient_to_the_others(make, task):
    """None, not zero: AdamW would go on moving a parameter whose gradient is zero."""
    model = make("tasks.sts.head={name: cosine_regression, linear: true}").train()
    task_loss(model, task, batch(task)).backward()
    for other in TASKS:
        for gradient in gradients(model.tasks[other]):
            assert (gradient is not None) == (other == task)
    assert all(gradient is not None for gradient in gradients(model.encoder))


def test_a_step_leaves_the_other_tasks_parameters_where_they_are(make, configure):
    """Neither their momentum nor weight decay moves them: so a stopped task stays as it is."""
    model = make().train()
    config = configure("training.weight_decay=0.5")
    optimizer = build_optimizer(model, config.training, dict.fromkeys(TASKS, 1e-3))
    for task in ("qqp", "sst"):
        train_step(model, [separate({task: batch(task)})], optimizer, Objective(WEIGHTS))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train_step(model, [separate({"sst": batch("sst")})], optimizer, Objective(WEIGHTS))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith(("tasks.qqp", "tasks.sts")), (
            name
        )


@pytest.mark.parametrize("weight", [1.0, 0.25])
@pytest.mark.parametrize("cuts", [[0, 5], [0, 2, 5]], ids=["whole", "accumulated"])
def test_a_step_follows_the_weighted_mean_over_all_its_rows(
    make, monkeypatch, configure, weight, cuts
):
    """Unequal parts and class weights included; the loss weight is on the gradient alone."""
    head = "tasks.sst.head={name: classification, class_weights: balanced}"
    reference, model = make(head).double().eval(), make(head).double().eval()
    undivided = batch("sst", rows=5)
    expected = task_loss(reference, "sst", undivided)
    (weight * expected).backward()
    tensors = (
        undivided.input_ids,
        undivided.attention_mask,
        undivided.token_type_ids,
        undivided.labels,
    )
    parts = [
        separate({"sst": Batch(*(t[start:end] for t in tensors), 1, 0, share=(end - start) / 5)})
        for start, end in pairwise(cuts)
    ]
    optimizer = build_optimizer(model, configure().training, dict.fromkeys(TASKS, 1e-3))
    held = {}
    monkeypatch.setattr(
        optimizer, "step", lambda: held.update({n: p.grad for n, p in model.named_parameters()})
    )
    done = train_step(model, parts, optimizer, Objective({"sst": weight}))
    losses, norm = done.losses, done.norm
    assert losses.keys() == {"sst"}
    assert losses["sst"] == pytest.approx(expected.item(), rel=1e-10)
    squares = [gradient.square().sum() for gradient in held.values() if gradient is not None]
    assert norm == pytest.approx(sum(squares).sqrt().item(), rel=1e-10)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(held[name], parameter.grad, rtol=1e-8, atol=1e-10, msg=name)


def test_tasks_together_are_as_each_alone_and_encoded_once(make, monkeypatch):
    """Losses, scores and the gradient of their weighted sum, whatever the poolers and widths."""
    changes = ("tasks.sts.pooling=max", "tasks.sst.pooling=cls")
    model, reference = make(*changes).double().eval(), make(*changes).double().eval()
    batches = {"sst": batch("sst", rows=5), "qqp": batch("qqp", padding=6), "sts": batch("sts")}
    weights = {"sst": 1.0, "qqp": 0.5, "sts": 2.0}
    calls = []
    encode = model.encoder.encode
    monkeypatch.setattr(
        model.encoder,
        "encode",
        lambda e, *rest, **more: calls.append(e.shape) or encode(e, *rest, **more),
    )
    together = task_losses(model, separate(batches))
    assert calls == [(5 + 8 + 8, 14, D)]
    sum(weights[task] * outcome.loss for task, outcome in together.items()).backward()
    for task, rows in batches.items():
        alone = task_losses(reference, separate({task: rows}))[task]
        (weights[task] * alone.loss).backward()
        torch.testing.assert_close(together[task].loss, alone.loss, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(together[task].scores, alone.scores, rtol=1e-9, atol=1e-10)
    for (name, one), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-10, msg=name)


def test_freezing_names_the_parts_and_releases_the_others(make):
    model = make()
    assert set(model.parts()) == {*ENCODER, *TASKS}
    counted = [id(p) for part in model.parts().values() for p in part]
    assert sorted(counted) == sorted(id(p) for p in model.parameters())  # each in one part
    model.freeze({"layer_1", "sst"})
    fixed = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert fixed and all("layers.0." in name or "tasks.sst" in name for name in fixed)
    model.freeze(())
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_encoder_gets_no_gradient_and_no_dropout(make, frozen):
    model = make().train()
    model.freeze(ENCODER if frozen else ())
    assert model.training and model.tasks["sst"].training
    assert model.encoder.training == (not frozen)
    first, second = (model.pooled(separate({"sst": batch("sst")}))["sst"] for _ in range(2))
    assert torch.equal(first, second) == frozen
    assert first.requires_grad == (not frozen)
    task_loss(model, "sst", batch("sst")).backward()
    assert all((gradient is None) == frozen for gradient in gradients(model.encoder))
    assert all(gradient is not None for gradient in gradients(model.tasks["sst"]))
    model.eval()
    assert not any(module.training for module in model.modules())
    model.train()
    assert model.encoder.training == (not frozen)


@pytest.mark.parametrize("training", [True, False])
def test_the_tasks_own_dropout_acts_in_training_alone(make, training):
    model = make("tasks.sst.dropout=0.5")
    model.freeze(ENCODER)
    model.train(training)
    first, second = (scores_of(model, "sst", batch("sst")) for _ in range(2))
    assert torch.equal(first, second) == (not training)


@every_task
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_autocast_stops_before_projection_and_head(make, task, pooling):
    changes = (f"tasks.{task}.pooling={pooling}", f"tasks.{task}.projection=tanh")
    exact, model = make(*changes).eval(), make(*changes, autocast=torch.bfloat16).eval()
    model.load_state_dict(exact.state_dict())
    seen = {}

    def watch(name):
        return lambda module, args: seen.update({name: (args[0], torch.is_autocast_enabled("cpu"))})

    task_module = model.tasks[task]
    # as of a pooler that ends in a matrix product
    task_module.pooler.register_forward_hook(lambda module, args, output: output.bfloat16())
    task_module.projection.register_forward_pre_hook(watch("projection"))
    task_module.head.register_forward_pre_hook(watch("head"))
    linear = model.encoder.layers[1].feed_forward.down
    linear.register_forward_hook(lambda module, args, output: seen.update(encoder=output.dtype))
    scores = scores_of(model, task, batch(task))
    loss = model.head(task).criterion(scores, batch(task).labels)
    assert seen["encoder"] == torch.bfloat16
    for name in ("projection", "head"):
        given, autocast = seen[name]
        assert given.dtype == torch.float32 and not autocast, name
    assert scores.dtype == loss.dtype == torch.float32
    torch.testing.assert_close(scores, scores_of(exact, task, batch(task)), rtol=0.05, atol=0.05)
    loss.backward()
    assert all(gradient.dtype == torch.float32 for gradient in gradients(model.encoder))


def test_a_batch_without_labels_has_scores(make):
    model = make().eval()
    unlabelled = dataclasses.replace(batch("sst"), labels=None)
    expected = scores_of(model, "sst", batch("sst"))
    assert torch.equal(scores_of(model, "sst", unlabelled), expected)
