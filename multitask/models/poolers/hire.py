"""HIRE: a mixture of all hidden states, fused with the last one (sections 3.2 and 3.3).

A scorer maps n states [B, T, d] and the mask [B, T] to scores alpha [B, n], before the softmax.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.utils.checkpoint import checkpoint

from multitask.models.poolers.base import check_dropout
from multitask.models.poolers.gru import final_states, first_outputs, pack


class HirePooler(nn.Module):
    """The first token of A = sum_i S_i H_i over hidden states, fused with the last one R = H_L.

    S is the softmax over the states' scores alpha_i, which are computed per example:
    alpha_i = ReLU(w . U_i + b), where U_i are the final states of a two-layer BiGRU over H_i
    (``DynamicScores``). ``FusionNetwork`` is the fusion. The paper's head is
    `projection: {name: tanh, output_dim: d}` and a linear layer.

    Args:
        dim: width d of the encoder.
        num_layers: layers L of the encoder.
        scores: where alpha comes from. `dynamic` is the paper's; `mean` (all equal) and `random`
            (drawn once from a normal distribution and saved) are the same for every example;
            `none` uses R as A (Table 4, without HIRE).
        layers: numbers of the hidden states that are mixed, from 0, the embeddings, to L; null for
            all of them.
        fusion_layers: layers of the fusion network's BiGRU; 0 returns its input M, null skips the
            fusion and returns A.
        dropout: dropout rate between the layers of the BiGRUs.
        states_at_once: number of hidden states whose BiGRU runs in one call; null for all. Fewer
            need less memory and more time; training computes them again in the backward pass.

    Raises:
        ValueError: no such hidden state, options that exclude each other, or one out of range.
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        scores: Literal["dynamic", "mean", "random", "none"] = "dynamic",
        layers: list[int] | None = None,
        fusion_layers: int | None = 2,
        dropout: float = 0.1,
        states_at_once: int | None = None,
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        if fusion_layers is not None and fusion_layers < 0:
            raise ValueError(f"fusion_layers must be 0 or more, or null, not {fusion_layers}")
        if scores == "none":
            if layers is not None:
                raise ValueError("`scores: none` mixes nothing: leave `layers` out")
            if fusion_layers is None:
                raise ValueError("`scores: none` without a fusion network is `pooling: cls`")
        if states_at_once is not None:
            if scores != "dynamic":
                raise ValueError("states_at_once is for `scores: dynamic`: leave it out")
            if states_at_once < 1:
                raise ValueError(f"states_at_once must be at least 1, not {states_at_once}")
        self.last = num_layers
        self.scored = () if scores == "none" else _states(layers, num_layers)
        self.layers = self.scored
        if fusion_layers is not None:
            self.layers = tuple(sorted({*self.scored, num_layers}))
        self.scorer: nn.Module | None = None
        if scores == "dynamic":
            self.scorer = DynamicScores(dim, dropout, states_at_once)
        elif scores != "none":
            self.scorer = FixedScores(len(self.scored), random=scores == "random")
        self.weigher = None if scores == "none" else Softmax()
        self.rectified = scores == "dynamic"
        self.fusion = None if fusion_layers is None else FusionNetwork(dim, fusion_layers, dropout)
        self.output_dim = dim if self.fusion is None else self.fusion.output_dim
        self.mixes_all = bool(fusion_layers)
        self.tokens = "all" if self.mixes_all or scores == "dynamic" else "first"

    def importance(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """Return the weights S of the states ``scored``, [B, n]; each row sums to 1.

        Raises TypeError for `scores: none`, which has no weights.
        """
        if self.scorer is None or self.weigher is None:
            raise TypeError("`scores: none` has no importance scores")
        return self.weigher(self.scorer([hidden[layer] for layer in self.scored], mask))

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """The states of ``layers`` [B, T, d], mask [B, T] -> [B, output_dim]."""
        states = hidden if self.mixes_all else {n: state[:, :1] for n, state in hidden.items()}
        if self.scorer is None:
            mixed = states[self.last]
        else:
            weights = self.importance(hidden, mask)[:, :, None, None]
            mixed = weights[:, 0] * states[self.scored[0]]
            for place, layer in enumerate(self.scored[1:], 1):
                mixed = mixed + weights[:, place] * states[layer]
        return mixed[:, 0] if self.fusion is None else self.fusion(states[self.last], mixed, mask)


def _states(layers: list[int] | None, num_layers: int) -> tuple[int, ...]:
    numbers = range(num_layers + 1)
    chosen = tuple(numbers) if layers is None else tuple(sorted(layers))
    if not chosen or len({*chosen} & {*numbers}) < len(chosen):
        raise ValueError(
            f"layers must be different numbers from 0, the embeddings, to {num_layers}, "
            f"not {layers}"
        )
    return chosen


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


class FusionNetwork(nn.Module):
    """The first token of F = BiGRU(M), with M = [R; A; R + A; R * A].

    Args:
        dim: width d of R and A.
        layers: number of layers of the BiGRU; 0 returns the first token of M.
        dropout: dropout rate between these layers.
    """

    def __init__(self, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.output_dim = 2 * dim if layers else 4 * dim
        self.gru = None
        if layers:
            rate = dropout if layers > 1 else 0.0
            self.gru = nn.GRU(
                4 * dim, dim, layers, batch_first=True, bidirectional=True, dropout=rate
            )

    def forward(self, last: Tensor, mixed: Tensor, mask: Tensor) -> Tensor:
        """R, A [B, T, d], mask [B, T] -> [B, 2 d]; without layers [B, 4 d] from T >= 1."""
        if self.gru is None:
            return features(last[:, 0], mixed[:, 0])
        packed = pack(torch.cat([last, mixed], dim=-1), mask.sum(1).cpu())
        joint = packed._replace(data=features(*packed.data.chunk(2, dim=-1)))
        return first_outputs(self.gru, joint)


def features(last: Tensor, mixed: Tensor) -> Tensor:
    """M = [R; A; R + A; R * A]: [..., d] twice -> [..., 4 d]."""
    return torch.cat([last, mixed, last + mixed, last * mixed], dim=-1)
