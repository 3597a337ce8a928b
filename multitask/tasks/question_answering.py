"""Exact match and F1 of an answer, as the official SQuAD v1.1 script has them, from 0 to 1.

Rajpurkar et al. 2016; https://worksheets.codalab.org/rest/bundles/0xbcd57bee090b421c982906709c8c27e1
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, without punctuation and then articles, with single spaces."""
    bare = text.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def word_f1(predicted: str, gold: str) -> float:
    """F1 of the words that both have, each as often as both have it; 0 where none is shared."""
    one, other = normalised(predicted).split(), normalised(gold).split()
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other)) if shared else 0.0


def outcome(predicted: str, answers: Sequence[str]) -> tuple[float, float]:
    """F1 and exact match of one row, the best over its answers, as in
    ``multitask.tasks.metric_names.OUTCOMES``."""
    exact = any(normalised(predicted) == normalised(gold) for gold in answers)
    return max(word_f1(predicted, gold) for gold in answers), float(exact)
