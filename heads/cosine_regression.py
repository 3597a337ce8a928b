"""Similarity as a scaled cosine (CS224N mini-BERT paper, section 4.4.3; Sentence-BERT)."""

from torch import Tensor, nn
from torch.nn import functional

from heads.base import NumberScores


class CosineRegressionHead(NumberScores):
    """low + (high - low) cos(W u, W v): 5 cos(u, v) on STS-B's scale of 0 to 5.

    Args:
        dim: width d of a sentence vector.
        low, high: the label range.
        linear: apply one shared Linear(d, d) before the cosine ("a linear to adjust the weight
            before calculating the cos-sim"). Otherwise the head has no parameters.
        matryoshka: sizes k: train the first k numbers of a vector for each k, so that a vector can
            be cut to these sizes; null: all numbers together.

    Raises:
        ValueError: a size above d, or ``matryoshka`` with ``linear``, which mixes all numbers.
    """

    def __init__(
        self,
        dim: int,
        low: float,
        high: float,
        linear: bool = False,
        matryoshka: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.train_sizes(matryoshka, dim)
        if self.matryoshka and linear:
            raise ValueError(
                "matryoshka needs `linear: false`, as a linear layer mixes all numbers"
            )
        self.low, self.high = low, high
        self.linear = nn.Linear(dim, dim) if linear else nn.Identity()

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v [B, d] -> similarities [B] on the label scale, not clipped."""
        cosine = functional.cosine_similarity(self.linear(u), self.linear(v), dim=-1)
        return self.low + (self.high - self.low) * cosine
