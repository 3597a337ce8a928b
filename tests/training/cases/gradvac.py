"""GradVac of torchjd."""

from torchjd.aggregation import GradVac


def reference():
    return GradVac(beta=0.01)
