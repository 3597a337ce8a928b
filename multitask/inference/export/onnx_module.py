# Tested by tests/inference/export/test_onnx.py
"""A task as one module on plain padded tensors, which an exporter can follow."""

from typing import Any

import torch
from torch import Tensor, nn

from multitask.inference.export.parts import Parts
from multitask.models.encoders import BertEncoder

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class PlainTask(nn.Module):
    """Token ids, mask and token types -> the task's scores; padded where the encoder packs.

    A siamese task takes the three tensors of the first texts, then those of the second.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.encoder = parts.encoder
        self.adapter = parts.adapter
        self.pooler = parts.pooler
        self.projection = parts.projection or nn.Identity()
        self.head = parts.head
        self.embeds = parts.embeds

    def forward(self, *inputs: Tensor) -> Tensor:
        """int64 [B, T] each -> logits [B, C] or [B], numbers [B], or vectors [B, d]."""
        texts = [inputs[i : i + 3] for i in range(0, len(inputs), 3)]
        vectors = [self.projection(self._pooled(*text)) for text in texts]
        return vectors[0] if self.embeds else self.head(*vectors)

    def _pooled(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        if isinstance(self.encoder, BertEncoder):
            states = self._own_states(ids, mask, types)
        else:
            taken = {"token_type_ids": types} if self.encoder.takes_token_types else {}
            output = self.encoder.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, **taken
            )
            states = dict(enumerate(output.hidden_states))
        return self.pooler({number: states[number] for number in self.pooler.layers}, mask)

    def _own_states(self, ids: Tensor, mask: Tensor, types: Tensor) -> dict[int, Tensor]:
        """Every hidden state [B, T, d] that the pooler may want, pads included."""
        encoder: Any = self.encoder
        padded = Padded(mask)
        if encoder.embeddings.token_type.num_embeddings == 1:
            types = torch.zeros_like(types)
        hidden = encoder.embeddings(ids.flatten(), padded.positions, types.flatten())
        states = {0: padded.pad(hidden)}
        for number in range(1, max(self.pooler.layers) + 1):
            adapter = self.adapter
            own = adapter if adapter is not None and number in adapter.layers else None
            hidden = encoder.layers[number - 1](hidden, padded, False, own, number)
            states[number] = padded.pad(hidden)
        return states


class Padded:
    """What the encoder's layers ask of a ``Packing``, with every pad kept as a row [B * T, d].

    Pads are masked as keys, so that what stands in their rows reaches no token.
    """

    def __init__(self, mask: Tensor) -> None:
        self.shape = mask.shape
        self.mask = (mask != 0)[:, None, None, :]
        # pads get the place of the token before them
        self.positions = ((mask != 0).long().cumsum(1) - 1).clamp(min=0).flatten()
        self.rows = slice(None)
        self.groups = [self]

    def pad(self, rows: Tensor) -> Tensor:
        """[B * T, d] -> [B, T, d]."""
        return rows.view(*self.shape, -1)

    def unpad(self, padded: Tensor) -> Tensor:
        """[B, T, d] -> [B * T, d]."""
        return padded.flatten(0, 1)
