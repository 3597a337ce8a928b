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

from benchmarks.course_batches import parser
from multitask.data.sts_suites import read_suites
from multitask.inference.embeddings import open_vectors
from multitask.inference.similarity import cosines
from multitask.inference.sts_scores import Encode, looked_up, score_suites, sides
from multitask.reporting.table_formats import markdown_table
from multitask.tasks.bootstrap import percentiles
from multitask.utils.versions import git_revision

NAMES = ("plain", "matryoshka")
DIMS = (384, 192, 96, 48, 24)
RESAMPLES = 2000


def pearson(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the last axis."""
    left = left - left.mean(-1, keepdims=True)
    right = right - right.mean(-1, keepdims=True)
    scale = np.sqrt((left**2).sum(-1) * (right**2).sum(-1))
    return np.asarray((left * right).sum(-1) / scale)


def difference(gold: np.ndarray, plain: np.ndarray, matryoshka: np.ndarray) -> str:
    """The difference of the means over seeds of cosines [S, N], with its interval over both."""
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        rows = generator.integers(len(gold), size=len(gold))
        seeds = generator.integers(len(plain), size=len(plain))
        a, b = (pearson(gold[rows], side[:, rows])[seeds].mean() for side in (plain, matryoshka))
        drawn.append(b - a)
    low, high = percentiles(np.array(drawn))
    point = pearson(gold, matryoshka).mean() - pearson(gold, plain).mean()
    return f"{point:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--grid", type=Path, required=True)
    made.add_argument("--stsb", type=Path, required=True)
    arguments = made.parse_args()
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
        scores = [pearson(gold, values) for values in both]
        means = [f"{values.mean():.3f} ± {values.std(ddof=1):.3f}" for values in scores]
        others = [f"{np.mean(average[name, dim]):.3f}" for name in NAMES]
        lines.append([str(dim), *means, difference(gold, *both), *others])
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
