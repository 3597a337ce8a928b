"""Fill a paper's table with our finished runs: printed values, our scores, averages and times.

Each column is a comparison of ``multitask.reporting.compare``.
"""

import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from multitask.reporting.compare import load_reports, score_columns
from multitask.reporting.layout import Column, Layout, Row
from multitask.reporting.notes import (
    median_of,
    rows_trained_for,
    run_notes,
    score_notes,
    train_rows,
    training_of,
)
from multitask.reporting.read_runs import Group, run_config
from multitask.reporting.sheet import (
    Difference,
    PaperAverage,
    PaperCell,
    PaperTable,
    Score,
)
from multitask.reporting.statistics import scored_groups
from multitask.reporting.verdicts import paper_verdicts, updates
from multitask.store.files import without_nan
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.utils.errors import UserError, suggest

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


def paper_table(
    layout: Layout, rows: Rows, *, notes: Sequence[str] = (), resamples: int = 2000
) -> PaperTable:
    """Fill the table.

    ``notes`` precede the notes about the runs.

    Raises:
        UserError: no runs, no column that they have, a row with a task twice, a task without the
            column's metric, and whatever ``compare`` refuses.
    """
    runs_of = [_of(column, layout, rows) for column in layout.columns]
    names = list(dict.fromkeys([*layout.rows, *chain(*runs_of)]))
    reports = {run: RunDirectory(run).load_report() for run in chain(*chain(*rows.values()))}
    baseline, baselines = _baselines(layout, names)
    cells: dict[str, list[PaperCell | None]] = {name: [] for name in names}
    used: dict[Path, None] = {}
    undefined: list[str] = []
    for place, column in enumerate(layout.columns):
        groups = _groups(column, runs_of[place], reports)
        compared = _column(
            column, groups, reports, layout.statistic, baselines=baselines, resamples=resamples
        )
        runs = [Path(run) for cell in compared.values() for run in cell["runs"]]
        used |= dict.fromkeys(runs)
        undefined += score_notes([(run, _under(column, reports[run])) for run in runs])
        for name in names:
            row, cell = layout.rows.get(name), compared.get(name)
            printed = row.printed[place] if row and row.printed else None
            if cell is None and printed is not None:
                cell = {"values": [], "shown": None, "printed": None}
            cells[name].append(cell and {**cell, "printed": printed})
    if not used:
        raise UserError(f"{layout.title}: {_why_no_run(runs_of, rows, reports)}")
    titles = {name: _title(layout, name) for name in names}
    made = layout.model_dump(include={"paper", "columns"})
    table: PaperTable = {
        "format": 1,
        "title": layout.title,
        "source": layout.source,
        "paper": made["paper"],
        "statistic": layout.statistic,
        "baseline": baseline,
        "baseline_title": titles[baseline],
        "margin": layout.margin,
        "curve": layout.curve,
        "resamples": resamples,
        "columns": made["columns"],
        "rows": [
            {"name": n, "title": titles[n], "baseline": baselines[n], "cells": cells[n]}
            for n in names
        ],
        "averages": averages(layout, cells) if layout.averages else [],
        "notes": [*notes, *run_notes([(run, reports[run]) for run in used]), *undefined],
    }
    table = without_nan(table)
    return {**table, "verdicts": paper_verdicts(table)}


def _baselines(layout: Layout, names: list[str]) -> tuple[str, dict[str, str | None]]:
    """Return the baseline of rows that name none, and that of each row."""
    if not names:
        start = layout.columns[0].cells
        raise UserError(f"{layout.title}: no run is of a cell {start}-..., as the columns want")
    baseline = layout.first_baseline(names)
    if baseline not in names:
        raise UserError(f"{layout.title}: baseline: no row {baseline!r}{suggest(baseline, names)}")
    return baseline, layout.baselines(names)


def _why_no_run(runs_of: Sequence[Rows], rows: Rows, reports: Reports) -> str:
    if not any(runs_of) and rows:
        return f"no run is of a row of it; they are {', '.join(rows)}"
    tasks = dict.fromkeys(task for report in reports.values() for task in report.tasks)
    return f"no run has a column's task; they have {', '.join(tasks)}"


def _title(layout: Layout, row: str) -> str:
    return (layout.rows[row].title if row in layout.rows else None) or row


def _under(column: Column, report: RunReport) -> RunReport:
    """Reduce a report to the column's task and metric."""
    return report.with_tasks({column.task: report.tasks[column.task].by(column.metric)})


def _of(column: Column, layout: Layout, rows: Rows) -> Rows:
    """Return the runs that a column is about, under the names of the table's rows."""
    start = f"{column.cells}-" if column.cells else ""
    named = {n.removeprefix(start): sets for n, sets in rows.items() if n.startswith(start)}
    return {n: sets for n, sets in named.items() if layout.takes_other_rows or n in layout.rows}


def _groups(column: Column, rows: Rows, reports: Reports) -> list[Group]:
    """Return the runs of each row that has the column's task. Raises UserError, see above."""
    groups = []
    for name, sets in rows.items():
        having = [runs for runs in sets if runs and column.task in reports[runs[0]].tasks]
        if len(having) > 1:
            first, second = having[0][0], having[1][0]
            raise UserError(f"{name} has the task {column.task} twice: {first} and {second}")
        groups += [Group(name, list(runs)) for runs in having]
    load_reports(groups)  # seeds of one setting
    for run in chain.from_iterable(group.runs for group in groups):
        entry = reports[run].tasks.get(column.task)
        if entry is None or column.metric not in entry.dev:
            message = f"{run}: no {column.metric} of {column.task}: it is of other labels, or "
            raise UserError(message + "the run is older than the metric")
    return groups


def _column(
    column: Column,
    groups: Sequence[Group],
    reports: Reports,
    statistic: str,
    *,
    baselines: Mapping[str, str | None],
    resamples: int,
) -> dict[str, PaperCell]:
    """Compare the rows; return the cell of each in percent: our statistic and its parts.

    There is no difference to a baseline that the column lacks.
    """
    if not groups:
        return {}
    task, names = column.task, [group.name for group in groups]
    against = [baselines[name] for name in names]
    places = [names.index(name) if name in names else None for name in against]
    loaded = load_reports(groups, {task: column.metric})
    scored = scored_groups(score_columns(loaded, resamples)[1][task], places)
    cells: dict[str, PaperCell] = {}
    for group, sorted_runs, score in zip(groups, loaded, without_nan(scored), strict=True):
        runs = [reports[run] for run in group.runs]
        run_config(group.runs[0])  # it warns of a config that was changed
        values = [_percent(value) for value in score["values"]]
        shown = {
            "mean": _percent(score["mean"]),
            "sd": _percent(score["sd"]),
            "median": None if None in values else statistics.median(values),
        }
        cells[group.name] = {
            "values": values,
            "runs": [str(run) for run, _ in sorted_runs],
            "seeds": [report.seed for _, report in sorted_runs],
            "mean": shown["mean"],
            "sd": shown["sd"],
            "low": _percent(score["low"]),
            "high": _percent(score["high"]),
            "median": shown["median"],
            "shown": shown[statistic],
            "difference": _in_points(score["difference"]),
            "train_rows": train_rows(runs[0], task),
            "training": training_of(group.runs[0], runs[0], task),
            "updates": None if runs[0].probe else updates(runs),
            "trained_rows": rows_trained_for(group.runs[0], runs, task),
            "epoch_seconds": median_of([run.epoch_seconds for run in runs]),
            "dev_seconds": median_of([run.dev_seconds.get(task) for run in runs]),
            "printed": None,
        }
    return cells


def _percent(value: Score) -> Score:
    return None if value is None else 100 * value


def _in_points(difference: Difference | None) -> Difference | None:
    return difference and {
        **difference,
        "value": _percent(difference["value"]),
        "low": _percent(difference["low"]),
        "high": _percent(difference["high"]),
    }


def averages(layout: Layout, cells: Mapping[str, list[PaperCell | None]]) -> list[PaperAverage]:
    """Compute both averages of every row, over the columns that all rows with runs have.

    There is only one if each column is another task and they are not GLUE's.
    """
    ours = {
        name: [None if cell is None else cell["shown"] for cell in line]
        for name, line in cells.items()
        if any(cell and cell["values"] for cell in line)
    }

    def over(
        title: str, places: Sequence[int], tasks: Sequence[object], printed: bool
    ) -> PaperAverage:
        def theirs(row: Row) -> float | None:  # of printed values only where all are printed
            if printed and row.average is not None:
                return row.average
            line = [row.printed[i] for i in places] if row.printed else [None]
            return None if None in line else average(tasks, line)

        return {
            "title": title,
            "columns": [layout.columns[i].title for i in places],
            "values": {n: average(tasks, [line[i] for i in places]) for n, line in ours.items()},
            "printed": {name: theirs(row) for name, row in layout.rows.items()},
        }

    counted = [i for i, column in enumerate(layout.columns) if column.averaged]
    shared = [i for i in counted if all(line[i] is not None for line in ours.values())]
    plain, means = (
        [i for i in places if layout.columns[i].averaged is True] for places in (counted, shared)
    )
    title = f"mean of {len(means)} of {len(plain)} columns"
    if isinstance(layout.averages, str):
        title = f"{layout.averages} ({title})"
    columns = [layout.columns[i] for i in shared]
    tasks = [column.of or column.task for column in columns]
    own_name = isinstance(layout.averages, str)  # the paper's average is the mean of the columns
    by_task = over(_official_title(columns), shared, tasks, not own_name and shared == counted)
    same = means == shared and len(set(tasks)) == len(tasks)
    of_columns = over(title, means, means, own_name and means == plain)
    if same and not by_task["title"].startswith("official"):
        return [of_columns]
    return [of_columns, by_task]


def _official_title(columns: Sequence[Column]) -> str:
    """Name the average after GLUE only if each task has all the metrics that GLUE averages."""
    averaged: dict[str, set[str]] = {}
    for column in columns:
        averaged.setdefault(column.of or column.task, set()).add(f"{column.task} {column.metric}")
    if all(GLUE_METRICS.get(task) == metrics for task, metrics in averaged.items()):
        return f"official average, {len(averaged)} of 9 tasks"
    return f"mean over {len(averaged)} tasks, not GLUE's own average"
