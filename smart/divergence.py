"""l_s: how far two outputs for the same rows are from each other (SMART, section 3.1).

Symmetric in its arguments, 0 where they are equal, with a gradient into both.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import log_softmax

Divergence = Callable[[Tensor, Tensor], Tensor]


def symmetric_kl(one: Tensor, other: Tensor) -> Tensor:
    """KL(P|Q) + KL(Q|P) = sum_c (p_c - q_c) (log p_c - log q_c), logits [B, C] each -> [B].

    In this form the tiny differences that SMART is about are not lost in rounding.
    """
    p, q = log_softmax(one, -1), log_softmax(other, -1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1)


def symmetric_bernoulli_kl(one: Tensor, other: Tensor) -> Tensor:
    """The same for one logit, of any equal shapes: (sigma(a) - sigma(b)) (a - b)."""
    return (one.sigmoid() - other.sigmoid()) * (one - other)


def mean_symmetric_bernoulli_kl(one: Tensor, other: Tensor) -> Tensor:
    """Its mean over classes that are decided each for itself, logits [B, C] each -> [B]."""
    return symmetric_bernoulli_kl(one, other).mean(-1)


def squared_error(one: Tensor, other: Tensor) -> Tensor:
    """(a - b)^2 on the scale that the head trains on, [B] each -> [B]."""
    return (one - other) ** 2


# by the name that a head declares
DIVERGENCES: dict[str, Divergence] = {
    "symmetric_kl": symmetric_kl,
    "symmetric_bernoulli_kl": symmetric_bernoulli_kl,
    "mean_symmetric_bernoulli_kl": mean_symmetric_bernoulli_kl,
    "squared_error": squared_error,
}
