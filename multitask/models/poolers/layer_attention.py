"""Layer-wise attention pooling (equations 1 to 4; the authors' LayerAttPooler)."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from multitask.models.poolers.base import token_mean

SLOPE = 11 / 48  # of RReLU in evaluation: (1/8 + 1/3) / 2


class MeanAttention(nn.Module):
    """mean_i alpha_ij of products [B, N, N]: how much each of N layers counts."""

    def __init__(self, norm: Literal["softmax", "sum"]) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, products: Tensor) -> Tensor:
        """Q_i K_j [B, N, N] -> [B, N], fp32 or wider; each row sums to 1."""
        wide = torch.promote_types(products.dtype, torch.float32)
        if self.norm == "softmax":
            return products.softmax(-1, dtype=wide).mean(1)
        products = products.to(wide)
        return (products / products.sum(-1, keepdim=True)).mean(1)


class RReLU(nn.RReLU):
    """Torch's RReLU; in evaluation it calls the equal leaky ReLU, as ONNX has no RReLU."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return leaky_relu(input, SLOPE)
        if input.dtype == torch.float16 and input.device.type == "cpu":  # torch has none there
            return super().forward(input.float()).to(input.dtype)
        return super().forward(input)


class LayerAttentionPooler(nn.Module):
    """[CLS_L; mean_i sum_j alpha_ij V_j], alpha_ij = softmax_j(Q_i K_j / N) over N layers.

    Q = act(W_q x_i), K = act(W_k y_j), V = act(W_v y_j), where x and y are a layer's [CLS] vector
    or the mean of its tokens. Where paper and code differ, the defaults follow the code; equation
    5, the MLP, is `projection: mlp`.

    Args:
        dim: width d.
        num_layers: layers L.
        variant: x and y are [CLS] and [CLS] (`cls_all`), mean and mean (`avg_all`), or [CLS] and
            mean (`cls_all+avg_all`).
        concat_cls_last: prepend the last layer's [CLS] vector (2 d numbers instead of d).
        norm: how weights are normalised: `softmax`, or `sum`, the paper's plain ratio, which may
            divide by nearly 0.
        scale: the divisor of Q K before the softmax: N, sqrt(d) or 1.
        act: the activation: `rrelu`, a leaky ReLU whose slope is drawn from [1/8, 1/3] in training
            and is 11/48 in evaluation; `leaky_relu`, 11/48 in both; `none`, as in the paper.
        include_embeddings: the embeddings are the first of the N = L + 1 layers; else N = L.
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        variant: Literal["cls_all", "avg_all", "cls_all+avg_all"] = "cls_all+avg_all",
        concat_cls_last: bool = True,
        norm: Literal["softmax", "sum"] = "softmax",
        scale: Literal["n_layers", "sqrt_d", 1] = "n_layers",
        act: Literal["rrelu", "leaky_relu", "none"] = "rrelu",
        include_embeddings: bool = True,
    ) -> None:
        super().__init__()
        self.layers = tuple(range(0 if include_embeddings else 1, num_layers + 1))
        self.scored, self.weigher, self.rectified = self.layers, MeanAttention(norm), False
        self.tokens = "first" if variant == "cls_all" else "all"
        self.output_dim = 2 * dim if concat_cls_last else dim
        self.variant, self.concat_cls_last = variant, concat_cls_last
        self.scale = {"n_layers": len(self.layers), "sqrt_d": dim**0.5, 1: 1}[scale]
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        for linear in (self.query, self.key, self.value):
            nn.init.normal_(linear.weight, std=0.02)
        activations = {"rrelu": RReLU(), "leaky_relu": nn.LeakyReLU(SLOPE), "none": nn.Identity()}
        self.act = activations[act]

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """Every layer's [B, T, d] ([B, 1, d] for `cls_all`), mask [B, T] -> [B, output_dim]."""
        first, source = self._views(hidden, mask)
        weights = self.weigher(self._products(first, source))
        mixed = (weights.unsqueeze(1) @ self.act(self.value(source))).squeeze(1)
        if not self.concat_cls_last:
            return mixed
        return torch.cat([hidden[self.layers[-1]][:, 0], mixed], dim=-1)

    def importance(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """Return mean_i alpha_ij, how much each layer counts: [B, N]; rows sum to 1."""
        return self.weigher(self._products(*self._views(hidden, mask)))

    def _views(self, hidden: dict[int, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return x, for the queries, and y, for the keys and values: [B, N, d] each."""
        states = [hidden[layer] for layer in self.layers]
        cls = torch.stack([state[:, 0] for state in states], dim=1)
        if self.variant == "cls_all":
            return cls, cls
        means = torch.stack([token_mean(state, mask) for state in states], dim=1)
        return (means if self.variant == "avg_all" else cls), means

    def _products(self, first: Tensor, source: Tensor) -> Tensor:
        """Q_i K_j / scale, [B, N, N]."""
        query, key = self.act(self.query(first)), self.act(self.key(source))
        return query @ key.transpose(1, 2) / self.scale
