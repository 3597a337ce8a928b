# Tested by tests/models/encoders/test_hf.py
"""Encoders with one contract in two stages: ``bert.BertEncoder`` and ``hf.HFEncoder``.

``embed(input_ids, token_type_ids, mask, packing) -> [B, T, e]`` and
``encode(embeddings, mask, layers, tokens, adapter, packing) -> {layer: [B, T or 1, d]}``. Between
the two stages a regulariser can perturb the embeddings, and positions, LayerNorm and dropout are
applied only once. ``packing(mask)`` makes what both stages need to know of the mask, once per pass.
"""

from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.hf import HFEncoder

Encoder = BertEncoder | HFEncoder
