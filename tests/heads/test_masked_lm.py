"""The masked-LM head against its formula as a plain loop in float64."""

import math

import pytest
import torch

from multitask.config.registry import build
from multitask.utils.errors import UserError

M, D, E, V = 5, 6, 4, 9
EPS = 1e-3


def make(mlm_weights=None, **options):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        words = torch.nn.Embedding(V, E)
        context = {
            "dim": D,
            "word_embedding": words,
            "norm_eps": EPS,
            "mlm_weights": mlm_weights,
        }
        head = build("head", "masked_lm", options, context)
    finally:
        torch.set_default_dtype(torch.float32)
    return head, words


def drawn(seed=1):
    """A head with every parameter drawn at random, M token vectors, their ids."""
    head, words = make()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(M, D, generator=generator, dtype=torch.float64)
    return head, words, tokens, torch.tensor([0, 8, 3, 3, 5])


def naive_logits(head, words, token):
    """E LN(gelu(W h + b)) + c of one token, in plain Python."""
    weight, bias = head.dense.weight.tolist(), head.dense.bias.tolist()
    dense = [
        math.fsum(w * x for w, x in zip(row, token, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]
    active = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in dense]
    mean = math.fsum(active) / E
    variance = math.fsum((x - mean) ** 2 for x in active) / E
    normed = [
        (x - mean) / math.sqrt(variance + EPS) * g + b
        for x, g, b in zip(active, head.norm.weight.tolist(), head.norm.bias.tolist(), strict=True)
    ]
    return [
        math.fsum(e * x for e, x in zip(row, normed, strict=True)) + c
        for row, c in zip(words.weight.tolist(), head.bias.tolist(), strict=True)
    ]


def test_logits_and_loss_equal_the_formula():
    head, words, tokens, ids = drawn()
    expected = [naive_logits(head, words, token) for token in tokens.tolist()]
    scores = head(tokens)
    torch.testing.assert_close(
        scores, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )
    losses = [
        math.log(math.fsum(math.exp(x) for x in row)) - row[y]
        for row, y in zip(expected, ids.tolist(), strict=True)
    ]
    assert head.criterion(scores, ids).item() == pytest.approx(math.fsum(losses) / M, rel=1e-12)
    right = [float(row.index(max(row)) == y) for row, y in zip(expected, ids.tolist(), strict=True)]
    outcomes = head.outcomes(scores, ids)
    assert outcomes[:, 0].tolist() == right
    assert outcomes[:, 1].tolist() == pytest.approx(losses, rel=1e-12)


def test_the_word_embedding_is_used_and_trained_but_not_owned():
    head, words, tokens, ids = drawn()
    assert set(head.state_dict()) == {
        "dense.weight",
        "dense.bias",
        "norm.weight",
        "norm.bias",
        "bias",
    }
    head.criterion(head(tokens), ids).backward()
    assert words.weight.grad.any() and all(p.grad is not None for p in head.parameters())
    before = head(tokens)
    words.load_state_dict({"weight": words.weight + 1}, assign=True)  # another tensor altogether
    assert not torch.allclose(head(tokens), before)


def test_weights_of_a_checkpoint_are_taken():
    taken = {name: tensor + 1 for name, tensor in make()[0].state_dict().items()}
    result = make(mlm_weights=taken)[0].state_dict()
    assert all(torch.equal(result[name], taken[name]) for name in taken)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UserError, match="mask_share must be between 0 and 1"):
        make(mask_share=share)


def test_weights_that_do_not_fit_are_one_line():
    weights = make()[0].state_dict() | {"bias": torch.zeros(V + 1)}
    with pytest.raises(UserError, match="size mismatch") as caught:
        make(mlm_weights=weights)
    assert "\n" not in str(caught.value)
