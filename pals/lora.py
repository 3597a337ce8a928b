"""LoRA: low-rank terms for linear maps inside each layer (Hu et al. 2022)."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pals.base import Adapter

# the default targets are a layer's queries and values, or else the map that computes them together
QUERY_AND_VALUE = "query value query_proj value_proj q_proj v_proj q_lin v_lin q v".split()
FUSED = ("Wqkv", "qkv_proj")


class LowRankMap(nn.Module):
    """B A x without biases: [M, i] -> [M, r] -> [M, o]. B is initially 0.

    The initial A is uniform as in `peft`; the paper's (section 4.1) is normal.
    """

    def __init__(self, inputs: int, outputs: int, r: int) -> None:
        super().__init__()
        self.down = nn.Linear(inputs, r, bias=False)  # A
        self.up = nn.Linear(r, outputs, bias=False)  # B
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """[M, i] -> [M, o]."""
        return self.up(self.down(rows))


class LoRA(Adapter):
    """W x + b + (alpha / r) B A drop(x) in place of linear maps W x + b (section 4.1).

    Unlike other adapters it also works in encoders of `transformers`, and ``merged`` puts it into
    the weights.

    Parameters: r (i + o) for each map from i to o numbers.

    Args:
        maps: per layer, the weights [o, i] of the encoder's linear maps by name.
        r: rank of the terms.
        alpha: the terms are multiplied by ``alpha`` / ``r``.
        targets: names of the maps, or the last parts of their names; null for the queries and
            values, or the map that computes queries, keys and values together.
        dropout: dropout of the terms' input.
        layers: the layers that have the adapter, numbered from 1; null for all.

    Raises:
        ValueError: r or alpha is not positive, dropout is outside [0, 1), a target is no map.
    """

    in_maps = True

    def __init__(
        self,
        maps: Sequence[Mapping[str, Tensor]],
        r: int = 8,
        alpha: float = 16.0,
        targets: list[str] | None = None,
        dropout: float = 0.0,
        layers: list[int] | None = None,
    ) -> None:
        super().__init__(len(maps), layers)
        if r < 1 or not 0 < alpha < math.inf:
            raise ValueError(f"r and alpha must be above 0, not {r} and {alpha}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {dropout}")
        self.r, self.alpha, self.dropout = r, alpha, nn.Dropout(dropout)
        self.targets = {n: chosen(list(maps[n - 1]), targets) for n in self.layers}
        terms = {}
        for number, names in self.targets.items():
            for name in names:
                outputs, inputs = maps[number - 1][name].shape
                terms[_key(number, name)] = LowRankMap(inputs, outputs, r)
        self.terms: Any = nn.ModuleDict(terms)

    def term(self, layer: int, name: str, rows: Tensor) -> Tensor | None:
        """[..., i] -> [..., o]; None for a map that is no target."""
        if name not in self.targets.get(layer, ()):
            return None
        return self.terms[_key(layer, name)](self.dropout(rows)) * (self.alpha / self.r)

    def pieces(self) -> dict[tuple[int, str], LowRankMap]:
        """Return the term of each map, by the layer's number and the map's name."""
        places = ((number, name) for number, names in self.targets.items() for name in names)
        return {place: self.terms[_key(*place)] for place in places}

    @torch.no_grad()
    def merged(self, encoder: Any) -> Any:
        """Return a copy of the encoder with W + (alpha / r) B A in place of each W."""
        made = copy.deepcopy(encoder)
        maps = made.linear_maps()
        for (number, name), term in self.pieces().items():
            product = term.up.weight @ term.down.weight
            maps[number - 1][name] += product * (self.alpha / self.r)
        return made


def chosen(names: list[str], targets: list[str] | None) -> list[str]:
    """Return the names of a layer's linear maps that ``LoRA``'s ``targets`` mean.

    Raises ValueError for a target that is no map.
    """
    if targets is None:
        last = {name: name.rpartition(".")[2] for name in names}
        usual = [name for name in names if last[name] in QUERY_AND_VALUE]
        return usual or [name for name in names if last[name] in FUSED]
    found: list[str] = []
    for target in targets:
        fitting = [name for name in names if f".{name}".endswith(f".{target}")]
        if not fitting:
            raise ValueError(f"no linear map of a layer is {target!r}: name {', '.join(names)}")
        found += fitting
    if not found:
        raise ValueError(f"targets is empty: name {', '.join(names)}")
    return [name for name in names if name in found]


def _key(layer: int, name: str) -> str:
    return f"{layer}:{name}".replace(".", "-")
