# Tested by tests/inference/export/test_onnx.py
"""A task as one module on padded tensors, which the ONNX exporter can trace."""

from typing import Any

import torch
from torch import Tensor, nn

from multitask.inference.export.export_parts import Parts
from multitask.models.encoders import BertEncoder
from multitask.models.encoders.bert import roberta_positions

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class PlainTask(nn.Module):
    """Maps token ids, mask and token types to the task's scores, without packing.

    Without token types in the tokenizer there are two tensors per side, and all types are 0. A task
    whose texts are read apart takes the tensors of the first texts, then those of the second ones,
    and so on. A task with n endings per row takes tensors [B, n, T].
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.encoder = parts.encoder
        self.adapter = parts.adapter
        self.pooler = parts.pooler
        self.projection = parts.projection or nn.Identity()
        self.head = parts.head
        self.embeds, self.chooses, self.sides = parts.embeds, parts.chooses, parts.sides

    def forward(self, *inputs: Tensor) -> Tensor:
        """int64 [B, T] or [B, n, T] -> logits [B], [B, C], [B, n], numbers [B], vectors [B, d]."""
        if self.chooses:  # the head gives each ending its logit
            vectors = self.projection(self._pooled(*(values.flatten(0, 1) for values in inputs)))
            return self.head(vectors).reshape(inputs[0].shape[:2])
        count = len(inputs) // self.sides
        texts = [inputs[i : i + count] for i in range(0, len(inputs), count)]
        vectors = [self.projection(self._pooled(*text)) for text in texts]
        return vectors[0] if self.embeds else self.head(*vectors)

    def _pooled(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        types = torch.zeros_like(ids) if types is None else types
        if isinstance(self.encoder, BertEncoder):
            states = self._bert_states(ids, mask, types)
        else:
            taken = {"token_type_ids": types} if self.encoder.takes_token_types else {}
            output = self.encoder.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, **taken
            )
            states = dict(enumerate(output.hidden_states))
        return self.pooler({number: states[number] for number in self.pooler.layers}, mask)

    def _bert_states(self, ids: Tensor, mask: Tensor, types: Tensor) -> dict[int, Tensor]:
        """Compute the hidden states [B, T, d] up to the pooler's highest layer, pads included."""
        encoder: Any = self.encoder
        padded = Padded(mask)
        if encoder.embeddings.token_type.num_embeddings == 1:
            types = torch.zeros_like(types)
        positions = padded.positions
        if first := encoder.embeddings.first_position:
            positions = roberta_positions(ids, mask, first).flatten()
        hidden = encoder.embeddings(ids.flatten(), positions, types.flatten())
        states = {0: padded.pad(hidden)}
        for number in range(1, max(self.pooler.layers) + 1):
            adapter = self.adapter
            of_layer = adapter if adapter is not None and number in adapter.layers else None
            hidden = encoder.layers[number - 1](hidden, padded, False, of_layer, number)
            states[number] = padded.pad(hidden)
        return states


class Padded:
    """Stands in for a ``Packing`` and keeps the pads: rows [B * T, d].

    Pads are masked as attention keys, so their rows influence no token.
    """

    def __init__(self, mask: Tensor) -> None:
        self.shape = mask.shape
        self.mask = (mask != 0)[:, None, None, :]
        # a pad has the position of the token before it
        self.positions = ((mask != 0).long().cumsum(1) - 1).clamp(min=0).flatten()
        self.rows = slice(None)
        self.groups = [self]

    def pad(self, rows: Tensor) -> Tensor:
        """[B * T, d] -> [B, T, d]."""
        return rows.view(*self.shape, -1)

    def unpad(self, padded: Tensor) -> Tensor:
        """[B, T, d] -> [B * T, d]."""
        return padded.flatten(0, 1)
