"""AlignedMTL of torchjd."""

from torchjd.aggregation import AlignedMTL


def reference():
    return AlignedMTL()
