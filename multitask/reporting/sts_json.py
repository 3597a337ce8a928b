# Tested by tests/reporting/test_sts_report.py
"""The keys of ``sts.json`` and ``layers.json``; docs/sts.md describes them.

An undefined score is NaN, and null in the files.
"""

from collections.abc import Mapping
from typing import TypedDict

from pydantic import Field

from multitask.config.saved.base import Saved, Score


class Correlations(TypedDict):
    spearman: float
    pearson: float


class SubsetScores(Correlations):
    pairs: int


class StsScores(TypedDict):
    """Correlations over all pairs of a suite, two averages over its subsets, and each subset."""

    pairs: int
    all: Correlations
    mean: Correlations
    wmean: Correlations
    subsets: dict[str, SubsetScores]


class SuiteScores(TypedDict):
    """Counts and scores of a suite; ``clean`` without the pairs in the run's training rows."""

    pairs: int
    without_score: int
    in_training: int | None
    files: dict[str, str]
    scores: StsScores
    clean: StsScores | None


class SuiteEntry(SuiteScores):
    """The entry of a suite, with the pairs that selected the weights, and the vectors' space."""

    selecting: int
    space: dict[str, float]


class VectorFacts(TypedDict):
    """The vectors and the command that made them."""

    format: int
    of: str
    source: str
    task: str | None
    pooling: str
    max_length: int
    command: str
    git_revision: str | None


class StsReport(VectorFacts):
    average: dict[str, float | None]  # None without all suites
    suites: dict[str, SuiteEntry]


# Spearman of each layer [L + 1] by pooling, and one number for the first and last layer's mean
LayerScores = Mapping[str, list[float | None] | float | None]


class SuiteLayers(TypedDict):
    all: LayerScores
    subsets: dict[str, LayerScores]


class SavedCurves(Saved):
    """The scores that ``layers.png`` draws of a suite, as read from a file."""

    cls: list[Score]
    mean: list[Score]
    max: list[Score]
    first_last: Score = Field(alias="first-last mean")


class SavedSuite(Saved):
    all: SavedCurves
    subsets: dict[str, object]


class SavedLayers(Saved):
    """A ``layers.json``: the name of the weights, and their scores by suite."""

    of: str
    suites: dict[str, SavedSuite]
