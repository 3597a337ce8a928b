"""The masked-LM heads of checkpoints, under the names of our head."""

import pytest
import torch

from multitask.models.encoders.mlm_weights import mlm_weights

PARTS = ("dense.weight", "dense.bias", "norm.weight", "norm.bias")
BERT = {
    "cls.predictions.transform.dense.weight": 1,
    "cls.predictions.transform.dense.bias": 2,
    "cls.predictions.transform.LayerNorm.weight": 3,
    "cls.predictions.transform.LayerNorm.bias": 4,
    "cls.predictions.bias": 5,
    "embeddings.word_embeddings.weight": 6,
}
ROBERTA = {
    "lm_head.dense.weight": 1,
    "lm_head.dense.bias": 2,
    "lm_head.layer_norm.weight": 3,
    "lm_head.layer_norm.bias": 4,
    "lm_head.bias": 5,
    "embeddings.word_embeddings.weight": 6,
}


def tensors(values):
    return {name: torch.tensor([value]).half() for name, value in values.items()}


@pytest.mark.parametrize("checkpoint", [BERT, ROBERTA], ids=["bert", "roberta"])
def test_both_families(checkpoint):
    result = mlm_weights(tensors(checkpoint))
    assert {name: tensor.item() for name, tensor in result.items()} == dict(
        zip((*PARTS, "bias"), (1, 2, 3, 4, 5), strict=True)
    )
    assert all(tensor.dtype == torch.float32 for tensor in result.values())


def test_the_decoders_spelling_of_the_bias_and_a_tied_decoder():
    changed = {name: value for name, value in BERT.items() if name != "cls.predictions.bias"}
    changed |= {"cls.predictions.decoder.bias": 5, "cls.predictions.decoder.weight": 6}
    assert mlm_weights(tensors(changed))["bias"].item() == 5


@pytest.mark.parametrize("missing", [name for name in BERT if name.startswith("cls")])
def test_half_a_head_is_none(missing):
    assert mlm_weights(tensors({k: v for k, v in BERT.items() if k != missing})) is None


def test_a_separate_decoder_is_not_a_tied_head():
    assert mlm_weights(tensors({**BERT, "cls.predictions.decoder.weight": 7})) is None
