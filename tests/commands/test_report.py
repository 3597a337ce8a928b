"""`report RUN...` in a separate process, and its error messages."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import multitask
from multitask.reporting.sheet import MEAN
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.fabricated_run import write_run
from tests.support.messages import complaint


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    """Two settings with two seeds each."""
    root = tmp_path_factory.mktemp("runs")
    result = []
    for name, noise in (("mean", 0.4), ("max", 0.0)):
        for seed in (1, 2):
            result.append(root / f"{name}-{seed}")
            write_run(result[-1], rows=60, seed=seed, noise=noise, pooling=name)
    return result


def test_a_process_prints_the_table_and_writes_the_files(runs, tmp_path):
    """Without torch: the answer comes in a moment."""
    output = tmp_path / "comparison"
    command = [sys.executable, "-X", "importtime", ROOT / "run_multitask.py", "report", *runs]
    command += ["--baseline", "max", "--output", output]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " torch\n" not in result.stderr and " transformers\n" not in result.stderr
    lines = result.stdout.splitlines()
    assert lines[1].split() == "group seeds sst accuracy para accuracy sts pearson mean".split()
    assert [line.split()[:2] for line in lines[3:5]] == [["mean", "2"], ["max", "2"]]
    assert "Difference to max, its 95 % interval, Holm's p:" in lines
    written = [line.removeprefix("written: ") for line in lines if line.startswith("written: ")]
    assert {Path(file).name for file in written} == {path.name for path in output.iterdir()}
    comparison = json.loads((output / "comparison.json").read_text())
    assert comparison["baseline"] == "max" and comparison["resamples"] == 2000
    mean = comparison["rows"][0]["cells"][MEAN]["difference"]
    assert mean["high"] < 0 and mean["p_holm"] < 0.05
    rows = list(csv.DictReader((output / "table.csv").open()))
    assert list(dict.fromkeys(row["row"] for row in rows)) == ["mean", "max"]


def test_without_output_it_prints_only_and_says_how_to_write(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main("report", *runs) == 0
    text = capsys.readouterr().out
    assert "Difference to mean" in text  # the first group is the baseline
    assert "--output DIR" in text
    assert not list(tmp_path.iterdir())


def test_one_run_is_one_row(runs, capsys):
    assert main("report", runs[0]) == 0
    text = capsys.readouterr().out
    assert "Difference" not in text
    assert text.splitlines()[3].split()[:2] == ["mean", "1"]


def test_bad_input_is_answered_in_one_line(runs, tmp_path, capsys):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.yaml").write_text("seed: 3\ntasks: {}\n")
    write_run(tmp_path / "smaller", rows=50)
    (tmp_path / "file").write_text("")
    for given, part in (
        (["--baseline", "maxx"], "'maxx'"),
        ([tmp_path / "unfinished"], "report.json"),
        ([tmp_path / "smaller"], f"sst: {runs[0]} and {tmp_path / 'smaller'}"),
        (["--output", tmp_path / "file"], "file is a file"),
    ):
        assert part in complaint(capsys, "report", runs[0], *given)


def test_python_gets_the_table_and_what_is_written(runs, tmp_path, capsys):
    assert main("report", *runs) == 0
    printed = capsys.readouterr().out
    made = multitask.report(runs)
    assert printed.startswith(f"{made!r}\n") and made.files == []
    made = multitask.report(map(str, runs), "max", output=tmp_path / "out")
    assert {file.name for file in made.files} == {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == made.comparison
    assert not capsys.readouterr().out
    for wrong in (str(runs[0]), []):
        with pytest.raises(multitask.UserError, match="runs: expected"):
            multitask.report(wrong)
