"""The summary of a pooler's weights after an evaluation, against the weights one by one."""

import numpy as np
import pytest
import torch

from multitask.config.registry import POOLERS, build
from multitask.inference.analysis.layer_weights import summary, watched_weights, weighs_states

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


def watched(pooler):
    """The watch of two batches, among others before and after it; the outputs in it."""
    pooler(*next(iter(batches())))
    with watched_weights(pooler) as seen:
        outputs = [pooler(*given) for given in batches()]
    pooler(*next(iter(batches())))
    return seen, torch.cat(outputs)


def softmax(row):
    shares = np.exp(np.array(row, dtype=np.float64))
    return shares / shares.sum()


@pytest.mark.parametrize("layers", [None, [1, 3]])
def test_the_summary_of_hire_is_that_of_all_its_scores(layers):
    pooler = make(layers=layers)
    torch.nn.init.normal_(pooler.scorer.score.weight, std=2.0)
    result = summary(pooler, watched(pooler)[0], CPU)
    states = layers or [0, 1, 2, 3]
    alpha = torch.cat([pooler.scorer([h[n] for n in states], mask) for h, mask in batches()])
    assert 0 < (alpha > 0).float().mean() < 1
    assert (result["states"], result["rows"]) == (states, 8)
    assert result["above_0"] == pytest.approx((alpha > 0).double().mean().item())
    mean = sum(softmax(row) for row in alpha.tolist()) / 8
    assert result["mean"] == pytest.approx(mean.tolist(), rel=1e-5)


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("embeddings", [True, False])
def test_the_summary_of_layer_attention_is_that_of_what_its_output_mixes(concat, embeddings):
    """The weights that reproduce the output from the values, by a loop over rows and layers."""
    pooler = make("layer_attention", concat_cls_last=concat, include_embeddings=embeddings)
    for parameter in pooler.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    seen, outputs = watched(pooler)
    result = summary(pooler, seen, CPU)
    states = list(range(0 if embeddings else 1, LAYERS + 1))
    assert (result["states"], result["rows"], result["above_0"]) == (states, 8, None)
    weights = torch.cat(seen.weights)
    assert weights.std() > 0.01  # not uniform
    total, row = np.zeros(len(states)), 0
    for hidden, _ in batches():
        for i in range(len(hidden[0])):
            mixed = torch.zeros(D)
            for place, n in enumerate(states):
                mixed += weights[row, place] * pooler.act(pooler.value(hidden[n][i].mean(0)))
            torch.testing.assert_close(outputs[row, -D:], mixed, rtol=1e-4, atol=1e-5)
            total += weights[row].numpy()
            row += 1
    assert result["mean"] == pytest.approx((total / 8).tolist(), rel=1e-5)


@pytest.mark.parametrize("name", [n for n in POOLERS if weighs_states(make(n))])
def test_a_pooler_that_weighs_states_weighs_once_a_batch(name):
    pooler = make(name)
    seen, _ = watched(pooler)
    assert [weights.shape for weights in seen.weights] == [(5, LAYERS + 1), (3, LAYERS + 1)]
    for weights in seen.weights:
        assert weights.dtype == torch.float32 and not weights.requires_grad
        torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))


@pytest.mark.parametrize("name", ["layer_attention", "hire"])
def test_hire_and_layer_attention_weigh_states(name):
    assert weighs_states(make(name))


@pytest.mark.parametrize("scores", ["mean", "random"])
def test_fixed_weights_have_no_share_above_0(scores):
    pooler = make(scores=scores)
    result = summary(pooler, watched(pooler)[0], CPU)
    assert result["mean"] == pytest.approx(softmax(pooler.scorer.alpha.tolist()).tolist(), rel=1e-5)
    assert result["above_0"] is None


@pytest.mark.parametrize("pooler", [make("cls"), make(scores="none")], ids=["cls", "none"])
def test_nothing_is_seen_where_nothing_is_weighed(pooler):
    seen, _ = watched(pooler)
    assert not weighs_states(pooler) and not seen.weights


def test_the_watch_ends_with_an_error():
    pooler = make()
    with pytest.raises(KeyboardInterrupt), watched_weights(pooler):
        raise KeyboardInterrupt
    assert not pooler.weigher._forward_hooks
