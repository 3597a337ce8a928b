"""R-Drop against two separate passes and the paper's formula in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from multitask.config import RDropConfig
from multitask.data.collate import separate
from multitask.training.loss import loss_and_consistency
from tests.support.losses import task_losses
from tests.support.small_models import batch, every_task


class Factors(nn.Module):
    """Stands in for dropout: the rows times given factors."""

    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def forward(self, rows):
        return rows * self.factors


def halves(sides, rows, width):
    """Factors of the rows of two passes: [sides * rows, width] each."""
    generator = torch.Generator().manual_seed(1)
    shape = (2, sides, rows, width)
    drawn = (torch.rand(shape, generator=generator, dtype=torch.float64) > 0.2).double() / 0.8
    return drawn.flatten(1, 2)


def naive_divergence(task, first, second):
    """KL(P|Q) + KL(Q|P) of each row in plain loops, or the squared difference."""
    result = []
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        if task == "sts":
            result.append((one - other) ** 2)
            continue
        rows = []
        for logits in (one, other):
            logits = logits if task == "sst" else [0.0, logits]
            total = sum(math.exp(value) for value in logits)
            rows.append([math.exp(value) / total for value in logits])
        p, q = rows
        result.append(sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True)))
    return sum(result) / len(result)


@every_task
@pytest.mark.parametrize("unlabelled", [False, True])
def test_loss_term_and_gradients_equal_two_passes(task, unlabelled, make):
    rows = batch(task)
    if unlabelled:
        chosen = torch.tensor([0, 2, 3])
        rows = replace(rows, labelled=chosen, labels=rows.labels[chosen])
    model = make("encoder.dropout=0").train()
    model.encoder.eval()  # no dropout of attention weights
    width = 32 if task != "sst" else model.module("sst").head.linear.in_features
    first, second = halves(rows.sides, rows.rows, width)
    parts = [half.chunk(rows.sides) for half in (first, second)]
    both = torch.cat([part for pair in zip(*parts, strict=True) for part in pair])
    module, weight = model.tasks[task], 1.7
    module.dropout = Factors(both)
    loss, scores, terms = loss_and_consistency(model, task, rows, RDropConfig(weight=weight))
    (loss + terms["consistency"]).backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    losses, outputs = [], []
    for half in (first, second):
        module.dropout = Factors(half)
        outcome = task_losses(model, separate({task: rows}))[task]
        losses.append(outcome.loss)
        outputs.append(outcome.scores)
    torch.testing.assert_close(scores, outputs[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(loss, (losses[0] + losses[1]) / 2, rtol=1e-9, atol=1e-11)
    expected = weight * naive_divergence(task, *outputs) / 2
    assert terms["consistency"].item() == pytest.approx(expected, rel=1e-8)
    p, q = outputs
    if task == "sst":
        gap = ((p.softmax(-1) - q.softmax(-1)) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1)
    else:
        gap = (p - q) ** 2 if task == "sts" else (p.sigmoid() - q.sigmoid()) * (p - q)
    ((losses[0] + losses[1]) / 2 + weight / 2 * gap.mean()).backward()
    assert len(gradients) > 20
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-7, atol=1e-9)


@every_task
def test_the_rows_come_twice_in_each_side(task):
    rows = batch(task)
    rows = replace(rows, lengths=rows.attention_mask.sum(1).numpy())
    both = rows.twice()
    assert both.rows == 2 * rows.rows and both.sides == rows.sides
    sides = (ids.chunk(rows.sides) for ids in (rows.input_ids, both.input_ids))
    for before, after in zip(*sides, strict=True):
        assert torch.equal(after, torch.cat([before, before]))
    assert np.array_equal(both.lengths, both.attention_mask.sum(1).numpy())
    assert torch.equal(both.labels, torch.cat([rows.labels, rows.labels]))


def test_tokens_with_a_label_keep_their_tokens():
    rows = batch("sst")
    places = torch.tensor([1, 9, 17])
    both = replace(rows, places=places, labels=torch.tensor([4, 5, 6])).twice()
    found = both.input_ids.flatten()[both.places]
    assert torch.equal(found, rows.input_ids.flatten()[places].repeat(2))


def test_without_dropout_the_term_is_zero_and_with_it_positive(make):
    for rate, positive in ((0, False), (0.1, True)):
        model = make(f"encoder.dropout={rate}", f"tasks.sst.dropout={rate}").train()
        if not rate:
            model.encoder.eval()
        settings = {"sst": RDropConfig()}
        outcome = task_losses(model, separate({"sst": batch("sst")}), r_drop=settings)["sst"]
        assert (outcome.penalty.item() > 1e-9) == positive
        assert len(outcome.scores) == 4


def test_a_batch_without_labels_has_a_term_of_zero(make):
    rows = batch("sst")
    empty = torch.empty(0, dtype=torch.int64)
    model = make().train()
    rows = replace(rows, labelled=empty, labels=empty)
    loss, scores, terms = loss_and_consistency(model, "sst", rows, RDropConfig())
    assert loss.item() == terms["consistency"].item() == 0 and not len(scores)
