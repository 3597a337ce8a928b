"""BitNet b1.58 for the linear layers of our own encoder (Ma et al. 2024, arXiv 2402.17764).

    W~ = s clip(round(W / s), -1, 1)             s = mean |W|, of each matrix
    x~ = a clip(round(x / a), -128, 127)         a = max |x| / 127, of each token
    y  = W~ x~ + b

W is in fp32, and the optimizer updates it: the gradient goes straight through both roundings. For a
gradual start, training uses W + lambda (W~ - W) and x + lambda (x~ - x) instead. Unlike BitNet,
layers have no normalisation in front, because pretrained weights expect their inputs unchanged.
"""

from typing import Any

import torch
from torch import Tensor, nn

from multitask.models.encoders.bert import BertEncoder
from multitask.models.linear import linear

SMALLEST = 1e-5  # the least mean or maximum of a scale, as in the published code
LEVELS = 127


class BitLinear(nn.Linear):
    """A linear layer with ternary weights and 8-bit inputs, under a plain layer's tensor names.

    Args:
        plain: the layer whose parameters this one takes over (the same tensors, not copies).

    Attributes:
        parts: the number of stacked matrices, each with a scale: 3 in query-key-value.
        strength: lambda in training, 0 to 1. In evaluation lambda is always 1, so that scores are
            those of the ternary weights.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        self.parts: int = getattr(plain, "parts", 1)
        self.strength = 1.0
        self.train(plain.training)

    def forward(self, hidden: Tensor, rows: slice | None = None) -> Tensor:
        """[N, in] -> [N, out], or the outputs ``rows`` of them."""
        strength = self.strength if self.training else 1.0
        ternary, scales = ternarise(self.weight.detach(), self.parts)
        weight = straight_through(self.weight, rescaled(ternary, scales), strength)
        inputs = straight_through(hidden, eight_bit(hidden.detach()), strength)
        return linear(inputs, weight, self.bias, rows)


def ternarise(weight: Tensor, parts: int) -> tuple[Tensor, Tensor]:
    """Quantise [parts o, i] to -1, 0 and 1 of the same shape and type; return the scales [parts].

    absmean: each part is divided by its mean absolute value, rounded (half to even) and clipped.
    """
    split = weight.unflatten(0, (parts, -1))
    scales = split.abs().mean((1, 2)).clamp(min=SMALLEST)
    return (split / scales[:, None, None]).round_().clamp_(-1, 1).flatten(0, 1), scales


def rescaled(ternary: Tensor, scales: Tensor) -> Tensor:
    """Multiply the result of ``ternarise`` by its scales: [parts o, i]."""
    return (ternary.unflatten(0, (len(scales), -1)) * scales[:, None, None]).flatten(0, 1)


def eight_bit(hidden: Tensor) -> Tensor:
    """Round [..., d] to 255 even steps up to the largest absolute value of each token.

    The result is in fp32 or wider.
    """
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    step = wide.abs().amax(-1, keepdim=True).clamp(min=SMALLEST) / LEVELS
    return (wide / step).round_().clamp_(-LEVELS - 1, LEVELS).mul_(step)


def straight_through(value: Tensor, quantised: Tensor, strength: float) -> Tensor:
    """Return value + strength (quantised - value); its gradient is 1 (Bengio et al. 2013).

    The result is exact for strengths 0 and 1; its type is the wider of the two.
    """
    if strength == 0:
        return value
    if strength < 1:
        quantised = torch.lerp(value.detach().to(quantised.dtype), quantised, strength)
    if torch.is_grad_enabled() and value.requires_grad:
        return _StraightThrough.apply(quantised, value)
    return quantised


class _StraightThrough(torch.autograd.Function):
    """Return ``values``; the gradient goes to ``replaced``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, replaced: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


def quantise(encoder: BertEncoder, layers: str = "all") -> None:
    """Put a BitLinear in place of each linear layer in the encoder's layers.

    Args:
        encoder: changed in place; its parameters, their names and values stay. Embeddings,
            adapters and heads are not quantised.
        layers: "all", or "inner" for all but the first and the last.

    Raises ValueError if there is no inner layer.
    """
    chosen = list(encoder.layers) if layers == "all" else list(encoder.layers)[1:-1]
    if not chosen:
        raise ValueError(f"none of the {encoder.num_layers} layers is an inner one: take `all`")
    for layer in chosen:
        for name, module in list(layer.named_modules()):
            if isinstance(module, nn.Linear):
                layer.set_submodule(name, BitLinear(module))


def bit_layers(encoder: nn.Module) -> dict[str, BitLinear]:
    """Return the quantised layers by name."""
    return {name: m for name, m in encoder.named_modules() if isinstance(m, BitLinear)}


def set_strength(encoder: nn.Module, gradual: float, progress: float) -> None:
    """Set lambda = progress / gradual, at most 1, in each quantised layer.

    Args:
        encoder: the encoder, with or without quantised layers.
        gradual: share of the training in which lambda grows from 0 to 1; 0: lambda is always 1.
        progress: share of the training that is done.
    """
    strength = min(1.0, progress / gradual) if gradual else 1.0
    for layer in bit_layers(encoder).values():
        layer.strength = strength
