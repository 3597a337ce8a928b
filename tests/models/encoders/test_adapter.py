"""Where an encoder calls an adapter: each term goes into the right sum."""

import pytest
import torch

from tests.support.small_adapters import (
    NORMS,
    D,
    embedded,
    encoder,
    sentences,
)


class Stub(torch.nn.Module):
    """Adds a constant at one of the three places of layer 1."""

    layers = (1,)

    def __init__(self, place, constant):
        super().__init__()
        self.place, self.constant, self.given = place, constant, None

    def after_attention(self, layer, rows):
        return rows + self.constant if self.place == "attention" else rows

    def after_feed_forward(self, layer, rows):
        return rows + self.constant if self.place == "feed-forward" else rows

    def beside(self, layer, hidden, first, attend):
        self.given = hidden
        return self.constant.expand_as(hidden) if self.place == "beside" else None


@pytest.mark.parametrize("place", ["attention", "feed-forward", "beside"])
def test_what_an_adapter_adds_goes_into_the_right_sum(place):
    """The term beside the layer: into the second LayerNorm alone, through no matrix before it."""
    bert = encoder()
    given, mask = embedded()
    sums = {}
    for norm in NORMS:
        module = getattr(bert.layers[0], norm)
        module.register_forward_pre_hook(lambda m, args, n=norm: sums.update({n: args[0]}))
    plain = bert.encode(given, mask, (1,)) and dict(sums)
    constant = torch.linspace(1, 2, D, dtype=torch.float64)
    stub = Stub(place, constant)
    bert.encode(given, mask, (1,), "all", stub)
    at_first, at_second = (sums[norm] - plain[norm] for norm in NORMS)
    if place == "attention":
        torch.testing.assert_close(at_first, constant.expand_as(at_first))
    else:
        assert not at_first.any()
        torch.testing.assert_close(at_second, constant.expand_as(at_second))
    # the layer's input, shortest sentence first, and not what attention has made of it
    rows = sorted(sentences(given, mask), key=len)
    torch.testing.assert_close(stub.given, torch.cat(rows), rtol=0, atol=0)
