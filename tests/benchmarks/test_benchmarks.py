"""Each benchmark can be imported and shows its help; the Makefile names benchmarks that exist."""

import importlib
import re

import pytest

from tests.conftest import ROOT

FILES = sorted((ROOT / "benchmarks").glob("*.py"))
# the others are what several benchmarks use
BENCHMARKS = [file.stem for file in FILES if "\ndef main() -> None:" in file.read_text()]


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
