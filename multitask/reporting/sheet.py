# Tested by tests/reporting/test_write_sheet.py
"""The tables of results as plain data: the keys of ``comparison.json`` and ``paper.json``.

docs/comparing.md and docs/glue.md describe them. A score, or a number that follows from scores, is
None if it is undefined. Scores of a paper's table are in percent.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from multitask.store.files import read_json
from multitask.store.outputs import check_replaced, has_keys
from multitask.utils.errors import UserError

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


FACTS, PAGE = "comparison.json", "report.html"
CURVES, GAPS = "curves.png", "gaps.png"
NAMES = ("table.md", "table.csv", "table.tex", "figure.png", CURVES, GAPS, PAGE)
# the content security policy of every page of ours, and the bytes in which it is
POLICY = b"default-src 'none'; img-src data:; style-src 'unsafe-inline'"
HEAD = 1000


def check_comparison(directory: Path) -> None:
    """Raise UserError if a comparison would replace files that none has written."""
    check_replaced(directory / FACTS, ("baseline", "groups"), NAMES)
    page = directory / PAGE
    if page.is_file() and not page.is_symlink() and not is_page(page):
        raise UserError(f"{page} was not written by this command: choose another --output DIR")


def compared_rows(directory: Path) -> list[str]:
    """Return the names of the rows that a directory's comparison has; none without one."""
    if not has_keys(directory / FACTS, ("groups",)):
        return []
    groups = read_json(directory / FACTS)["groups"]
    named = groups if isinstance(groups, list) else []
    return [str(group["name"]) for group in named if isinstance(group, dict) and "name" in group]


def is_page(file: Path) -> bool:
    """Return True for a page that this program has written, or an earlier version of it."""
    with file.open("rb") as opened:
        return POLICY in opened.read(HEAD)


def entries(comparison: Comparison, group: Columns) -> list[Scores | None]:
    """Return the entry of a group, or of its holdout, per column: the tasks, then overall."""
    return [*(group["tasks"].get(task) for task in comparison["tasks"]), group["overall"]]


def columns(comparison: Comparison) -> list[str]:
    """Return the titles of the columns: ``sst accuracy``, ..., ``mean``."""
    kinds = comparison["tasks"].items()
    return [*(f"{task} {kind['metric']}" for task, kind in kinds), "mean"]


def differences(comparison: Comparison) -> dict[str, list[Difference | None]]:
    """Return the differences per column of each group that can be compared with the baseline."""
    by_group = {
        group["name"]: [entry and entry.get("difference") for entry in entries(comparison, group)]
        for group in comparison["groups"]
    }
    return {name: row for name, row in by_group.items() if any(row)}


def best_of(means: Sequence[float]) -> float | None:
    """Return the largest of several means; None if there are fewer than two."""
    return max(means) if len(means) > 1 else None


def several_seeds(scores: Iterable[MeanScore | None]) -> bool:
    """Return True if every defined score is of several seeds, so that it has a deviation."""
    return all(e["sd"] is not None for e in scores if e and e["mean"] is not None)


def rows_only(difference: Difference) -> bool:
    """Return True if the interval is of the rows alone, since one side has one seed."""
    return difference["p_holm"] is None and difference["low"] is not None
