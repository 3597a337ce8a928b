# Tested by tests/models/encoders/test_hf.py
"""Encoders with one contract in two stages: ``bert.BertEncoder`` and ``hf.HFEncoder``.

``embed(input_ids, token_type_ids, mask) -> [B, T, e]`` and
``encode(embeddings, mask, layers, tokens, adapter) -> {layer: [B, T or 1, d]}``. Between the two
stages a regulariser can perturb the embeddings, and positions, LayerNorm and dropout are applied
only once.
"""

from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.hf import HFEncoder

Encoder = BertEncoder | HFEncoder
