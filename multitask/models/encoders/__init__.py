# Tested by tests/models/encoders/test_hf.py
"""Encoders with one contract in two stages: ``bert.BertEncoder`` and ``hf.HFEncoder``.

``embed(input_ids, token_type_ids, mask) -> [B, T, e]`` and
``encode(embeddings, mask, layers, tokens, adapter) -> {layer: [B, T or 1, d]}``. The seam between
them lets a regulariser perturb the embeddings without positions, LayerNorm or dropout being applied
twice.
"""

from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.hf import HFEncoder

Encoder = BertEncoder | HFEncoder
