# Tested by tests/data/test_answers.py
"""Windows: a text longer than `max_length` is read in parts, of which neighbours overlap.

``Tokens.row_of`` tells the row of each window.
"""

import numpy as np


def overlapping(stride: int) -> dict[str, int]:
    """Return the tokenizer's options for windows that share ``stride`` tokens."""
    return {"stride": stride, "return_overflowing_tokens": True}


def best_windows(scores: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """Return the window with the highest score of each row, the first of equals.

    Args:
        scores: float [W], a score per window.
        row_of: int64 [W], the row of each window.

    Returns:
        The numbers of the windows, int64 [rows], in the order of the rows.
    """
    order = np.lexsort((-scores, row_of))
    best: np.ndarray = order[np.unique(row_of[order], return_index=True)[1]]
    return best
