"""Projected attention: its activation, its dropout, the size that the paper gives."""

import pytest
import torch

from multitask.config.registry import build
from tests.support.small_adapters import (
    LAYERS,
    embedded,
    encoder,
    naive,
    pal_term,
    same,
    sentences,
    trained,
)


def test_a_pal_without_activation_equals_its_formula():
    bert, adapter = encoder(), trained("pal", activation="none")
    given, mask = embedded()
    formulas = (same, same, lambda s, n, h: pal_term(s, n, h, last=lambda x: x))
    actual = bert.encode(given, mask, (LAYERS,), "all", adapter)[LAYERS]
    for row, sentence in enumerate(sentences(given, mask)):
        expected = naive(bert.state_dict(), adapter.state_dict(), sentence, formulas)[-1]
        torch.testing.assert_close(actual[row, : len(sentence)], expected, rtol=1e-10, atol=1e-10)
    other = bert.encode(given, mask, (LAYERS,), "all", trained("pal"))[LAYERS]
    assert not torch.allclose(actual, other, atol=1e-3)


def test_a_pal_drops_attention_weights_in_training_beside_an_encoder_at_rest():
    bert, adapter = encoder(dropout=0.1), trained("pal", dropout=0.5)
    given, mask = embedded()

    def run():
        return bert.encode(given, mask, (LAYERS,), "all", adapter)[LAYERS]

    assert torch.equal(run(), run())
    adapter.train()
    assert not torch.allclose(run(), run(), atol=1e-3)
    without = trained("pal", dropout=0.0)
    torch.testing.assert_close(
        bert.encode(given, mask, (LAYERS,), "all", without.train())[LAYERS],
        bert.encode(given, mask, (LAYERS,), "all", without.eval())[LAYERS],
    )


@pytest.mark.parametrize(
    ("options", "count"), [({"size": 204}, 1_819_836), ({"size": 60}, 224_748), ({}, 1_819_836)]
)
@pytest.mark.parametrize("heads", [6, 12])
def test_a_pal_of_bert_base_has_the_papers_parameters(options, count, heads):
    with torch.device("meta"):
        made = build("adapter", "pal", {**options, "heads": heads}, {"dim": 768, "num_layers": 12})
    assert sum(parameter.numel() for parameter in made.parameters()) == count
