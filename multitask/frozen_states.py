"""The frozen encoder's hidden states of whole splits, for probes whose pooler has parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.baselines import BATCH_SIZE
from multitask.data.collate import collate
from multitask.data.tokenize import Tokens
from multitask.evaluate import Split
from multitask.model import MultiTaskModel

# Splits whose states need no more than this are encoded once and kept; others, batch by batch.
KEPT_BYTES = 2 * 2**30


class TokenStates:
    """A ``baselines.Pooled``: runs a pooler on hidden states of the encoder as it is.

    Args:
        model: its encoder, and whether it runs in bf16; the encoder is put in evaluation mode.
        splits: the task's rows.
        pad_id: id of the pad token.
        device: the model's.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        splits: Mapping[str, Split],
        *,
        pad_id: int,
        device: torch.device,
    ) -> None:
        self._encoder = model.encoder.eval()
        self._autocast = torch.autocast(device.type, torch.bfloat16, enabled=model.autocast)
        self._splits, self._pad_id, self._device = splits, pad_id, device
        self._kept: dict[str, dict[int, Tensor]] = {}  # by split: states of all tokens, by layer

    def __call__(self, pooler: Any, split: str, rows: Tensor | None) -> Tensor:
        """Pooled vectors [B, sides, d] of int64 rows [B], or of the whole split in file order."""
        tokens = self._splits[split].tokens
        if rows is not None:
            return self._pooled(pooler, split, rows.numpy())
        order = np.argsort(tokens.lengths, kind="stable")
        parts = [
            self._pooled(pooler, split, order[start : start + BATCH_SIZE])
            for start in range(0, len(order), BATCH_SIZE)
        ]
        return torch.cat(parts)[torch.from_numpy(np.argsort(order)).to(self._device)]

    def _pooled(self, pooler: Any, split: str, rows: np.ndarray) -> Tensor:
        tokens = self._splits[split].tokens
        if split not in self._kept and self._fits(pooler, tokens):
            self._kept[split] = self._whole(pooler, tokens)
        kept = self._kept.get(split)
        if kept is None:
            hidden, mask = self._encoded(pooler, tokens, rows)
        else:
            hidden, mask = self._taken(kept, tokens, rows)
        with self._autocast:
            vectors = pooler(hidden, mask)
        return torch.stack(vectors.float().chunk(tokens.sides), dim=1)

    def _fits(self, pooler: Any, tokens: Tokens) -> bool:
        return len(tokens.ids) * len(pooler.layers) * self._encoder.dim * 4 <= KEPT_BYTES

    @torch.no_grad()
    def _encoded(
        self, pooler: Any, tokens: Tokens, rows: np.ndarray
    ) -> tuple[dict[int, Tensor], Tensor]:
        """The states that the pooler asks for [S, T, d], and their mask [S, T]."""
        batch = collate(tokens, rows, pad_id=self._pad_id).to(self._device)
        mask = batch.attention_mask
        with self._autocast:
            embedded = self._encoder.embed(batch.input_ids, batch.token_type_ids, mask)
            return self._encoder.encode(embedded, mask, pooler.layers), mask

    def _whole(self, pooler: Any, tokens: Tokens) -> dict[int, Tensor]:
        """The states of all tokens of a split [tokens, d] by layer, in the order of their ids."""
        order = np.argsort(tokens.lengths, kind="stable")
        found: dict[int, Tensor] = {}
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            hidden, mask = self._encoded(pooler, tokens, rows)
            places, inside = self._places(tokens, rows)
            for layer, state in hidden.items():
                if layer not in found:
                    found[layer] = state.new_empty(len(tokens.ids), state.shape[-1])
                found[layer][places[inside]] = state[mask != 0]
        return found

    def _taken(
        self, kept: Mapping[int, Tensor], tokens: Tokens, rows: np.ndarray
    ) -> tuple[dict[int, Tensor], Tensor]:
        places, inside = self._places(tokens, rows)
        return {layer: state[places] for layer, state in kept.items()}, inside.long()

    def _places(self, tokens: Tokens, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Where the tokens of rows stand among all, int64 [S, T], and bool [S, T], no pads."""
        places, inside = tokens.places(rows)
        return torch.from_numpy(places).to(self._device), torch.from_numpy(inside).to(self._device)
