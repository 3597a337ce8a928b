"""Each benchmark can be imported and shows its help; the Makefile names benchmarks that exist."""

import importlib
import re

import pytest

from tests.conftest import ROOT

SHARED = ("__init__", "course_batches", "our_trainer")  # what several benchmarks use
NAMES = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py"))
BENCHMARKS = [name for name in NAMES if name not in SHARED]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_shows_its_help(name, monkeypatch, capsys):
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        module.main()
    begin = " ".join(module.__doc__.split()[:4])
    assert end.value.code == 0 and begin in " ".join(capsys.readouterr().out.split())


def test_make_bench_names_benchmarks_that_exist():
    text = (ROOT / "Makefile").read_text()
    named = re.findall(r"^BENCHMARKS := (.*)$", text, re.MULTILINE)[0].split()
    named += re.findall(r"-m benchmarks\.(\w+)", text)
    assert named and set(named) <= set(BENCHMARKS)
