# Tested by tests/models/poolers/test_hire.py
"""Scores of hidden states: HIRE's dynamic scores (section 3.2) and fixed ones (section 5.2).

A scorer maps n states [B, T, d] and the mask [B, T] to scores alpha [B, n], before the softmax.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.utils.checkpoint import checkpoint

from multitask.models.poolers.gru import final_states, pack


class DynamicScores(nn.Module):
    """alpha_i = ReLU(w . U_i + b), with one BiGRU for all states (eq. 2 and 3).

    U_i are the final states of both layers in both directions, 4 d numbers. The states are
    sequences of one packed batch, so pads are never read and one call computes all of them.

    Args:
        dim: width d of the states.
        dropout: dropout rate between the two layers.
        states_at_once: states in one call; None for all. In chunks, the backward pass computes the
            activations again instead of storing them.
    """

    def __init__(self, dim: int, dropout: float, states_at_once: int | None) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, dim, 2, batch_first=True, bidirectional=True, dropout=dropout)
        self.score = nn.Linear(4 * dim, 1)
        self.states_at_once = states_at_once

    def forward(self, states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """n states [B, T, d], mask [B, T] -> alpha [B, n], none below 0."""
        training, lengths = self.gru.training, mask.sum(1).cpu()
        size, run = self.states_at_once or len(states), self._summaries
        if self.states_at_once is not None and torch.is_grad_enabled():
            run = partial(checkpoint, run, use_reentrant=False)
        starts = range(0, len(states), size)
        chunks = [run(training, lengths, *states[at : at + size]) for at in starts]
        summaries = torch.cat(chunks, dim=1)
        return relu(self.score(summaries)).squeeze(-1)

    def _summaries(self, training: bool, lengths: Tensor, *states: Tensor) -> Tensor:
        """n states [B, T, d] -> U [B, n, 4 d].

        ``training`` switches dropout on. It is an argument because the backward pass of a chunk
        computes U again when the module may have another mode.
        """
        packed = pack(torch.cat(states), lengths.repeat(len(states)))
        now = self.gru.training
        self.gru.train(training)
        try:
            final = final_states(self.gru, packed)  # [4, n B, d]
        finally:
            self.gru.train(now)
        return final.transpose(0, 1).reshape(len(states), len(lengths), -1).transpose(0, 1)


class FixedScores(nn.Module):
    """The same scores for every example: all 0, or drawn once from a normal distribution."""

    alpha: Tensor

    def __init__(self, count: int, random: bool) -> None:
        super().__init__()
        self.register_buffer("alpha", torch.randn(count) if random else torch.zeros(count))

    def forward(self, states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """n states, mask [B, T] -> alpha [B, n]."""
        return self.alpha.expand(len(mask), -1)


class Softmax(nn.Module):
    """Scores [B, n] -> weights [B, n], in fp32 or wider; a module, so that hooks can watch it."""

    def forward(self, alpha: Tensor) -> Tensor:
        """alpha [B, n] -> S [B, n]; each row sums to 1."""
        return alpha.softmax(-1, dtype=torch.promote_types(alpha.dtype, torch.float32))
