"""Tests of faults count what they inject; the sums are printed at the end (`make faults`)."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from multitask.store.run_directory import RunDirectory

INJECTED: Counter[str] = Counter()
PREFIX = "injected: "


@pytest.fixture
def copy(tiny_run: Path, tmp_path: Path) -> RunDirectory:
    """A finished run that may be changed."""
    return RunDirectory(shutil.copytree(tiny_run, tmp_path / "run"))


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Iterator[Callable[[str], None]]:
    """Return a function that counts one fault of a kind."""
    counted: Counter[str] = Counter()

    def one(kind: str) -> None:
        counted[kind] += 1

    yield one
    for kind, number in counted.items():
        record_property(PREFIX + kind, number)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        for name, number in report.user_properties:
            if name.startswith(PREFIX):
                INJECTED[name.removeprefix(PREFIX)] += int(str(number))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, number in sorted(INJECTED.items()):
        terminalreporter.write_line(f"{number:>6,}  {kind}")
