"""Projected Attention Layers (Stickland & Murray 2019, section 3.2)."""

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import gelu

from pals.base import Adapter, Attend, check_size, normal, zero


class ProjectedAttention(Adapter):
    """gelu(V_D MH(V_E h)) beside each layer: low-rank attention over the layer's input h.

    V_E (d -> s) and V_D (s -> d) serve all layers; queries, keys and values (s -> s) are each
    layer's own, and no matrix follows them. The GELU after V_D is that of the authors' code; the
    paper's formula has none. V_D starts at 0, so that the encoder starts as it was; V_E gets a
    gradient as soon as V_D has moved.

    Parameters: 2 d s + s + d + 3 L (s^2 + s).

    Args:
        dim: width d of the encoder.
        num_layers: layers of the encoder.
        size: width s; 204 in the paper.
        heads: attention heads; divides ``size``. 12 in the paper, 6 in the authors' code.
        activation: what follows V_D; `none` is the paper's formula.
        dropout: of the attention weights.
        layers: numbers of the layers it stands beside, from 1; null for all.

    Raises:
        ValueError: heads that do not divide the size, a dropout outside [0, 1), or no such layer.
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        size: int = 204,
        heads: int = 12,
        activation: Literal["gelu", "none"] = "gelu",
        dropout: float = 0.1,
        layers: list[int] | None = None,
    ) -> None:
        super().__init__(num_layers, layers)
        check_size(size)
        if heads < 1 or size % heads:
            raise ValueError(f"heads must divide the size: {heads} heads, size {size}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {dropout}")
        self.heads, self.activation, self.dropout = heads, activation, dropout
        self.down = nn.Linear(dim, size)  # V_E
        self.up = nn.Linear(size, dim)  # V_D
        self.qkv = nn.ModuleDict({str(n): nn.Linear(size, 3 * size) for n in self.layers})
        for module in self.modules():
            if isinstance(module, nn.Linear):
                normal(module)
        zero(self.up)

    def beside(self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend) -> Tensor:
        """[N, d] -> [M, d]."""
        query, key, value = self.qkv[str(layer)](self.down(hidden)).chunk(3, dim=-1)
        if first is not None:
            query = query[first]
        rate = self.dropout if self.training else 0.0
        term = self.up(attend(query, key, value, heads=self.heads, dropout_rate=rate))
        return gelu(term) if self.activation == "gelu" else term
