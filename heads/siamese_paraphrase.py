"""Paraphrase detection from two sentence vectors (CS224N mini-BERT paper, section 4.4.2)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from heads.base import BinaryScores

FEATURES = ("u", "v", "sum", "abs_diff", "product")
ADVICE = "reads |u - v| alone: try `tasks.{task}.head.features=[u,v,abs_diff]`"


class SiameseParaphraseHead(BinaryScores):
    """One logit, Linear(k d, 1), from k features of a pair.

    ``sum`` is u + v, ``abs_diff`` is |u - v| and ``product`` is u * v: these are the same for
    (u, v) and (v, u). With ``u`` or ``v`` as a feature (SBERT's [u; v; |u - v|]) the score depends
    on the order of the pair.

    Args:
        dim: width d of a sentence vector.
        features: any of "u", "v", "sum", "abs_diff", "product".

    Raises:
        ValueError: not a list, or a feature is missing, unknown or given twice.
    """

    trial_rate: ClassVar[float] = 10  # the entries of |u - v| are small

    def __init__(self, dim: int, features: list[str] | tuple[str, ...] = ("abs_diff",)) -> None:
        super().__init__()
        listed = isinstance(features, list | tuple) and 0 < len(features) == len(set(features))
        if not listed or not set(features) <= set(FEATURES):
            raise ValueError(f"features must be a list out of {', '.join(FEATURES)}")
        self.features = tuple(features)
        self.order_matters = bool({"u", "v"} & set(features))
        if self.features == ("abs_diff",):
            self.advice = ADVICE
        self.linear = nn.Linear(dim * len(features), 1)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v [B, d] -> logits [B]."""
        made = {"u": u, "v": v, "sum": u + v, "abs_diff": (u - v).abs(), "product": u * v}
        return self.linear(torch.cat([made[name] for name in self.features], dim=-1)).squeeze(-1)
