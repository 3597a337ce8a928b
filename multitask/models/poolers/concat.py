"""The concatenation of several poolings (layer-wise attention pooling, Table 2)."""

from typing import Any

import torch
from torch import Tensor, nn

from multitask.config.registry import build


class ConcatPooler(nn.Module):
    """[p_1; p_2; ...] of poolings with their default options.

    Args:
        dim: width d.
        num_layers: number of layers L.
        parts: the names of the poolings.

    Raises:
        ValueError: fewer than two parts, or a part that does not pool.
    """

    def __init__(self, dim: int, num_layers: int, parts: list[str] = ["cls", "mean"]) -> None:  # noqa: B006
        super().__init__()
        if len(parts) < 2 or not {"tokens", "concat"}.isdisjoint(parts):
            raise ValueError(f"parts must be two or more poolings, not {parts}")
        context = {"dim": dim, "num_layers": num_layers}
        made = [build("pooling", name, {}, context) for name in parts]
        self.output_dim = sum(part.output_dim for part in made)
        self.layers = tuple({layer for part in made for layer in part.layers})
        self.tokens = "first" if all(part.tokens == "first" for part in made) else "all"
        self.parts: Any = nn.ModuleList(made)

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """Each part's hidden states [B, T, d], mask [B, T] -> [B, sum of the parts' widths]."""
        return torch.cat([part(hidden, mask) for part in self.parts], dim=-1)
