"""Find the worst small perturbation of the input of f by projected gradient ascent (Algorithm 1).

max over |delta| <= eps of mean_i l_s(f(x_i + delta_i), f(x_i))
"""

import math
from collections.abc import Callable
from typing import Literal, Protocol

import torch
from torch import Tensor


class Ascent(Protocol):
    """The settings of the ascent."""

    @property
    def eps(self) -> float:
        """Radius of the ball that holds each perturbation."""

    @property
    def noise(self) -> float:
        """Standard deviation of the random start."""

    @property
    def step_size(self) -> float:
        """Size eta of a step along the normalised gradient."""

    @property
    def steps(self) -> int:
        """Number of ascent steps, each a forward pass and its input gradient."""

    @property
    def norm(self) -> Literal["inf", "l2"]:
        """Norm of the ball and of the gradient."""

    @property
    def scope(self) -> Literal["sentence", "token"]:
        """The norm is computed per sentence [T, d], or per token [d] as in the public code."""


def lengths(ascent: Ascent, x: Tensor) -> Tensor:
    """Return the norm of each perturbation or gradient: [S, T, d] -> [S, 1, 1] or [S, T, 1]."""
    axes = (1, 2) if ascent.scope == "sentence" else (2,)
    order = math.inf if ascent.norm == "inf" else 2
    return torch.linalg.vector_norm(x, order, dim=axes, keepdim=True)


def project(ascent: Ascent, delta: Tensor) -> Tensor:
    """Return the nearest point of the ball, [S, T, d]."""
    if ascent.norm == "inf":
        return delta.clamp(-ascent.eps, ascent.eps)
    # slightly smaller: rounding must not put a point outside the ball
    inside = ascent.eps * (1 - 4 * torch.finfo(delta.dtype).eps * math.sqrt(delta[0].numel()))
    return delta * (inside / lengths(ascent, delta)).clamp(max=1)  # x / 0 = inf: stays 0


def perturbation(
    ascent: Ascent, x: Tensor, mask: Tensor, gap: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return delta [S, T, d] after the ascent: within eps, 0 at padding, without a graph.

    Args:
        ascent: the settings.
        x: the input [S, T, d], without a graph.
        mask: [S, T], 0 at padding.
        gap: perturbed x -> summed divergence of f(perturbed x) from f(x). Only the gradient with
            respect to the perturbation is computed, so no ``.grad`` changes.
    """
    real = (mask != 0).unsqueeze(-1)
    delta = torch.randn_like(x) * ascent.noise * real
    for _ in range(ascent.steps):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(gap(x + delta), delta)
        gradient = gradient * real
        length = lengths(ascent, gradient)
        direction = gradient / length.clamp_min(torch.finfo(length.dtype).tiny)
        delta = project(ascent, delta.detach() + ascent.step_size * direction)
    return delta
