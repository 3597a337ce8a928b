"""The parts of a task above the encoder, with parts that say which of them was called."""

import pytest
import torch
from torch import nn

from heads.base import Head
from multitask.data.collate import Batch
from multitask.models.task_module import HeadOnSharedPooling, TaskModule


class Times(nn.Module):
    """Multiplies by a number, as a projection that is easy to recognise."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, vectors):
        return self.factor * vectors


class Difference(Head):
    """Of two sides; of one alone the vector itself."""

    def forward(self, *sides):
        return sides[0] - sides[1] if len(sides) == 2 else sides[0]


class Score(Head):
    """A linear layer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, vector):
        return self.linear(vector)


class Sequence(Head):
    """Takes a mask, too."""

    def forward(self, tokens, mask):
        return tokens * mask.unsqueeze(-1)

    def scores(self, pooled, batch):
        return self(pooled, batch.attention_mask)


def module(head=None, dropout=0.0, **options):
    """Pooler and projection are `x 1` and `x 10`, the pooler of evaluations, if any, `x 2`."""
    return TaskModule(Times(1), Times(10), head or Difference(), dropout, **options)


VECTORS = torch.arange(12.0).reshape(4, 3)


def test_projection_and_head_of_one_side():
    assert torch.equal(module()(VECTORS, Batch.of_vectors(1)), 10 * VECTORS)


def test_the_sides_of_a_pair_are_the_halves_of_the_batch():
    assert torch.equal(module()(VECTORS, Batch.of_vectors(2)), 10 * (VECTORS[:2] - VECTORS[2:]))


def test_two_views_while_training_are_one_in_evaluation():
    made = module()
    assert torch.equal(made.train()(VECTORS, Batch.of_vectors(2)), 10 * (VECTORS[:2] - VECTORS[2:]))
    assert torch.equal(made.eval()(VECTORS, Batch.of_vectors(1)), 10 * VECTORS)


def test_a_head_of_a_sequence_gets_the_mask():
    tokens, mask = torch.ones(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]])
    result = module(Sequence())(tokens, Batch(mask, mask, mask, None, 1, 0))
    assert torch.equal(result, 10.0 * mask.unsqueeze(-1).expand(2, 3, 4))


def test_dropout_is_behind_the_projection_and_in_training_alone():
    made, seen = module(dropout=0.5), []
    made.head.register_forward_pre_hook(lambda m, given: seen.append(given[0]))
    torch.manual_seed(0)
    ones = torch.ones(50, 40)
    made.train()(ones, Batch.of_vectors(1)), made.eval()(ones, Batch.of_vectors(1))
    dropped, plain = seen
    assert (
        set(dropped.unique().tolist()) == {0.0, 20.0} and 0.4 < dropped.bool().float().mean() < 0.6
    )
    assert torch.equal(plain, 10 * ones)


def test_a_pooler_of_evaluations_stands_in_for_pooler_and_projection():
    made = module(eval_pooler=Times(2))
    made.train()
    assert made.pooler_in_use is made.pooler
    assert torch.equal(made(VECTORS, Batch.of_vectors(1)), 10 * VECTORS)
    made.eval()
    assert made.pooler_in_use is made.scoring_pooler is made.eval_pooler
    assert torch.equal(made(VECTORS, Batch.of_vectors(1)), VECTORS)


@pytest.mark.parametrize("only", [True, False])
def test_a_head_may_want_the_projection_for_training_alone(only):
    made = module()
    made.head.mlp_only_train = only
    assert torch.equal(made.train().project(VECTORS), 10 * VECTORS)
    assert torch.equal(made.eval().project(VECTORS), (1 if only else 10) * VECTORS)
    assert made.scoring_pooler is made.pooler


def test_another_tasks_pooling_under_a_head_on_shared_pooling():
    base = TaskModule(nn.Linear(3, 3), nn.Linear(3, 3), Difference(), 0.0)
    sharing = HeadOnSharedPooling(base, Score(), 0.0)
    assert sharing.pooler is sharing.pooler_in_use is sharing.scoring_pooler is base.pooler
    assert torch.equal(
        sharing(VECTORS, Batch.of_vectors(1)), sharing.head(base.projection(VECTORS))
    )
    # the weights below have one owner
    assert {name for name, _ in sharing.named_parameters()} == {
        "head.linear.weight",
        "head.linear.bias",
    }
    pair = HeadOnSharedPooling(base, Difference(), 0.0)
    projected = base.projection(VECTORS)
    assert torch.equal(pair(VECTORS, Batch.of_vectors(2)), projected[:2] - projected[2:])
