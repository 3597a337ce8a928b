"""Read the masked-LM head of a checkpoint."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from multitask.models.encoders.hf_layout import layout_of


def mlm_weights(weights: Mapping[str, Tensor], config: Any) -> dict[str, Tensor] | None:
    """Return the head's weights in fp32, from a checkpoint's tensors (``read_weights``).

    ``config`` is the checkpoint's `transformers` config. None if the checkpoint has no such head,
    its decoder is not the word embedding, or its activation is not the exact gelu, as ours is.
    """
    layout = layout_of(config.model_type)
    words = weights.get(f"{layout.word}.weight")
    for place in layout.heads:
        if place.activation and getattr(config, place.activation) != "gelu":
            continue
        head = {
            f"{name}.{kind}": weights[f"{saved}.{kind}"].float()
            for name, saved in (("dense", place.dense), ("norm", place.norm))
            for kind in ("weight", "bias")
            if f"{saved}.{kind}" in weights
        }
        if not place.biases and "dense.weight" in head:
            zeros = torch.zeros(len(head["dense.weight"]))
            head = {"dense.bias": zeros, "norm.bias": zeros.clone(), **head}
        stem = place.vocabulary
        bias = weights.get(f"{stem}.bias", weights.get(f"{stem}.decoder.bias"))
        decoder = weights.get(f"{stem}.decoder.weight", weights.get(f"{stem}.weight"))
        tied = decoder is None or (words is not None and torch.equal(decoder, words))
        if len(head) == 4 and bias is not None and tied:
            return {**head, "bias": bias.float()}
    return None
