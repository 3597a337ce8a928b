# Tested by tests/commands/test_report.py
"""Compare finished runs."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from multitask.api.read_source import check_list
from multitask.reporting.sheet import Sheet
from multitask.reporting.table_formats import Printed
from multitask.store.outputs import check_output
from multitask.utils.errors import UserError, reading
from multitask.utils.paths import expand_home

Directory = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Report(Printed):
    """A comparison of runs. Print it to see the table.

    Attributes:
        comparison: the scores, differences and intervals, a sheet, as in ``comparison.json``
            (docs/comparing.md).
        files: the files that were written.
    """

    comparison: Sheet
    files: list[Path]


def report(
    runs: Iterable[Directory], baseline: str | None = None, *, output: Directory | None = None
) -> Report:
    """Compare finished runs; runs that differ only in their seed make one row.

    Args:
        runs: the run directories.
        baseline: the row that the others are compared with; default: the first.
        output: the directory for ``report.html``, tables and figures; None: write nothing.

    Raises:
        UserError: a run is not finished or was scored on other rows; no such row; ``output`` holds
            a run or files of another program.
    """
    from multitask.reporting.compare import compare
    from multitask.reporting.read_runs import group_runs
    from multitask.reporting.sheet_tables import terminal_page
    from multitask.reporting.write_sheet import write_sheet

    check_list("runs", runs)
    directories = [expand_home(os.fspath(run)) for run in runs]
    if not directories:
        raise UserError("runs: expected at least one run directory")
    place = None if output is None else expand_home(os.fspath(output))
    if place is not None:
        check_output(place)
    with reading(", ".join(map(str, directories))):  # damaged files lack keys
        groups = group_runs(directories)
        comparison = compare(groups, baseline or groups[0].name)
        page = terminal_page(comparison)
    return Report(page, comparison, [] if place is None else write_sheet(place, comparison))
