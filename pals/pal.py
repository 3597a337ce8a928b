"""Projected Attention Layers (Stickland & Murray 2019, section 3.2)."""

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import gelu

from pals.base import Adapter, Attend, check_size, normal, zero


class ProjectedAttention(Adapter):
    """gelu(V_D MH(V_E h)) parallel to each layer: low-rank attention over the layer's input h.

    V_E (d -> s) and V_D (s -> d) are shared by all layers. Each layer has separate queries, keys
    and values (s -> s), without an output matrix. The GELU after V_D is in the authors' code but
    not in the paper's formula. V_D is initially 0, so the encoder is unchanged at the start; V_E
    has a gradient as soon as V_D has changed.

    Parameters: 2 d s + s + d + 3 L (s^2 + s).

    Args:
        dim: width d of the encoder.
        num_layers: layers of the encoder.
        size: width s; 204 in the paper.
        heads: attention heads; must divide ``size``. 12 in the paper, 6 in the authors' code.
        activation: the activation after V_D; `none` is the paper's formula.
        dropout: dropout of the attention weights.
        layers: the layers that have the adapter, numbered from 1; null for all.

    Raises:
        ValueError: heads do not divide the size, dropout is outside [0, 1), or no such layer.
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
        self.heads, self.activation = heads, activation
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(dim, size)  # V_E
        self.up = nn.Linear(size, dim)  # V_D
        self.qkv = nn.ModuleDict({str(n): nn.Linear(size, 3 * size) for n in self.layers})
        for module in self.modules():
            if isinstance(module, nn.Linear):
                normal(module)
        zero(self.up)

    def beside(self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend) -> Tensor:
        """[N, d] -> [M, d]."""
        projected, query = self.qkv[str(layer)](self.down(hidden)), None
        if first is not None:
            size = projected.shape[1] // 3
            query, projected = projected[:, :size].index_select(0, first), projected[:, size:]
        rate = self.dropout.p if self.dropout.training else 0.0
        term = self.up(attend(projected, heads=self.heads, dropout_rate=rate, query=query))
        return gelu(term) if self.activation == "gelu" else term
