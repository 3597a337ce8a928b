"""l_s: the divergence of two outputs for the same rows (SMART, section 3.1).

It is symmetric, 0 for equal outputs, and has a gradient for both.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import log_softmax

Divergence = Callable[[Tensor, Tensor], Tensor]


def symmetric_kl(logits: Tensor, other_logits: Tensor) -> Tensor:
    """KL(P|Q) + KL(Q|P) = sum_c (p_c - q_c) (log p_c - log q_c), logits [B, C] each -> [B].

    This form does not lose the tiny differences of SMART to rounding.
    """
    p, q = log_softmax(logits, -1), log_softmax(other_logits, -1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1)


def symmetric_bernoulli_kl(logits: Tensor, other_logits: Tensor) -> Tensor:
    """The same for one logit: (sigma(a) - sigma(b)) (a - b). The shapes must be equal."""
    return (logits.sigmoid() - other_logits.sigmoid()) * (logits - other_logits)


def mean_symmetric_bernoulli_kl(logits: Tensor, other_logits: Tensor) -> Tensor:
    """The mean of this over separately predicted classes, logits [B, C] each -> [B]."""
    return symmetric_bernoulli_kl(logits, other_logits).mean(-1)


def squared_error(numbers: Tensor, other_numbers: Tensor) -> Tensor:
    """(a - b)^2 on the scale of the head's loss, [B] each -> [B]."""
    return (numbers - other_numbers) ** 2


# by name, as a head declares it in ``divergence``
DIVERGENCES: dict[str, Divergence] = {
    "symmetric_kl": symmetric_kl,
    "symmetric_bernoulli_kl": symmetric_bernoulli_kl,
    "mean_symmetric_bernoulli_kl": mean_symmetric_bernoulli_kl,
    "squared_error": squared_error,
}
