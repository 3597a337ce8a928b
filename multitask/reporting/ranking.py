# Tested by tests/commands/test_score.py
"""Rank the prediction files of groups, and say which groups cannot be told apart.

Groups are compared on the same resamples of the rows. Two cannot be told apart if the 95 % interval
of their difference contains 0. The intervals are not corrected for the number of groups.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from multitask.reporting.file_scores import RESAMPLES
from multitask.reporting.html_page import write_html
from multitask.reporting.page import Lines, Page, Section
from multitask.reporting.read_runs import ScoredRows, resampled_metric
from multitask.reporting.sheet import MEAN, Cell
from multitask.reporting.statistics import Resampled, mean_column, scored_groups
from multitask.reporting.table_formats import Table, estimate, score
from multitask.store.files import remove_scraps, write_json, write_text
from multitask.store.outputs import check_output
from multitask.tasks.base import Array
from multitask.tasks.bootstrap import percentiles

EXPLANATIONS = (
    "Groups are ranked by the mean over the tasks, or by the score of the only one. A group that "
    "lacks a score has no rank.",
    "Intervals: 95 %, over rows (bootstrap). Another seed may change a score more than that.",
    "Like: the groups that cannot be told apart from this one. The interval of their difference, "
    "on the same resamples, contains 0. It is not corrected for the number of groups.",
    "Trivial: a guess that knows only the labels of the training file.",
)


Entry = tuple[list[float], Array] | None  # of a column: see ``statistics.Resampled``


@dataclass(frozen=True)
class Submission:
    """What one group handed in.

    Attributes:
        group: its name.
        scored: the predictions of each task that could be read.
        errors: what is wrong with the others, a line each.
    """

    group: str
    scored: Mapping[str, ScoredRows]
    errors: Sequence[str]


class Ranked(TypedDict):
    """A row of the ranking.

    ``cells`` has the score of each task, and the mean of several. ``like`` are the groups that
    cannot be told apart from this one.
    """

    rank: int | None
    group: str
    cells: dict[str, Cell]
    like: list[str]
    errors: list[str]


class Ranking(TypedDict):
    """The content of ranking.json; ``metrics`` and ``trivial`` are by task."""

    format: int
    split: str
    metrics: dict[str, str]
    trivial: dict[str, float]
    rows: list[Ranked]


def rank(
    split: str,
    metrics: Mapping[str, str],
    trivial: Mapping[str, float],
    submissions: Sequence[Submission],
) -> Ranking:
    """Rank groups by the mean of the tasks' metrics, which are in ``metrics``."""
    columns = {task: _column(task, submissions) for task in metrics}
    if len(metrics) > 1:
        columns[MEAN] = mean_column([*columns.values()])
    deciding = [*columns.values()][-1]
    scored = {name: scored_groups(column, [None] * len(column)) for name, column in columns.items()}
    means = [math.nan if entry is None else entry[0][0] for entry in deciding]
    ranks = [
        1 + sum(other > mean for other in means) if math.isfinite(mean) else None for mean in means
    ]
    order = sorted(range(len(means)), key=lambda i: ranks[i] or math.inf)
    rows: list[Ranked] = [
        {
            "rank": ranks[i],
            "group": submissions[i].group,
            "cells": {name: cell for name, cells in scored.items() if (cell := cells[i])},
            "like": [
                submissions[j].group for j in order if j != i and _alike(deciding[i], deciding[j])
            ],
            "errors": [*submissions[i].errors],
        }
        for i in order
    ]
    return {
        "format": 1,
        "split": split,
        "metrics": {**metrics},
        "trivial": {**trivial},
        "rows": rows,
    }


def _column(task: str, submissions: Sequence[Submission]) -> Resampled:
    """Return each group's score and its resampled values [R]; None without a score."""
    scored = [each.scored[task] for each in submissions if task in each.scored]
    if not scored:
        return [None] * len(submissions)
    values = iter(resampled_metric(task, scored, RESAMPLES).T)
    return [
        ([each.scored[task].value()], next(values)) if task in each.scored else None
        for each in submissions
    ]


def _alike(one: Entry, other: Entry) -> bool:
    """Return True if the interval of the difference of two entries of a column contains 0."""
    if one is None or other is None:
        return False
    low, high = percentiles(one[1] - other[1])
    return low <= 0 <= high


def ranking_table(ranking: Ranking) -> Table:
    """Build the table: a row per group, then the trivial baseline."""
    columns = _columns(ranking)
    header = ["rank", "group", *columns.values(), "like", "error"]
    rows = [
        [
            "-" if row["rank"] is None else str(row["rank"]),
            row["group"],
            *(estimate(*_numbers(row, name)) for name in columns),
            ", ".join(row["like"]),
            "; ".join(row["errors"]),
        ]
        for row in ranking["rows"]
    ]
    guess = [score(ranking["trivial"].get(name)) for name in columns]
    return Table(header, [*rows, ["-", "trivial", *guess, "", ""]])


def _columns(ranking: Ranking) -> dict[str, str]:
    """Return the title of each column of scores by its name in ``cells``."""
    titles = {task: f"{task} {metric}" for task, metric in ranking["metrics"].items()}
    return titles | ({MEAN: "mean"} if len(titles) > 1 else {})


def _numbers(row: Ranked, column: str) -> list[float | None]:
    """Return a score and the ends of its interval; None without a score."""
    cell = row["cells"].get(column)
    known = cell is not None and math.isfinite(cell["mean"])
    return [cell["mean"], cell["low"], cell["high"]] if cell and known else [None] * 3


def csv_table(ranking: Ranking) -> Table:
    """Build the table of ranking.csv: numbers in full precision, each in its own column."""
    columns = _columns(ranking)
    bounds = [title for name in columns.values() for title in (name, f"{name} low", f"{name} high")]
    rows = []
    for row in ranking["rows"]:
        numbers = [each for name in columns for each in _numbers(row, name)]
        words = [", ".join(row["like"]), "; ".join(row["errors"])]
        rows.append([row["rank"], row["group"], *numbers, *words])
    return Table(["rank", "group", *bounds, "like", "error"], rows)


def write_ranking(directory: Path, ranking: Ranking) -> list[Path]:
    """Write ranking.json, ranking.csv and ranking.html, and return their paths.

    Raises UserError for a directory of others.
    """
    check_output(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    data, table, page = (directory / f"ranking.{ending}" for ending in ("json", "csv", "html"))
    write_json(data, ranking)  # says whose the files are
    write_text(table, csv_table(ranking).csv())
    sections = [
        Section("Ranking", [ranking_table(ranking)]),
        Section("How to read this", [Lines(EXPLANATIONS)]),
    ]
    count = f"{len(ranking['rows'])} groups, {ranking['split']} rows of "
    summary = count + ", ".join(ranking["metrics"])
    write_html(
        Page(directory, "Ranking of prediction files", summary, sections), page, "base.html.j2"
    )
    return [data, table, page]
