"""The worst small perturbation: projected gradient ascent on the input of f (SMART, Algorithm 1).

max over |delta| <= eps of mean_i l_s(f(x_i + delta_i), f(x_i))
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ascent:
    """How a perturbation is looked for. Defaults are the paper's (section 4.1 and appendix).

    Attributes:
        eps: radius of the ball that holds each perturbation.
        noise: standard deviation of the normal start.
        step_size: eta of each step along the normalised gradient.
        steps: ascent steps, each a forward pass and its input gradient.
        norm: of the ball and of the gradient: "inf" or "l2".
        scope: what one perturbation is, of which the norm is taken: a whole "sentence" [T, d], or
            each "token" [d] as the public code has it.
    """

    eps: float = 1e-5
    noise: float = 1e-5
    step_size: float = 1e-3
    steps: int = 1
    norm: str = "inf"
    scope: str = "sentence"

    def lengths(self, x: Tensor) -> Tensor:
        """The norm of each perturbation or gradient in [S, T, d]: [S, 1, 1] or [S, T, 1]."""
        axes = (1, 2) if self.scope == "sentence" else (2,)
        order = math.inf if self.norm == "inf" else 2
        return torch.linalg.vector_norm(x, order, dim=axes, keepdim=True)

    def project(self, delta: Tensor) -> Tensor:
        """The nearest point of the ball, [S, T, d]."""
        if self.norm == "inf":
            return delta.clamp(-self.eps, self.eps)
        # a hair inside, lest rounding puts a point of the surface outside
        inside = self.eps * (1 - 4 * torch.finfo(delta.dtype).eps * math.sqrt(delta[0].numel()))
        return delta * (inside / self.lengths(delta)).clamp(max=1)  # x / 0 = inf: stays 0


def perturbation(
    ascent: Ascent,
    x: Tensor,
    mask: Tensor,
    gap: Callable[[Tensor], Tensor],
) -> Tensor:
    """delta [S, T, d] after the ascent: within eps, 0 at pads, without a graph.

    Args:
        ascent: how to look.
        x: [S, T, d], what is perturbed, without a graph.
        mask: [S, T], 0 at pads.
        gap: perturbed x -> the summed divergence of f there from f at x. Only the gradient by
            the perturbation is taken, so no ``.grad`` changes.
    """
    real = (mask != 0).unsqueeze(-1)
    delta = torch.randn_like(x) * ascent.noise * real
    for _ in range(ascent.steps):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(gap(x + delta), delta)
        gradient = gradient * real
        length = ascent.lengths(gradient)
        direction = gradient / length.clamp_min(torch.finfo(length.dtype).tiny)
        delta = ascent.project(delta.detach() + ascent.step_size * direction)
    return delta
