"""Fill a paper's table with our finished runs: printed values, our scores, averages and times.

Each column is a comparison of ``multitask.reporting.comparison.compare``.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from multitask.config.run_directory import RunDirectory
from multitask.reporting.comparison.compare import Group, compare
from multitask.reporting.comparison.notes import run_notes, score_notes
from multitask.reporting.comparison.times import median_of
from multitask.reporting.paper.layout import Column, Layout
from multitask.utils.errors import UserError, suggest
from multitask.utils.files import without_nan

# the columns that GLUE averages per task; MNLI's two dev sets are one task
GLUE_METRICS = {
    "cola": {"cola mcc"},
    "sst2": {"sst2 accuracy"},
    "mrpc": {"mrpc accuracy", "mrpc f1"},
    "qqp": {"qqp accuracy", "qqp f1"},
    "stsb": {"stsb pearson", "stsb spearman"},
    "mnli": {"mnli accuracy", "mnli_mm accuracy"},
    "qnli": {"qnli accuracy"},
    "rte": {"rte accuracy"},
    "wnli": {"wnli accuracy"},
}
# per row its sets of runs, one directory per seed; each set of a row has other tasks
Rows = Mapping[str, Sequence[Sequence[Path]]]
Average = Callable[[Sequence[float | None]], float | None]


def columns_average(values: Sequence[float | None]) -> float | None:
    """Average a row's columns, as MaxPoolBERT's "GLUE avg." (Table 4). None without values."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def official_average(columns: Sequence[Column], values: Sequence[float | None]) -> float | None:
    """Compute GLUE's score: the mean over tasks of the mean over each task's metrics.

    MNLI matched and mismatched are one task. None without values.
    """
    tasks: dict[str, list[float]] = {}
    for column, value in zip(columns, values, strict=True):
        if value is not None:
            tasks.setdefault(column.of or column.task, []).append(value)
    return statistics.fmean(map(statistics.fmean, tasks.values())) if tasks else None


def paper_table(
    layout: Layout, rows: Rows, *, notes: Sequence[str] = (), resamples: int = 2000
) -> dict[str, Any]:
    """Fill the table; plain JSON values, whose keys docs/glue.md describes. Scores are in percent.

    ``notes`` precede the notes about the runs.

    Raises:
        UserError: no runs, no column that they have, a row with a task twice, a task without the
            column's metric, and whatever ``compare`` refuses.
    """
    runs_of = [_of(column, layout, rows) for column in layout.columns]
    names = list(dict.fromkeys([*layout.rows, *(name for named in runs_of for name in named)]))
    reports = {
        run: RunDirectory(run).load_report()
        for sets in rows.values()
        for runs in sets
        for run in runs
    }
    if not names:
        start = layout.columns[0].cells
        raise UserError(f"{layout.title}: no run is of a cell {start}-..., as the columns want")
    baseline = layout.baseline or names[0]
    if baseline not in names:
        raise UserError(f"{layout.title}: baseline: no row {baseline!r}{suggest(baseline, names)}")
    cells: dict[str, list[dict[str, Any] | None]] = {name: [] for name in names}
    used: dict[Path, None] = {}
    undefined: list[str] = []
    for place, column in enumerate(layout.columns):
        scores = _column(column, runs_of[place], reports, baseline=baseline, resamples=resamples)
        runs = [run for score in scores.values() for run in map(Path, score["runs"])]
        used |= dict.fromkeys(runs)
        undefined += score_notes([(run, _under(column, reports[run])) for run in runs])
        for name in names:
            row = layout.rows.get(name)
            printed = row.printed[place] if row and row.printed else None
            cells[name].append(_cell(scores.get(name), printed, layout.statistic))
    if not any(runs_of) and rows:
        raise UserError(f"{layout.title}: no run is of a row of it; they are {', '.join(rows)}")
    if not any(cell and cell["values"] for line in cells.values() for cell in line):
        tasks = dict.fromkeys(task for report in reports.values() for task in report["tasks"])
        raise UserError(f"{layout.title}: no run has a column's task; they have {', '.join(tasks)}")
    table = {
        "format": 1,
        "title": layout.title,
        "source": layout.source,
        "statistic": layout.statistic,
        "baseline": baseline,
        "baseline_title": _title(layout, baseline),
        "curve": layout.curve,
        "resamples": resamples,
        "columns": [column.model_dump() for column in layout.columns],
        "rows": [
            {"name": name, "title": _title(layout, name), "cells": cells[name]} for name in names
        ],
        "averages": _averages(layout, cells) if layout.averages else [],
        "notes": [*notes, *run_notes([(run, reports[run]) for run in used]), *undefined],
    }
    result: dict[str, Any] = without_nan(table)
    return result


def _title(layout: Layout, row: str) -> str:
    return (layout.rows[row].title if row in layout.rows else None) or row


def _under(column: Column, report: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a report to the column's task and metric."""
    return {"tasks": {column.task: {**report["tasks"][column.task], "metric": column.metric}}}


def _of(column: Column, layout: Layout, rows: Rows) -> Rows:
    """Return the runs that a column is about, under the names of the table's rows."""
    start = f"{column.cells}-" if column.cells else ""
    named = {n.removeprefix(start): sets for n, sets in rows.items() if n.startswith(start)}
    return {n: sets for n, sets in named.items() if layout.other_rows or n in layout.rows}


def _column(
    column: Column,
    rows: Rows,
    reports: Mapping[Path, Mapping[str, Any]],
    *,
    baseline: str,
    resamples: int,
) -> dict[str, dict[str, Any]]:
    """Compare the rows that have the column's task; return each row's score."""
    groups = []
    for name, sets in rows.items():
        having = [runs for runs in sets if runs and column.task in reports[runs[0]]["tasks"]]
        if len(having) > 1:
            first, second = having[0][0], having[1][0]
            raise UserError(f"{name} has the task {column.task} twice: {first} and {second}")
        groups += [Group(name, list(runs)) for runs in having]
    for group in groups:
        for run in group.runs:
            if column.metric not in reports[run]["tasks"].get(column.task, {}).get("dev", {}):
                message = f"{run}: no {column.metric} of {column.task}: it is of other labels, or "
                raise UserError(message + "the run is older than the metric")
    if not groups:
        return {}
    present = baseline in [group.name for group in groups]
    against = baseline if present else groups[0].name
    made = compare(groups, against, metrics={column.task: column.metric}, resamples=resamples)
    scores = {}
    for group, entry in zip(groups, made["groups"], strict=True):
        score = dict(entry["tasks"][column.task])
        score["difference"] = score["difference"] if present else None
        score |= {key: entry[key] for key in ("runs", "seeds")}
        data = reports[group.runs[0]]["tasks"][column.task]["data"]
        score["train_rows"] = data["train"]["rows"] if "train" in data else None
        score |= _times([reports[run] for run in group.runs], column.task)
        scores[group.name] = score
    return scores


def _times(reports: Sequence[Mapping[str, Any]], task: str) -> dict[str, float | None]:
    """Return the median seconds of an epoch and of scoring dev; None if a run lacks them."""
    epoch = [report.get("epoch_seconds") for report in reports]
    dev = [report.get("dev_seconds", {}).get(task) for report in reports]
    return {"epoch_seconds": median_of(epoch), "dev_seconds": median_of(dev)}


def _cell(
    score: Mapping[str, Any] | None, printed: float | None, statistic: str
) -> dict[str, Any] | None:
    """Build a cell in percent: our statistic and its parts, and the printed value."""
    if score is None:
        return None if printed is None else {"values": [], "shown": None, "printed": printed}
    values = [None if value is None else 100 * value for value in score["values"]]
    known = [value for value in values if value is not None]
    complete = len(known) == len(values)
    percent = {key: _percent(score[key]) for key in ("mean", "sd", "low", "high")}
    median = statistics.median(known) if complete else None
    difference = score["difference"]
    if difference is not None:
        scaled = {key: _percent(difference[key]) for key in ("value", "low", "high")}
        difference = {**difference, **scaled}
    return {
        "values": values,
        "runs": score["runs"],
        "seeds": score["seeds"],
        **percent,
        "median": median,
        "shown": {**percent, "median": median}[statistic],
        "difference": difference,
        "train_rows": score["train_rows"],
        "epoch_seconds": score["epoch_seconds"],
        "dev_seconds": score["dev_seconds"],
        "printed": printed,
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _averages(
    layout: Layout, cells: Mapping[str, list[dict[str, Any] | None]]
) -> list[dict[str, Any]]:
    """Compute both averages of every row, over the columns that all rows with runs have."""
    ours = {
        name: [None if cell is None else cell["shown"] for cell in line]
        for name, line in cells.items()
        if any(cell and cell["values"] for cell in line)
    }

    def shared(places: Sequence[int]) -> list[int]:
        return [i for i in places if all(line[i] is not None for line in ours.values())]

    def over(title: str, places: Sequence[int], average: Average) -> dict[str, Any]:
        theirs = {
            name: [row.printed[i] for i in places] if row.printed else [None]
            for name, row in layout.rows.items()
        }
        return {
            "title": title,
            "columns": [layout.columns[i].title for i in places],
            "values": {name: average([line[i] for i in places]) for name, line in ours.items()},
            # of printed values only where all of them are printed
            "printed": {n: None if None in line else average(line) for n, line in theirs.items()},
        }

    plain = [place for place, column in enumerate(layout.columns) if column.averaged is True]
    means, tasks = shared(plain), shared([i for i, c in enumerate(layout.columns) if c.averaged])
    title = f"mean of {len(means)} of {len(plain)} columns"
    if isinstance(layout.averages, str):
        title = f"{layout.averages} ({title})"
    columns = [layout.columns[i] for i in tasks]
    return [
        over(title, means, columns_average),
        over(_official_title(columns), tasks, partial(official_average, columns)),
    ]


def _official_title(columns: Sequence[Column]) -> str:
    """Name the average after GLUE only if each task has all the metrics that GLUE averages."""
    averaged: dict[str, set[str]] = {}
    for column in columns:
        averaged.setdefault(column.of or column.task, set()).add(f"{column.task} {column.metric}")
    if all(GLUE_METRICS.get(task) == metrics for task, metrics in averaged.items()):
        return f"official average, {len(averaged)} of 9 tasks"
    return f"mean over {len(averaged)} tasks, not GLUE's own average"
