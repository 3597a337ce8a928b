"""Find the worst small perturbation of the input of f by projected gradient ascent (Algorithm 1).

max over |delta| <= eps of mean_i l_s(f(x_i + delta_i), f(x_i))
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ascent:
    """The settings of the ascent. Defaults are the paper's (section 4.1 and appendix).

    Attributes:
        eps: radius of the ball that holds each perturbation.
        noise: standard deviation of the random start.
        step_size: size eta of a step along the normalised gradient.
        steps: number of ascent steps, each a forward pass and its input gradient.
        norm: norm of the ball and of the gradient, "inf" or "l2".
        scope: the norm is computed per "sentence" [T, d], or per "token" [d] as in the public
            code.
    """

    eps: float = 1e-5
    noise: float = 1e-5
    step_size: float = 1e-3
    steps: int = 1
    norm: str = "inf"
    scope: str = "sentence"

    def lengths(self, x: Tensor) -> Tensor:
        """Return the norm of each perturbation or gradient: [S, T, d] -> [S, 1, 1] or [S, T, 1]."""
        axes = (1, 2) if self.scope == "sentence" else (2,)
        order = math.inf if self.norm == "inf" else 2
        return torch.linalg.vector_norm(x, order, dim=axes, keepdim=True)

    def project(self, delta: Tensor) -> Tensor:
        """Return the nearest point of the ball, [S, T, d]."""
        if self.norm == "inf":
            return delta.clamp(-self.eps, self.eps)
        # slightly smaller: rounding must not put a point outside the ball
        inside = self.eps * (1 - 4 * torch.finfo(delta.dtype).eps * math.sqrt(delta[0].numel()))
        return delta * (inside / self.lengths(delta)).clamp(max=1)  # x / 0 = inf: stays 0


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
        length = ascent.lengths(gradient)
        direction = gradient / length.clamp_min(torch.finfo(length.dtype).tiny)
        delta = ascent.project(delta.detach() + ascent.step_size * direction)
    return delta
