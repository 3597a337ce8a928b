# Tested by tests/models/encoders/test_operators.py
"""The bias by relative position of MPNet's attention."""

import math

import torch
from torch import Tensor, nn


class RelativeBias(nn.Module):
    """A learned number per head and bucket of relative positions (Raffel et al. 2020, section 2.1;
    the buckets are those of T5's and MPNet's code).

    Half of the buckets is for keys after the query. Distances below a quarter of the buckets have
    their own; larger ones share buckets that grow logarithmically to ``FARTHEST``.
    """

    FARTHEST = 128

    def __init__(self, buckets: int, heads: int) -> None:
        super().__init__()
        self.buckets = nn.Embedding(buckets, heads)

    def forward(self, longest: int) -> Tensor:
        """Return the bias of key j for query i at j - i + ``longest`` - 1:
        [heads, 2 ``longest`` - 1].
        """
        half = self.buckets.num_embeddings // 2
        exact = half // 2
        relative = torch.arange(1 - longest, longest, device=self.buckets.weight.device)
        distance = relative.abs()
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.FARTHEST / exact)
        far = (exact + (growth * (half - exact)).long()).clamp(max=half - 1)
        bucket = torch.where(distance < exact, distance, far) + half * (relative > 0)
        return self.buckets(bucket).T
