"""MGDA of torchjd."""

from torchjd.aggregation import MGDA


def reference():
    return MGDA()
