# Tested by tests/reporting/test_sheet_tables.py
"""A sheet: rows x columns of scores, what each row is compared with, and how it was trained.

A comparison of runs and a paper's table are sheets; ``comparison.json`` and ``paper.json`` are
their files. docs/comparison-files.md describes the keys. A score, or a number that follows from
scores, is None if it is undefined. Scores of a paper's table are in percent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, Required, TypedDict

Score = Any  # float, or None
MEAN = "mean of tasks"  # the name of the column that averages the tasks
FORMAT = 2
CURVES, GAPS = "curves.png", "gaps.png"  # figures of a comparison


class Difference(TypedDict):
    """A difference to the baseline; both p are None where one side has one seed."""

    value: Score
    low: Score
    high: Score
    p: NotRequired[Score]
    p_holm: NotRequired[Score]


class Facts(TypedDict, total=False):
    """How runs were trained. None if their reports do not say it, as those of probes."""

    runs: list[str]
    seeds: list[int]
    encoder: str | None
    epochs: float | None
    train_rows: int | None  # rows of the training set
    all_rows: bool  # `max_rows`, `dev_share` and `training.holdout` took none away
    updates: int | None
    trained_rows: int | None  # rows of all steps
    trained_parameters: int | None
    untrained: list[str]  # tasks that were scored, and not trained on
    epoch_seconds: float | None
    dev_seconds: float | None


class Cell(Facts, total=False):
    """The scores of a row's seeds in a column, and the facts that are not those of its row."""

    values: Required[list[Score]]  # per seed
    mean: Score
    sd: Score
    median: Score
    low: Score
    high: Score
    best: bool
    difference: Difference | None
    printed: float | None  # the paper's value


Cells = dict[str, Cell]  # by the name of the column
TRIVIAL = "trivial"  # beside the groups in the tables of metrics


class Row(Facts, total=False):
    name: Required[str]
    title: Required[str]
    baseline: Required[str | None]  # the row that it is compared with
    cells: Required[Cells]
    holdout: Cells | None
    point: dict[str, str]  # its label on each axis of a grid
    settings: dict[str, object]  # values of config keys


class Column(TypedDict, total=False):
    """A column: a task and a metric, or a mean."""

    title: Required[str]
    task: str
    metric: str
    rows: int  # of the dev set
    of: str | None
    cells: str | None
    over: list[str]  # the titles of the columns that a paper's average is over


class Axis(TypedDict):
    """An axis of a grid."""

    key: str
    labels: Sequence[str]
    values: Sequence[Any]  # values of a config key


class Marginal(TypedDict):
    mean: Score
    sd: Score
    cells: int
    difference: NotRequired[Difference | None]  # to the first value of the axis


class AxisValue(TypedDict):
    """The means at one value of an axis, by column."""

    axis: str
    label: str
    cells: dict[str, Marginal | None]
    holdout: NotRequired[dict[str, Difference]]  # differences on the held-out rows


class FailedRun(TypedDict):
    cell: str
    seed: int
    error: str


class Sheet(TypedDict):
    format: int
    title: str
    # of a paper's table: where the printed values are from, encoder, rows, epochs, seeds
    paper: Mapping[str, Any] | None
    statistic: Literal["mean", "median", "sd"]  # what is shown of the seeds
    curve: NotRequired[str | None]  # what the rows are values of
    baseline: str
    margin: NotRequired[float | None]  # differences within it are called equal
    resamples: int
    confidence: float
    columns: dict[str, Column]
    rows: list[Row]
    axes: NotRequired[list[Axis]]
    marginals: NotRequired[list[AxisValue]]
    metrics: NotRequired[dict[str, dict[str, Cells]]]  # every metric on dev: by task, metric, row
    transfer: NotRequired[dict[str, Any]]
    failed: NotRequired[list[FailedRun]]  # of a grid
    notes: list[str]
    verdicts: NotRequired[list[str]]


def facts(row: Row, column: str) -> Mapping[str, Any]:
    """Return how the runs of a cell were trained: its own ``Facts``, and those of its row."""
    return {**row, **row["cells"].get(column, {})}


def title_of(sheet: Sheet, name: str) -> str:
    """Return a row's title; the rows of a curve are values of a key, such as ``k = 1``."""
    title = next((row["title"] for row in sheet["rows"] if row["name"] == name), name)
    return f"{sheet['curve']} = {title}" if sheet.get("curve") else title


def baseline_of(sheet: Sheet, row: Row) -> Row | None:
    """Return the row that a row is compared with; None if it is compared with none."""
    return next((other for other in sheet["rows"] if other["name"] == row["baseline"]), None)


def has_one_baseline(sheet: Sheet) -> bool:
    """Return False if some rows are compared with another row than the sheet's baseline."""
    bases = (baseline_of(sheet, row) for row in sheet["rows"])
    return {base["name"] for base in bases if base} <= {sheet["baseline"]}


def compared_title(sheet: Sheet, row: Row) -> str:
    """Return a row's title, with that of its baseline where rows have different ones."""
    base = baseline_of(sheet, row)
    if base is None or has_one_baseline(sheet):
        return row["title"]
    return f"{row['title']}, to {base['title']}"


def titles(sheet: Sheet) -> list[str]:
    """Return the titles of the columns: ``sst accuracy``, ..., ``mean``."""
    return [column["title"] for column in sheet["columns"].values()]


def tasks(sheet: Sheet) -> list[str]:
    """Return the names of the columns of tasks."""
    return [name for name, column in sheet["columns"].items() if column.get("task")]


def printed_difference(cell: Cell | None, base: Cell | None) -> float | None:
    """Return the paper's difference of two cells; None if one of them is not printed."""
    printed, other = (each.get("printed") if each else None for each in (cell, base))
    # 55.32 - 53.59 is 1.73 in decimals, and 1.7300000000000004 in floats
    return None if printed is None or other is None else round(printed - other, 6)


def best_of(means: Sequence[float]) -> float | None:
    """Return the largest of several means; None if there are fewer than two."""
    return max(means) if len(means) > 1 else None


def several_seeds(cells: Iterable[Any]) -> bool:
    """Return True if every defined score is of several seeds, so that it has a deviation."""
    return all(each["sd"] is not None for each in cells if each and each["mean"] is not None)


def rows_only(difference: Difference) -> bool:
    """Return True if the interval is of the rows alone, since one side has one seed."""
    return difference["p_holm"] is None and difference["low"] is not None
