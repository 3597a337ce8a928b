"""Arrays that all task types count with."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _divide(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient; 0 / 0 is NaN, silently."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.divide(numerator, denominator)
    return quotient


def _count(cells: Array, size: int) -> Array:
    """How often each of ``size`` values occurs in each row of ``cells`` [R, M]: int [R, size]."""
    shifted = cells + size * np.arange(len(cells))[:, None]
    return np.bincount(shifted.ravel(), minlength=size * len(cells)).reshape(len(cells), size)
