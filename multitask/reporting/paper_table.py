"""Fill a paper's table with our finished runs: printed values, our scores, averages and times.

Each column is scored as one of ``multitask.reporting.compare``.
"""

import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from multitask.reporting import layout as layouts
from multitask.reporting.compare import load_reports
from multitask.reporting.layout import Layout
from multitask.reporting.notes import run_notes, score_notes
from multitask.reporting.read_runs import Group, run_config
from multitask.reporting.sheet import FORMAT, Cell, Column, Row, Score, Sheet
from multitask.reporting.statistics import read_split, scored_groups, task_column
from multitask.reporting.training_facts import cell_facts
from multitask.reporting.verdicts import verdicts
from multitask.store.files import without_nan
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.utils.errors import UserError, suggest

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
        raise UserError(f"{layout.title}: no run is of a row or of the `cells` that it names")
    baseline, baselines = layout.baselines(names)
    if baseline not in names:
        raise UserError(f"{layout.title}: baseline: no row {baseline!r}{suggest(baseline, names)}")
    reports = {run: RunDirectory(run).load_report() for run in chain(*chain(*rows.values()))}
    filled: dict[str, Row] = {
        name: {
            "name": name,
            "title": (layout.rows[name].title if name in layout.rows else None) or name,
            "baseline": baselines[name],
            "cells": {},
        }
        for name in names
    }
    used: dict[Path, None] = {}
    undefined: list[str] = []
    for place, column in enumerate(layout.columns):
        groups = _groups(column, runs_of[place], reports)
        cells = _scored(column, groups, baselines, resamples)
        runs = [Path(run) for cell in cells.values() for run in cell["runs"]]
        used |= dict.fromkeys(runs)
        undefined += score_notes([(run, _under(column, reports[run])) for run in runs])
        for name, row in filled.items():
            of_row = layout.rows.get(name)
            printed = of_row.printed[place] if of_row and of_row.printed else None
            if name in cells or printed is not None:
                row["cells"][column.title] = {**cells.get(name, {"values": []}), "printed": printed}
    if not used:
        tasks = dict.fromkeys(task for report in reports.values() for task in report.tasks)
        why = f"no run has a column's task; they have {', '.join(tasks)}"
        if not any(runs_of) and rows:
            why = f"no run is of a row of it; they are {', '.join(rows)}"
        raise UserError(f"{layout.title}: {why}")
    columns: dict[str, Any] = {
        column.title: _fill_mean(layout, place, filled)
        if column.mean
        else column.model_dump(exclude={"mean"})
        for place, column in enumerate(layout.columns)
    }
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
    column: layouts.Column,
    groups: Sequence[Group],
    baselines: Mapping[str, str | None],
    resamples: int,
) -> dict[str, Cell]:
    """Return the cell of each row in percent, by the name of the row.

    There is no difference to a baseline that the column lacks.
    """
    task, names = column.task, [group.name for group in groups]
    places = [names.index(base) if (base := baselines[name]) in names else None for name in names]
    loaded = load_reports(groups)
    measured = [[(run, _under(column, report)) for run, report in runs] for runs in loaded]
    sets = read_split(task, measured, "dev")
    scored = scored_groups(task_column(task, measured, sets, resamples, split="dev"), places)
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


def _fill_mean(layout: Layout, place: int, rows: Mapping[str, Row]) -> Column:
    """Add a column's mean of the columns before it to every row; return the column."""
    mean = layout.columns[place]
    before = [i for i, column in enumerate(layout.columns[:place]) if not column.mean]
    lines = [row.printed for row in layout.rows.values() if row.printed]
    if mean.mean == "columns" and lines:
        before = [i for i in before if any(line[i] is not None for line in lines)]
    titles = [column.title for column in layout.columns]
    ours: dict[str, list[float | None]] = {}
    for name, row in rows.items():
        cells: Any = row["cells"]
        if any(cell["values"] for cell in cells.values()):
            found = (cells.get(title) for title in titles)
            ours[name] = [cell and cell.get(layout.statistic) for cell in found]
    shared = [i for i in before if all(line[i] is not None for line in ours.values())]
    tasks: list[object] = [layout.columns[i].of or layout.columns[i].task for i in shared]
    tasks = [*shared] if mean.mean == "columns" else tasks
    for name, row in rows.items():
        line = layout.rows[name].printed if name in layout.rows else []
        printed = line[place] if line and shared == before else None
        if line and printed is None:  # only where all are printed
            values = [line[i] for i in shared]
            printed = None if None in values else average(tasks, values)
        value = average(tasks, [ours[name][i] for i in shared]) if name in ours else None
        shown: Any = {layout.statistic: value}
        row["cells"][mean.title] = {"values": [], "printed": printed, **shown}
    part = "" if shared == before else f" ({len(shared)} of {len(before)} columns)"
    return {"title": mean.title + part, "over": [titles[i] for i in shared]}
