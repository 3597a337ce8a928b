"""What is said of a pooler's scores after an evaluation, against the scores themselves."""

import pytest
import torch
from torch.nn.functional import softmax

from multitask.registry import build
from multitask.score_watch import scores_states, summary, watched_scores

CPU = torch.device("cpu")
D, LAYERS = 8, 3


def make(name="hire", **options):
    torch.manual_seed(0)
    return build("pooling", name, options, {"dim": D, "num_layers": LAYERS}).eval()


def batches():
    generator = torch.Generator().manual_seed(0)
    for rows in (5, 3):
        mask = torch.ones(rows, 4, dtype=torch.int64)
        yield (
            {n: 4 * torch.randn(rows, 4, D, generator=generator) for n in range(LAYERS + 1)},
            mask,
        )


@pytest.mark.parametrize("layers", [None, [1, 3]])
def test_the_summary_is_that_of_all_scores(layers):
    pooler = make(layers=layers)
    torch.nn.init.normal_(pooler.scorer.score.weight, std=2.0)
    pooler(*next(iter(batches())))  # before: not watched
    with watched_scores(pooler) as seen:
        for given in batches():
            pooler(*given)
    pooler(*next(iter(batches())))  # after: no longer
    states = layers or [0, 1, 2, 3]
    alpha = torch.cat([pooler.scorer([h[n] for n in states], mask) for h, mask in batches()])
    assert 0 < (alpha > 0).float().mean() < 1
    found = summary(pooler, seen, CPU)
    assert (found["states"], found["rows"]) == (states, 8)
    assert found["above_0"] == pytest.approx((alpha > 0).double().mean().item())
    assert found["mean"] == pytest.approx(softmax(alpha, 1).mean(0).tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("pooler", "scored"),
    [
        (make("cls"), False),
        (make(scores="none"), False),
        (make(scores="mean"), True),
        (make(scores="random"), True),
    ],
    ids=["cls", "none", "mean", "random"],
)
def test_nothing_is_said_where_nothing_is_learned(pooler, scored):
    with watched_scores(pooler) as seen:
        pooler(*next(iter(batches())))
    assert scores_states(pooler) == scored == bool(seen)
    assert summary(pooler, seen, CPU) is None


def test_the_watch_ends_with_an_error():
    pooler = make()
    with pytest.raises(KeyboardInterrupt), watched_scores(pooler):
        raise KeyboardInterrupt
    assert not pooler.scorer._forward_hooks
