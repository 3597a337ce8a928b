"""What do the first numbers of a vector know, with and without `matryoshka`?

    python -m benchmarks.matryoshka DIRECTORY-OF-THE-SUITES --grid runs/matryoshka --stsb FILE

The grid is that of configs/ablations/matryoshka.yaml, with its weights; FILE is the course's
sts-dev.csv.

Encodes every suite once per run and cuts the vectors, as `sts --dim K` does. One line per number of
dimensions: Pearson on STS-B, mean over seeds, with and without; their difference with its 95 %
interval (paired bootstrap over pairs and seeds); the mean of the suites' Spearman correlations.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.course_batches import parser, started
from multitask.data.sts_suites import read_suites
from multitask.inference.embeddings import open_vectors
from multitask.inference.similarity import cosines
from multitask.inference.sts_scores import Encode, looked_up, score_suites, sides
from multitask.reporting.sheet_tables import score_cell
from multitask.reporting.statistics import over_seeds
from multitask.reporting.table_formats import difference, markdown_table
from multitask.tasks.bootstrap import percentiles
from multitask.tasks.regression import correlation
from multitask.utils.versions import git_revision

NAMES = ("plain", "matryoshka")
DIMS = (384, 192, 96, 48, 24)
RESAMPLES = 2000


def pearsons(gold: np.ndarray, similar: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each seed's cosines [S, N]: [S]."""
    return np.array([correlation("pearson", gold, seed) for seed in similar])


def gain(gold: np.ndarray, plain: np.ndarray, matryoshka: np.ndarray) -> str:
    """The difference of the means over seeds of cosines [S, N], with its interval over both."""
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        rows = generator.integers(len(gold), size=len(gold))
        seeds = generator.integers(len(plain), size=len(plain))
        a, b = (pearsons(gold[rows], side[:, rows])[seeds].mean() for side in (plain, matryoshka))
        drawn.append(b - a)
    low, high = percentiles(np.array(drawn))
    point = pearsons(gold, matryoshka).mean() - pearsons(gold, plain).mean()
    return difference({"value": point, "low": low, "high": high})


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--grid", type=Path, required=True)
    made.add_argument("--stsb", type=Path, required=True)
    arguments = started(made)
    suites = read_suites(arguments.directory, arguments.stsb)
    rows = [rows for suite in suites.values() for rows in suite.values()]
    dev = next(iter(suites["STS-B"].values()))
    similar: dict[tuple[str, int], list[np.ndarray]] = {}
    average: dict[tuple[str, int], list[float]] = {}
    for name in NAMES:
        for run in sorted((arguments.grid / "cells" / name).glob("seed-*")):
            whole = looked_up(rows, open_vectors(str(run), task="sts").encode)
            for dim in DIMS:

                def cut(texts: Sequence[str], dim: int = dim, whole: Encode = whole) -> np.ndarray:
                    return whole(texts)[:, :dim]

                entries = score_suites(suites, cut)
                spearmans = [entry["scores"]["all"]["spearman"] for entry in entries.values()]
                average.setdefault((name, dim), []).append(float(np.mean(spearmans)))
                similar.setdefault((name, dim), []).append(cosines(*sides(dev, cut)))
    gold = np.asarray(dev.gold)
    lines = []
    for dim in DIMS:
        both = [np.stack(similar[name, dim]) for name in NAMES]
        means = [score_cell(over_seeds(pearsons(gold, values).tolist())) for values in both]
        others = [f"{np.mean(average[name, dim]):.3f}" for name in NAMES]
        lines.append([str(dim), *means, gain(gold, *both), *others])
    columns = [
        "STS-B dev, plain",
        "with matryoshka",
        "difference",
        "7 suites, plain",
        "with matryoshka",
    ]
    print(f"commit {git_revision()}, {len(gold)} pairs of STS-B dev\n")
    print(markdown_table(["numbers", *columns], lines))


if __name__ == "__main__":
    main()
