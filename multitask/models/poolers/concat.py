"""The concatenation of several poolings (layer-wise attention pooling, Table 2)."""

from typing import Any

import torch
from torch import Tensor, nn

from multitask.config.base import Method
from multitask.config.registry import build
from multitask.utils.errors import UserError


class ConcatPooler(nn.Module):
    """[p_1; p_2; ...] of poolings, each with its own options.

    Args:
        dim: width d.
        num_layers: number of layers L.
        parts: the poolings: a name, or `{name: ..., options}`, such as `{name: max_cls, last: 2}`.

    Raises:
        ValueError: fewer than two parts, or a part that does not pool or has no name.
        UserError: a part that is unknown, or an option that it does not take.
    """

    def __init__(self, dim: int, num_layers: int, parts: list[Method] = ["cls", "mean"]) -> None:  # noqa: B006
        super().__init__()
        entries = [{"name": part} if isinstance(part, str) else part for part in parts]
        names = [entry.get("name") for entry in entries]
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"each of parts must be a name or {{name: ..., options}}, not {parts}")
        if len(parts) < 2 or not {"tokens", "concat"}.isdisjoint(names):
            raise ValueError(f"parts must be two or more poolings, not {parts}")
        made = [_part(entry, {"dim": dim, "num_layers": num_layers}) for entry in entries]
        self.output_dim = sum(part.output_dim for part in made)
        self.layers = tuple({layer for part in made for layer in part.layers})
        self.tokens = "first" if all(part.tokens == "first" for part in made) else "all"
        self.parts: Any = nn.ModuleList(made)

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """Each part's hidden states [B, T, d], mask [B, T] -> [B, sum of the parts' widths]."""
        return torch.cat([part(hidden, mask) for part in self.parts], dim=-1)


def _part(entry: dict[str, Any], context: dict[str, int]) -> Any:
    """Build a part; a UserError names the option `parts` as its place."""
    options = {key: value for key, value in entry.items() if key != "name"}
    try:
        return build("pooling", entry["name"], options, context)
    except UserError as error:
        raise UserError(str(error), ("parts",)) from error
