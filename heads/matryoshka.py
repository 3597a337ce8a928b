"""Sizes of vectors that are trained together (Kusupati et al. 2022)."""

from collections.abc import Sequence


def matryoshka_sizes(sizes: Sequence[int] | None, dim: int) -> tuple[int, ...]:
    """Return the sizes of ``Head.matryoshka``, () for None.

    Raises ValueError unless they are different numbers from 1 to ``dim``.
    """
    made = tuple(sizes or ())
    if (sizes is not None and not made) or len({*made} & {*range(1, dim + 1)}) < len(made):
        raise ValueError(f"matryoshka must be different numbers from 1 to {dim}, not {sizes}")
    return made
