# Tested by tests/commands/test_report.py
"""Compare finished runs."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from multitask.reporting.sheet import Comparison
from multitask.store.prepare_run import check_no_run
from multitask.utils.errors import UserError, reading
from multitask.utils.paths import expand_home

Directory = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Report:
    """A comparison of runs. Print it to see the table.

    Attributes:
        comparison: the scores, differences and intervals, as in ``comparison.json``
            (docs/comparing.md).
        page: the table as text.
        files: the files that were written.
    """

    comparison: Comparison
    page: str
    files: list[Path]

    def __repr__(self) -> str:
        return self.page


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
    from multitask.reporting.sheet import check_comparison
    from multitask.reporting.sheet_tables import terminal_page
    from multitask.reporting.write_sheet import write_comparison

    if isinstance(runs, str | os.PathLike):
        raise UserError(f"runs: expected a list of run directories, not {os.fspath(runs)!r}")
    directories = [expand_home(os.fspath(run)) for run in runs]
    if not directories:
        raise UserError("runs: expected at least one run directory")
    place = None if output is None else expand_home(os.fspath(output))
    if place is not None:
        check_no_run(place)
        check_comparison(place)
    with reading(", ".join(map(str, directories))):  # damaged files lack keys
        groups = group_runs(directories)
        comparison = compare(groups, baseline or groups[0].name)
        page = terminal_page(comparison)
    if place is None:
        return Report(comparison, page, [])
    check_no_run(place)  # again: comparing takes a while
    return Report(comparison, page, write_comparison(place, comparison))
