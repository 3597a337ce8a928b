"""Fill a paper's table with our finished runs: printed values, our scores, averages and times.

Each column is scored as one of ``multitask.reporting.compare``.
"""

import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from multitask.config.run_directory import RunDirectory
from multitask.config.saved.report_model import RunReport
from multitask.reporting import layout as layouts
from multitask.reporting.compare import load_reports, score_columns
from multitask.reporting.layout import Layout
from multitask.reporting.notes import run_notes, score_notes
from multitask.reporting.read_runs import Group, run_config
from multitask.reporting.sheet import FORMAT, Cell, Column, Row, Score, Sheet
from multitask.reporting.training_facts import cell_facts
from multitask.reporting.verdicts import verdicts
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
Reports = Mapping[Path, RunReport]


def paper_table(
    layout: Layout, rows: Rows, *, notes: Sequence[str] = (), resamples: int = 2000
) -> Sheet:
    """Fill the table.

    ``notes`` precede the notes about the runs.

    Raises:
        UserError: no runs, no column that they have, a row with a task twice, a task without the
            column's metric, and whatever ``compare`` refuses.
    """
    runs_of = [_of(column, layout, rows) for column in layout.columns]
    names = list(dict.fromkeys([*layout.rows, *chain(*runs_of)]))
    if not names:
        start = layout.columns[0].cells
        raise UserError(f"{layout.title}: no run is of a cell {start}-..., as the columns want")
    baseline = layout.first_baseline(names)
    if baseline not in names:
        raise UserError(f"{layout.title}: baseline: no row {baseline!r}{suggest(baseline, names)}")
    reports = {run: RunDirectory(run).load_report() for run in chain(*chain(*rows.values()))}
    baselines = layout.baselines(names)
    filled: dict[str, Row] = {
        name: {
            "name": name,
            "title": _title(layout, name),
            "baseline": baselines[name],
            "cells": {},
        }
        for name in names
    }
    used: dict[Path, None] = {}
    undefined: list[str] = []
    for place, column in enumerate(layout.columns):
        groups = _groups(column, runs_of[place], reports)
        cells = _scored(column.task, column.metric, groups, baselines, resamples)
        runs = [Path(run) for cell in cells.values() for run in cell["runs"]]
        used |= dict.fromkeys(runs)
        undefined += score_notes([(run, _under(column, reports[run])) for run in runs])
        for name, row in filled.items():
            of_row = layout.rows.get(name)
            printed = of_row.printed[place] if of_row and of_row.printed else None
            if name in cells or printed is not None:
                row["cells"][column.title] = {**cells.get(name, {"values": []}), "printed": printed}
    if not used:
        raise UserError(f"{layout.title}: {_why_no_run(runs_of, rows, reports)}")
    columns: dict[str, Any] = {
        column.title: column.model_dump(exclude={"averaged"}) for column in layout.columns
    }
    if layout.averages:
        columns |= _averages(layout, filled)
    paper = layout.paper.model_dump() if layout.paper else {}
    sheet: Sheet = {
        "format": FORMAT,
        "title": layout.title,
        "paper": {"source": layout.source, **paper},
        "statistic": layout.statistic,
        "curve": layout.curve,
        "baseline": baseline,
        "margin": layout.margin,
        "resamples": resamples,
        "confidence": 0.95,
        "columns": columns,
        "rows": [*filled.values()],
        "notes": [*notes, *run_notes([(run, reports[run]) for run in used]), *undefined],
    }
    sheet = without_nan(sheet)
    return {**sheet, "verdicts": verdicts(sheet)}


def _why_no_run(runs_of: Sequence[Rows], rows: Rows, reports: Reports) -> str:
    if not any(runs_of) and rows:
        return f"no run is of a row of it; they are {', '.join(rows)}"
    tasks = dict.fromkeys(task for report in reports.values() for task in report.tasks)
    return f"no run has a column's task; they have {', '.join(tasks)}"


def _title(layout: Layout, row: str) -> str:
    return (layout.rows[row].title if row in layout.rows else None) or row


def _under(column: layouts.Column, report: RunReport) -> RunReport:
    """Reduce a report to the column's task and metric."""
    return report.with_tasks({column.task: report.tasks[column.task].by(column.metric)})


def _of(column: layouts.Column, layout: Layout, rows: Rows) -> Rows:
    """Return the runs that a column is about, under the names of the table's rows."""
    start = f"{column.cells}-" if column.cells else ""
    named = {n.removeprefix(start): sets for n, sets in rows.items() if n.startswith(start)}
    return {n: sets for n, sets in named.items() if layout.takes_other_rows or n in layout.rows}


def _groups(column: layouts.Column, rows: Rows, reports: Reports) -> list[Group]:
    """Return the runs of each row that has the column's task. Raises UserError, see above."""
    groups = []
    for name, sets in rows.items():
        having = [runs for runs in sets if runs and column.task in reports[runs[0]].tasks]
        if len(having) > 1:
            first, second = having[0][0], having[1][0]
            raise UserError(f"{name} has the task {column.task} twice: {first} and {second}")
        groups += [Group(name, list(runs)) for runs in having]
    for run in chain.from_iterable(group.runs for group in groups):
        entry = reports[run].tasks.get(column.task)
        if entry is None or column.metric not in entry.dev:
            message = f"{run}: no {column.metric} of {column.task}: it is of other labels, or "
            raise UserError(message + "the run is older than the metric")
    return groups


def _scored(
    task: str,
    metric: str,
    groups: Sequence[Group],
    baselines: Mapping[str, str | None],
    resamples: int,
) -> dict[str, Cell]:
    """Return the cell of each row in percent, by the name of the row.

    There is no difference to a baseline that the column lacks.
    """
    names = [group.name for group in groups]
    places = [names.index(base) if (base := baselines[name]) in names else None for name in names]
    loaded = load_reports(groups)
    measured = [
        [(run, report.with_tasks({task: report.tasks[task].by(metric)})) for run, report in runs]
        for runs in loaded
    ]
    scored = score_columns(measured, places, resamples)[1].get(task, [])
    cells: dict[str, Cell] = {}
    for name, runs, cell in zip(names, loaded, without_nan(scored), strict=True):
        reports = [report for _, report in runs]
        for key in ("mean", "sd", "low", "high"):
            cell[key] = _percent(cell[key])
        values = cell["values"] = [_percent(value) for value in cell["values"]]
        cell["median"] = None if None in values else statistics.median(values)
        difference = cell["difference"]
        for key in ("value", "low", "high") if difference else ():
            difference[key] = _percent(difference[key])
        cell["runs"] = [str(run) for run, _ in runs]
        cell["seeds"] = [report.seed for report in reports]
        cells[name] = cell | cell_facts(run_config(runs[0][0]), reports, task)
    return cells


def _percent(value: Score) -> Score:
    return None if value is None else 100 * value


def average(tasks: Sequence[object], values: Sequence[float | None]) -> float | None:
    """Return the mean over tasks of the mean over each task's values, as GLUE's score.

    ``tasks`` has the task of each value. If these are all different, it is the plain mean, as
    MaxPoolBERT's "GLUE avg." (Table 4). Values that are None are left out; None without others.
    """
    by_task: dict[object, list[float]] = {}
    for task, value in zip(tasks, values, strict=True):
        if value is not None:
            by_task.setdefault(task, []).append(value)
    return statistics.fmean(map(statistics.fmean, by_task.values())) if by_task else None


def _averages(layout: Layout, rows: Mapping[str, Row]) -> dict[str, Column]:
    """Add both averages to every row, over the columns that all rows with runs have.

    Returns their columns. There is only one if each column is another task and they are not GLUE's.
    """
    ours: dict[str, list[float | None]] = {}
    for name, row in rows.items():
        cells: Any = row["cells"]
        if any(cell["values"] for cell in cells.values()):
            found = (cells.get(column.title) for column in layout.columns)
            ours[name] = [cell and cell.get(layout.statistic) for cell in found]
    made: dict[str, Column] = {}

    def add(title: str, places: Sequence[int], tasks: Sequence[object], *, prints: bool) -> None:
        """``prints``: the average that a row prints is this one."""
        made[title] = {"title": title, "over": [layout.columns[i].title for i in places]}
        for name, row in rows.items():
            of_row, printed = layout.rows.get(name), None
            if of_row and prints and of_row.average is not None:
                printed = of_row.average
            elif of_row and of_row.printed:  # only where all are printed
                values = [of_row.printed[i] for i in places]
                printed = None if None in values else average(tasks, values)
            value = average(tasks, [ours[name][i] for i in places]) if name in ours else None
            if value is not None or printed is not None:
                shown: Any = {layout.statistic: value}
                row["cells"][title] = {"values": [], "printed": printed, **shown}

    counted = [i for i, column in enumerate(layout.columns) if column.averaged]
    shared = [i for i in counted if all(line[i] is not None for line in ours.values())]
    plain, means = (
        [i for i in places if layout.columns[i].averaged is True] for places in (counted, shared)
    )
    title = f"mean of {len(means)} of {len(plain)} columns"
    named = isinstance(layout.averages, str)  # the paper's average is the mean of the columns
    add(
        f"{layout.averages} ({title})" if named else title,
        means,
        means,
        prints=named and means == plain,
    )
    columns = [layout.columns[i] for i in shared]
    tasks = [column.of or column.task for column in columns]
    official = official_title(columns)
    if means != shared or len(set(tasks)) < len(tasks) or official.startswith("official"):
        add(official, shared, tasks, prints=not named and shared == counted)
    return made


def official_title(columns: Sequence[layouts.Column]) -> str:
    """Name the average after GLUE only if each task has all the metrics that GLUE averages."""
    averaged: dict[str, set[str]] = {}
    for column in columns:
        averaged.setdefault(column.of or column.task, set()).add(f"{column.task} {column.metric}")
    if all(GLUE_METRICS.get(task) == metrics for task, metrics in averaged.items()):
        return f"official average, {len(averaged)} of 9 tasks"
    return f"mean over {len(averaged)} tasks, not GLUE's own average"
