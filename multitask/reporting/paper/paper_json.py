# Tested by tests/reporting/paper/test_paper_table.py
"""The keys of ``paper.json``; docs/glue.md describes them. Scores are in percent."""

from typing import Literal, NotRequired, TypedDict

from multitask.reporting.comparison.comparison_json import Difference, Score


class PaperColumn(TypedDict):
    """A column of the layout, with its defaults."""

    title: str
    task: str
    metric: str
    of: str | None
    cells: str | None
    averaged: bool | Literal["official"]


class Training(TypedDict):
    """How the runs of a cell were trained; None if they do not say it."""

    encoder: str | None
    epochs: float | None
    all_rows: bool  # `max_rows`, `dev_share` and `training.holdout` took none away


class PaperSetting(TypedDict):
    """How the paper's runs were trained, as far as the layout says it."""

    encoder: str | None
    rows: int | Literal["all"] | None
    epochs: float | None
    seeds: int | None


class PaperCell(TypedDict):
    """A printed value, and the scores of the runs if there are any."""

    values: list[Score]  # per seed
    shown: Score
    printed: float | None
    runs: NotRequired[list[str]]
    seeds: NotRequired[list[int]]
    mean: NotRequired[Score]
    sd: NotRequired[Score]
    low: NotRequired[Score]
    high: NotRequired[Score]
    median: NotRequired[Score]
    difference: NotRequired[Difference | None]
    train_rows: NotRequired[int | None]
    training: NotRequired[Training]
    updates: NotRequired[int | None]
    trained_rows: NotRequired[int | None]
    epoch_seconds: NotRequired[float | None]
    dev_seconds: NotRequired[float | None]


class PaperRow(TypedDict):
    name: str
    title: str
    cells: list[PaperCell | None]  # per column


class PaperAverage(TypedDict):
    """An average of ours and of the paper's values, by the name of the row."""

    title: str
    columns: list[str]
    values: dict[str, float | None]
    printed: dict[str, float | None]


class PaperTable(TypedDict):
    format: int
    title: str
    source: str | None
    paper: NotRequired[PaperSetting | None]
    statistic: str
    baseline: str
    baseline_title: str
    margin: NotRequired[float | None]  # in points; differences within it are called equal
    curve: str | None
    resamples: int
    columns: list[PaperColumn]
    rows: list[PaperRow]
    averages: list[PaperAverage]
    notes: list[str]
    verdicts: NotRequired[list[str]]
