"""PCGrad of torchjd."""

from torchjd.aggregation import PCGrad


def reference():
    return PCGrad()
