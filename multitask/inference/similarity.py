"""How sentence vectors fill the space: alignment, uniformity, anisotropy. No torch here.

Wang & Isola 2020, with the constants of their experiments (alpha = 2, t = 2), on vectors of length
one. The expectations are over all pairs, none is drawn at random.
"""

import numpy as np

# of a cosine of fp32 vectors
DIGITS = 6
# rows whose products with all others are held at once
CHUNK = 1024


def unit(vectors: np.ndarray) -> np.ndarray:
    """Each vector [N, d] divided by its length; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: np.ndarray = vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)
    return scaled


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosine of each pair of rows, to ``DIGITS`` digits: [N, d] twice -> float64 [N].

    What fp32 vectors cannot tell apart, such as two pairs of equal sentences, is a tie: else
    rounding errors would rank them (.0006 of Spearman's correlation on SMTeuroparl).
    """
    products = (unit(left.astype(np.float64)) * unit(right.astype(np.float64))).sum(axis=1)
    rounded: np.ndarray = products.round(DIGITS)
    return rounded


def alignment(left: np.ndarray, right: np.ndarray) -> float:
    """Mean of |u - v|^2 over positive pairs, rows of ``left`` and ``right`` [N, d].

    Lower is better. NaN without pairs.
    """
    if not len(left):
        return float("nan")
    distances = np.square(unit(left).astype(np.float64) - unit(right)).sum(axis=1)
    return float(distances.mean())


def uniformity(vectors: np.ndarray) -> float:
    """log of the mean of exp(-2 |u - v|^2) over all pairs of two rows [N, d]; lower is better.

    NaN for fewer than two rows.
    """
    rows = unit(vectors)
    count = len(rows)
    if count < 2:
        return float("nan")
    total = 0.0
    for start in range(0, count, CHUNK):
        chunk = rows[start : start + CHUNK]
        # |u - v|^2 = 2 - 2 cos; each row with those after it alone
        products = chunk @ rows[start:].T
        later = np.triu(np.ones(products.shape, dtype=bool), k=1)
        total += np.exp(4 * products - 4, where=later, out=np.zeros_like(products)).sum(dtype=float)
    return float(np.log(total / (count * (count - 1) / 2)))


def mean_cosine(vectors: np.ndarray) -> float:
    """Mean cosine over all pairs of two rows [N, d]: 0 for directions spread evenly, 1 for one.

    What anisotropy is measured by (Ethayarajh 2019). NaN for fewer than two rows.
    """
    rows = unit(vectors).astype(np.float64)
    count = len(rows)
    if count < 2:
        return float("nan")
    own = float(np.square(rows).sum())
    return (float(np.square(rows.sum(axis=0)).sum()) - own) / (count * (count - 1))
