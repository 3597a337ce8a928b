"""How often does the comparison of two equal settings find a difference at p < 0.05?

    python -m benchmarks.bootstrap_coverage > docs/results/benchmarks/bootstrap_coverage.md

A few minutes.

Simulated runs: every row has a difficulty that all runs share, every run another noise on
each row, and every seed an effect on all its rows. Both settings are the same, so each finding is
false; a sound test has 5 % of them.
"""

import argparse

import numpy as np

from multitask.reporting.statistics import drawn_seeds, p_value, seed_means
from multitask.reporting.table_formats import markdown_table
from multitask.utils.versions import git_revision

DIFFICULTY = 1.5  # standard deviation over rows; a run's own noise on a row has 1
# standard deviation of a seed's effect -> of the accuracy, by the slope of the normal distribution
SLOPE = 1 / np.sqrt(2 * np.pi * (1 + DIFFICULTY**2))


def false_findings(
    seeds: int, effect: float, rows: int = 1000, resamples: int = 400, trials: int = 500
) -> float:
    """The share of trials with p < 0.05 where seeds add ``effect`` (sd) to accuracy."""
    generator = np.random.default_rng(0)
    draws = drawn_seeds(range(seeds), resamples)
    findings = 0
    for _ in range(trials):
        difficulty = DIFFICULTY * generator.normal(size=rows)
        drawn = generator.integers(rows, size=(resamples, rows))
        counts = np.stack([np.bincount(row, minlength=rows) for row in drawn])
        means = []
        for _setting in range(2):
            shift = effect / SLOPE * generator.normal(size=(seeds, 1))
            right = generator.normal(size=(seeds, rows)) + difficulty + shift > 0
            means.append(seed_means(counts @ right.T.astype(float) / rows, draws))
        findings += p_value(means[1] - means[0]) < 0.05
    return findings / trials


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"commit {git_revision()}\n")
    rows = [
        [str(seeds), f"{effect:.3f}", f"{100 * false_findings(seeds, effect):.1f} %"]
        for seeds in (1, 3, 5)
        for effect in (0.0, 0.005, 0.01, 0.05)
    ]
    header = ["seeds", "sd of accuracy over seeds", "false findings at p < 0.05"]
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
