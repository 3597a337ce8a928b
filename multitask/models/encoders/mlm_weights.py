"""Read the masked-LM head of a BERT, RoBERTa or DistilBERT checkpoint."""

from collections.abc import Mapping

import torch
from torch import Tensor

# the name in ``heads.masked_lm`` -> the name in a checkpoint; the vocabulary's bias has two
NAMES = {
    "bert": {
        "dense": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "": "cls.predictions",
    },
    "distilbert": {"dense": "vocab_transform", "norm": "vocab_layer_norm", "": "vocab_projector"},
    "roberta": {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "": "lm_head"},
}
WORDS = "embeddings.word_embeddings.weight"


def mlm_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the head's weights in fp32, from a checkpoint's tensors (``read_weights``).

    None if the checkpoint has no such head, or its decoder is not the word embedding.
    """
    for family in NAMES.values():
        head = {
            f"{name}.{kind}": weights[f"{saved}.{kind}"].float()
            for name, saved in family.items()
            for kind in ("weight", "bias")
            if name and f"{saved}.{kind}" in weights
        }
        stem = family[""]
        bias = weights.get(f"{stem}.bias", weights.get(f"{stem}.decoder.bias"))
        decoder = weights.get(f"{stem}.decoder.weight", weights.get(f"{stem}.weight"))
        tied = decoder is None or (WORDS in weights and torch.equal(decoder, weights[WORDS]))
        if len(head) == 4 and bias is not None and tied:
            return {**head, "bias": bias.float()}
    return None
