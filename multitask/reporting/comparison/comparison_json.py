# Tested by tests/reporting/comparison/test_compare.py
"""The keys of ``comparison.json``; docs/comparing.md describes them.

A score, or a number that follows from scores, is None if it is undefined.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

Score = Any  # float, or None


class Difference(TypedDict):
    """The difference of a group to the baseline."""

    value: Score
    low: Score
    high: Score
    p: NotRequired[Score]
    p_holm: NotRequired[Score]


class MeanScore(TypedDict):
    mean: Score
    sd: Score


class Scores(MeanScore):
    """The scores of a group's seeds; on dev also their interval and the difference."""

    values: list[Score]
    low: NotRequired[Score]
    high: NotRequired[Score]
    best: NotRequired[bool]
    difference: NotRequired[Difference | None]


class Columns(TypedDict):
    """The scores of a group, or of its holdout."""

    tasks: dict[str, Scores]
    overall: Scores | None


class TrainingTime(TypedDict):
    epoch_seconds: float
    ratio: float | None


class Trained(TypedDict):
    """The amounts of a group's training; None where a report lacks one."""

    trained_parameters: int | None
    updates: NotRequired[int | None]
    trained_rows: NotRequired[int | None]
    untrained: NotRequired[list[str]]  # tasks that were scored, and not trained on


class ComparedGroup(Columns, Trained):
    name: str
    runs: list[str]
    seeds: list[int]
    point: dict[str, str]
    settings: dict[str, object]  # values of config keys
    holdout: Columns | None
    training_time: NotRequired[TrainingTime | None]


class Axis(TypedDict):
    """An axis of a grid."""

    key: str
    labels: Sequence[str]
    values: Sequence[Any]  # values of a config key


class ComparedTask(TypedDict):
    metric: str
    rows: int


class Gain(TypedDict):
    delta_m: Score
    tasks: dict[str, Score]


class Added(TypedDict):
    """The change of a task's score when another task is trained too."""

    change: Score
    group: str


class Transfer(TypedDict, total=False):
    singles: dict[str, str]
    gains: dict[str, Gain]
    matrix: dict[str, dict[str, Added]]


class Marginal(MeanScore):
    cells: int


class AxisValue(TypedDict):
    """The means at one value of an axis."""

    axis: str
    label: str
    tasks: dict[str, Marginal | None]
    overall: Marginal | None


class FailedRun(TypedDict):
    cell: str
    seed: int
    error: str


class Comparison(TypedDict):
    format: int
    baseline: str
    resamples: int
    confidence: float
    margin: NotRequired[float | None]  # differences within it are called equal
    tasks: dict[str, ComparedTask]
    axes: list[Axis]
    groups: list[ComparedGroup]
    notes: list[str]
    verdicts: NotRequired[list[str]]
    transfer: NotRequired[Transfer]
    marginals: NotRequired[list[AxisValue]]
    failed: NotRequired[list[FailedRun]]  # of a grid
