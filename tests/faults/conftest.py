"""Tests of faults count what they inject; the sums are printed at the end (`make faults`)."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

INJECTED: Counter[str] = Counter()
PREFIX = "injected: "


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
