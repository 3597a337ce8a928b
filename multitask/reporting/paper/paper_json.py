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
    untrained: NotRequired[bool]  # the task was scored, and not trained on


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
    baseline: NotRequired[str | None]  # older files lack it: the table's
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


def baseline_of(table: PaperTable, row: PaperRow) -> PaperRow | None:
    """Return the row that a row is compared with; None if it is compared with none."""
    name = row.get("baseline", table["baseline"])
    found = next((other for other in table["rows"] if other["name"] == name), None)
    return None if found is row else found


def has_one_baseline(table: PaperTable) -> bool:
    """Return False if some rows are compared with another row than the table's baseline."""
    found = (baseline_of(table, row) for row in table["rows"])
    return {base["name"] for base in found if base} <= {table["baseline"]}


def compared_title(table: PaperTable, row: PaperRow) -> str:
    """Return a row's title, with that of its baseline where rows have different ones."""
    base = baseline_of(table, row)
    if base is None or has_one_baseline(table):
        return row["title"]
    return f"{row['title']}, to {base['title']}"
