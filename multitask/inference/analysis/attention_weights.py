"""Compute the attention weights of every layer and head from the hidden states."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.data.collate import collate
from multitask.data.tokenize import tokenize
from multitask.models.encoders import BertEncoder, Encoder
from multitask.models.encoders.bert import QKV, SelfAttention, Term, with_terms
from multitask.models.encoders.operators import relative_scores, softmax
from multitask.reporting.figures.maps import ClsAttention
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

NO_LIMIT = 10**9


@torch.no_grad()
def attention_weights(
    encoder: Encoder, input_ids: Tensor, token_type_ids: Tensor, mask: Tensor, adapter: Any = None
) -> list[Tensor]:
    """Compute softmax(Q K^T / sqrt(d_head)) per layer, lowest first (Vaswani et al. 2017, eq. 1).

    Fused kernels never store these weights, so they are computed again from the layer's input and
    its query and key weights, in fp32 or wider. An encoder of `transformers` returns them in its
    "eager" implementation.

    Args:
        encoder: in evaluation mode.
        input_ids, token_type_ids, mask: int64 [B, T] each.
        adapter: the task's adapter, in evaluation mode.

    Returns:
        L tensors [B, h, T, T]: the weight of query i (third axis) on key j (fourth). The weights
        of a token sum to 1; rows and columns of pads are 0.

    Raises:
        ValueError: the encoder is in training mode, so the weights would have dropout.
        UserError: an encoder of `transformers` that does not return its weights.
    """
    if encoder.training:
        raise ValueError("the encoder is in training mode: call encoder.eval() first")
    if isinstance(encoder, BertEncoder):
        embedded = encoder.embed(input_ids, token_type_ids, mask)
        states = encoder.encode(embedded, mask, range(encoder.num_layers), adapter=adapter)
        parts: list[Any] = [layer.attention for layer in encoder.layers]
        width = mask.shape[1]
        relative = encoder.relative
        bias = None if relative is None else relative_scores(relative(width), width, single=False)
        weights = []
        for number, part in enumerate(parts, 1):
            term = None if adapter is None else partial(adapter.term, number)
            weights.append(layer_attention(part, states[number - 1], mask, bias, term=term))
        return weights
    model = encoder.model
    types = {"token_type_ids": token_type_ids} if encoder.takes_token_types else {}
    usual = model.get_correct_attn_implementation(None)  # the default: we never choose another
    model.set_attn_implementation("eager")
    try:
        with encoder.adapted(adapter):
            output = model(input_ids, attention_mask=mask, output_attentions=True, **types)
    finally:
        model.set_attn_implementation(usual)
    if not output.attentions:
        raise UserError(f"an encoder of type {model.config.model_type} tells no attention weights")
    return [weights * mask[:, None, :, None] for weights in output.attentions]


def layer_attention(
    attention: SelfAttention,
    hidden: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
    term: Term | None = None,
) -> Tensor:
    """Compute a layer's weights [B, h, T, T] from its input [B, T, d] and the mask [B, T].

    ``bias`` [h, T, T] is added to the scores; ``term`` is an adapter's.
    """
    qkv = with_terms(attention.qkv(hidden), hidden, term, QKV)
    query, key, _ = qkv.chunk(3, dim=-1)
    query, key = (x.unflatten(2, (attention.heads, -1)).transpose(1, 2) for x in (query, key))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    scores = scores if bias is None else scores + bias
    return softmax(scores, mask[:, None, None] != 0) * mask[:, None, :, None]


def cls_attention(
    encoder: Encoder, tokenizer: Any, texts: Sequence[str], adapter: Any = None
) -> ClsAttention:
    """Compute how much [CLS] attends to each token of a text, or of a pair in one input.

    Args:
        encoder: in evaluation mode.
        tokenizer: as returned by ``multitask.models.pretrained.load_tokenizer``.
        texts: one or two.
        adapter: the task's adapter, if any.

    Raises:
        UserError: more tokens than the encoder has positions.
    """
    tokens = tokenize(Rows("text", ["0"], [tuple(texts)], None), tokenizer, max_length=NO_LIMIT)
    if len(tokens.ids) > encoder.max_positions:
        count = f"{len(tokens.ids)} tokens, special ones included"
        raise UserError(
            f"the text has {count}; the encoder takes {encoder.max_positions}: shorten it"
        )
    batch = collate(tokens, np.array([0]), pad_id=tokenizer.pad_token_id)
    weights = attention_weights(
        encoder, batch.input_ids, batch.token_type_ids, batch.attention_mask, adapter=adapter
    )
    ids = tokens.ids.tolist()
    return ClsAttention(
        [tokenizer.decode([number]) for number in ids],
        [place for place, number in enumerate(ids) if number == tokenizer.sep_token_id],
        torch.stack([layer[0, :, 0] for layer in weights]).numpy(),
    )
