"""Measures of the space of sentence vectors: alignment, uniformity, anisotropy.

Wang & Isola 2020, with the constants of their experiments (alpha = 2, t = 2), on vectors of length
one. Expectations are over all pairs; no pairs are sampled.
"""

import numpy as np

# digits of a cosine of fp32 vectors
DIGITS = 6
# rows whose products with all others are in memory at once
CHUNK = 1024


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divide each vector [N, d] by its length; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows to ``DIGITS`` digits: [N, d] twice -> float64 [N].

    Rounding makes ties of what fp32 vectors cannot distinguish, such as two pairs of equal
    sentences. Otherwise rounding errors would rank them (.0006 of Spearman's correlation on
    SMTeuroparl).
    """
    products = (unit(left.astype(np.float64)) * unit(right.astype(np.float64))).sum(axis=1)
    return products.round(DIGITS)


def alignment(left: np.ndarray, right: np.ndarray) -> float:
    """Compute the mean of |u - v|^2 over positive pairs, rows of ``left`` and ``right`` [N, d].

    Lower is better. NaN without pairs.
    """
    if not len(left):
        return float("nan")
    distances = np.square(unit(left).astype(np.float64) - unit(right)).sum(axis=1)
    return float(distances.mean())


def uniformity(vectors: np.ndarray) -> float:
    """Compute log E exp(-2 |u - v|^2) over all pairs of rows [N, d]; lower is better.

    NaN for fewer than two rows.
    """
    rows = unit(vectors)
    count = len(rows)
    if count < 2:
        return float("nan")
    total = 0.0
    for start in range(0, count, CHUNK):
        chunk = rows[start : start + CHUNK]
        # |u - v|^2 = 2 - 2 cos; each row only with those after it
        products = chunk @ rows[start:].T
        later = np.triu(np.ones(products.shape, dtype=bool), k=1)
        total += np.exp(4 * products - 4, where=later, out=np.zeros_like(products)).sum(dtype=float)
    return float(np.log(total / (count * (count - 1) / 2)))


def mean_cosine(vectors: np.ndarray) -> float:
    """Compute the mean cosine over all pairs of rows [N, d], a measure of anisotropy.

    0 if directions are evenly spread, 1 if they are equal (Ethayarajh 2019). NaN for fewer than two
    rows.
    """
    rows = unit(vectors).astype(np.float64)
    count = len(rows)
    if count < 2:
        return float("nan")
    with_itself = float(np.square(rows).sum())
    return (float(np.square(rows.sum(axis=0)).sum()) - with_itself) / (count * (count - 1))
