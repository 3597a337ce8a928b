"""Score sentence vectors on the STS suites: correlations of their cosines with the gold scores.

``all`` is one correlation over all pairs of a suite, as in SimCSE's tables; ``mean`` and ``wmean``
are averages over its subsets, plain and weighted by the number of pairs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from multitask.data.sts_suites import Suite
from multitask.inference.similarity import alignment, cosines, mean_cosine, uniformity
from multitask.reporting.sts_report import Correlations, StsScores, SuiteEntry
from multitask.tasks.regression import correlation
from multitask.tasks.rows import Rows

Encode = Callable[[Sequence[str]], np.ndarray]
Find = Callable[[Rows], np.ndarray]  # pairs -> True for those that are known, bool [N]
# gold scores above this make a positive pair (Gao et al. 2021)
POSITIVE = 4.0


def score_suites(
    suites: Mapping[str, Suite],
    encode: Encode,
    training: Find | None = None,
    selecting: Find = lambda rows: np.zeros(len(rows), dtype=bool),
) -> dict[str, SuiteEntry]:
    """Compute each suite's entry of sts.json; each distinct sentence is encoded once.

    Args:
        suites: the suites by name.
        encode: N texts -> vectors [N, d].
        training: finds pairs in the run's training rows; None for an encoder without a run.
        selecting: finds pairs in the rows that selected the run's weights.

    Returns:
        Per suite: ``pairs``; ``in_training``, the number of pairs in ``training`` (None without);
        ``selecting``, the number of pairs in ``selecting``; ``scores`` over all pairs; ``clean``
        over the pairs that are not in ``training`` (None if that is all of them or unknown);
        ``subsets``; ``space`` of the pairs that are not in ``training``. An undefined correlation,
        and an average with one, is NaN.
    """
    vectors = looked_up([rows for suite in suites.values() for rows in suite.values()], encode)
    entries: dict[str, SuiteEntry] = {}
    for name, suite in suites.items():
        scores = {n: (rows.gold, cosines(*sides(rows, vectors))) for n, rows in suite.items()}
        new = {
            n: np.ones(len(rows), dtype=bool) if training is None else ~training(rows)
            for n, rows in suite.items()
        }
        seen = None if training is None else sum(int((~flags).sum()) for flags in new.values())
        clean = {n: (gold[new[n]], similar[new[n]]) for n, (gold, similar) in scores.items()}
        unseen = [rows.take(np.flatnonzero(new[n])) for n, rows in suite.items()]
        entries[name] = {
            "pairs": sum(map(len, suite.values())),
            "without_score": sum(rows.unlabelled_dropped for rows in suite.values()),
            "in_training": seen,
            "files": {n: rows.source for n, rows in suite.items()},
            "scores": averages(scores),
            "clean": averages(clean) if seen else None,
            "selecting": sum(int(selecting(rows).sum()) for rows in suite.values()),
            "space": space(unseen, vectors, POSITIVE),
        }
    return entries


def looked_up(parts: Iterable[Rows], encode: Encode) -> Encode:
    """Encode the sentences of some rows once, and return a function that looks vectors up."""
    texts = dict.fromkeys(text for rows in parts for pair in rows.texts for text in pair)
    number = {text: place for place, text in enumerate(texts)}
    vectors = encode(list(number))
    return lambda some: vectors[np.array([number[text] for text in some], dtype=np.int64)]


def sides(rows: Rows, vectors: Encode) -> list[np.ndarray]:
    """Return the vectors of the first and of the second sentences of N pairs, [N, d] each."""
    return [vectors([pair[side] for pair in rows.texts]) for side in (0, 1)]


def space(parts: Sequence[Rows], vectors: Encode, above: float) -> dict[str, float]:
    """Compute alignment (pairs with a score above ``above``), uniformity and mean cosine.

    A sentence that occurs twice counts once.
    """
    positive = [rows.take(np.flatnonzero(rows.gold > above)) for rows in parts]
    first, second = (
        np.concatenate(side) for side in zip(*(sides(r, vectors) for r in positive), strict=True)
    )
    every = vectors(list(dict.fromkeys(t for rows in parts for pair in rows.texts for t in pair)))
    return {
        "alignment": alignment(first, second),
        "uniformity": uniformity(every),
        "mean_cosine": mean_cosine(every),
    }


def pair_space(rows: Rows, vectors: Encode, highest: float) -> dict[str, float]:
    """Compute ``space`` of one task's pairs, whose scores go up to ``highest``.

    ``vectors`` looks the vectors of texts up. Pairs above 0.8 of ``highest`` are positive, as
    pairs above 4 of 5 in the suites.
    """
    return space([rows], vectors, 0.8 * highest)


def averages(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> StsScores:
    """Compute Spearman and Pearson for ``all``, ``mean``, ``wmean`` and each of ``subsets``.

    ``subsets`` maps names to gold scores and similarities [N]; empty subsets are left out.
    """
    subsets = {name: both for name, both in subsets.items() if len(both[0])}
    single: dict[str, Correlations] = {
        name: {"pairs": len(both[0]), **_correlations(*both)} for name, both in subsets.items()
    }
    pairs = [entry["pairs"] for entry in single.values()]
    together = [np.concatenate(side) for side in zip(*subsets.values(), strict=True)]
    return {
        "pairs": sum(pairs),
        "all": _correlations(*together) if subsets else _average([]),
        "mean": _average([*single.values()]),
        "wmean": _average([*single.values()], pairs),
        "subsets": single,
    }


def _correlations(gold: np.ndarray, similarities: np.ndarray) -> Correlations:
    return {
        "spearman": correlation("spearman", gold, similarities),
        "pearson": correlation("pearson", gold, similarities),
    }


def _average(entries: Sequence[Correlations], weights: Sequence[int] | None = None) -> Correlations:
    """Average correlations; NaN if there are none."""
    columns = [[entry["spearman"], entry["pearson"]] for entry in entries] or [[np.nan, np.nan]]
    spearman, pearson = np.average(columns, axis=0, weights=weights or None)
    return {"spearman": float(spearman), "pearson": float(pearson)}
