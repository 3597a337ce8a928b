"""`multitask.train`: the weights of the command, callbacks, and what is refused."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

import multitask
from multitask.config import load_config
from multitask.store.files import file_digest
from multitask.store.lock import holder
from multitask.store.run_directory import RunDirectory, step_of
from multitask.utils.errors import TryAgain
from tests.conftest import ROOT

CONFIG = ROOT / "configs" / "cs224n.yaml"
TASKS = ("sst", "qqp", "sts")
NAMES = {"sst": "ids-sst", "qqp": "quora", "sts": "sts"}


def settings(encoder: Path, files: Path) -> list[str]:
    values = [f"data_dir={files}", f"encoder.name={encoder}", "training.epochs=2"]
    values += ["training.precision=fp32", "training.frozen_baseline=false"]
    return [*values, *(f"tasks.{task}.max_length=48" for task in TASKS)]


@pytest.fixture(scope="module")
def values(tiny_encoder: Path, course_files: Path) -> list[str]:
    """Overrides that make configs/cs224n.yaml a run of seconds."""
    return settings(tiny_encoder, course_files)


@pytest.fixture(scope="module")
def commanded(values, tmp_path_factory) -> dict[str, str]:
    """The checksums of the weights and predictions of the command, in a process of its own."""
    run = tmp_path_factory.mktemp("commanded") / "run"
    command = [sys.executable, ROOT / "run_multitask.py", CONFIG, *values, f"output_dir={run}"]
    subprocess.run(command, check=True, capture_output=True)
    return digests(run)


def digests(directory: Path) -> dict[str, str]:
    run = RunDirectory(directory)
    files = [*run.weights.glob("*.safetensors"), *run.predictions.iterdir()]
    assert len(files) > len(TASKS)
    return {file.name: file_digest(file) for file in files}


def table(directory: Path, task: str, split: str) -> list[dict[str, str]]:
    """The rows of a course file."""
    name = f"{NAMES[task]}-{'test-student' if split == 'test' else split}.csv"
    with (directory / name).open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened, delimiter="\t"))
    return [{key: value for key, value in row.items() if key} for row in rows]


def test_two_calls_on_a_path_give_the_weights_of_the_command(values, commanded, tmp_path):
    for name in ("first", "second"):
        run = multitask.train(CONFIG, [*values, f"output_dir={tmp_path / name}"])
        assert run.directory == tmp_path / name and run.tasks == list(TASKS)
        assert digests(run.directory) == commanded


def test_a_dict_gives_the_weights_of_the_command(tiny_encoder, course_files, commanded, tmp_path):
    config = {
        "extends": CONFIG,
        "data_dir": course_files,
        "output_dir": tmp_path / "run",
        "encoder": {"name": tiny_encoder},
        "training": {"epochs": 2, "precision": "fp32", "frozen_baseline": False},
        "defaults": {"max_length": 48},
    }
    assert digests(multitask.train(config).directory) == commanded


def test_rows_give_the_weights_of_the_command(
    values, commanded, course_files, tmp_path, monkeypatch
):
    """Each task has its rows in another form; the run is resumed, loaded and evaluated as well."""
    tables = {t: {s: table(course_files, t, s) for s in ("train", "dev", "test")} for t in TASKS}
    rows = {
        "sst": tables["sst"],
        "qqp": {
            split: {key: [row[key] for row in rows] for key in rows[0]}
            for split, rows in tables["qqp"].items()
        },
        "sts": {split: datasets.Dataset.from_list(rows) for split, rows in tables["sts"].items()},
    }
    monkeypatch.chdir(tmp_path)
    without_files = ["data_dir=.", *values[1:], "output_dir=runs/a"]
    run = multitask.train(CONFIG, without_files, rows=rows)
    assert digests(run.directory) == commanded
    saved = {path.name: path.stat().st_mtime_ns for path in Path("runs/rows").iterdir()}
    assert len(saved) == 9
    again = multitask.train(CONFIG, without_files, rows=rows, resume=True)
    assert digests(again.directory) == commanded
    assert saved == {path.name: path.stat().st_mtime_ns for path in Path("runs/rows").iterdir()}
    results = multitask.evaluate("runs/a")
    report = run.files.load_report()
    assert {t: result["metrics"] for t, result in results.items()} == {
        t: report.tasks[t].dev for t in TASKS
    }


class Watching(multitask.Callback):
    """Remembers its calls, and fails at a step."""

    def __init__(self, step: int = 10**6) -> None:
        self.step, self.saved, self.ended = step, [], []

    def on_step(self, trainer, tasks, result):
        if trainer.step == self.step:
            raise ZeroDivisionError("of the callback")

    def on_evaluation(self, trainer, evaluation):
        saved = [step_of(path) for path in trainer.checkpoints.run.saved_checkpoints()]
        self.saved.append((trainer.step, saved))

    def on_end(self, trainer):
        self.ended.append(trainer.finished)


def test_callbacks_are_called_before_checkpoints_are_saved(values, commanded, tmp_path):
    callback = Watching()
    changes = [*values, f"output_dir={tmp_path / 'run'}"]
    run = multitask.train(CONFIG, changes, callbacks=[callback])
    assert callback.saved == [(9, []), (18, [9])] and callback.ended == [True]
    assert digests(run.directory) == commanded


def test_an_exception_of_a_callback_ends_the_run_and_frees_its_lock(values, commanded, tmp_path):
    changes = [*values, f"output_dir={tmp_path / 'run'}"]
    callback, files = Watching(step=12), RunDirectory(tmp_path / "run")
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        multitask.train(CONFIG, changes, callbacks=[callback])
    assert callback.saved == [(9, [])] and callback.ended == [False]
    assert holder(files.lock) is None and not files.finished
    run = multitask.train(CONFIG, changes, resume=True)
    assert digests(run.directory) == commanded


def test_ctrl_c_in_a_notebook_saves_the_run(values, commanded, tmp_path):
    class Impatient(multitask.Callback):
        def on_step(self, trainer, tasks, result):
            if trainer.step == 3:
                os.kill(os.getpid(), 2)

    changes = [*values, f"output_dir={tmp_path / 'run'}"]
    with pytest.raises(TryAgain, match="interrupted; the state is saved in"):
        multitask.train(CONFIG, changes, callbacks=[Impatient()])
    run = multitask.train(CONFIG, changes, resume=True)
    assert digests(run.directory) == commanded


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": True, "overwrite": True}, "resume and overwrite: give one of them"),
        ({"callbacks": [Watching]}, "callbacks: expected a list of objects of multitask.Callback"),
        ({"callbacks": [print]}, "callbacks: expected .*, not <built-in function print>"),
        ({"overrides": "training.epochs=1"}, "overrides: expected a list such as"),
        ({"overrides": {"training.epochs": 1}}, "overrides: expected a list such as"),
    ],
)
def test_what_is_refused(options, message, tmp_path):
    config = load_config(CONFIG, [f"output_dir={tmp_path / 'run'}"])
    with pytest.raises(multitask.UserError, match=message):
        multitask.train(config, **options)
    assert not list(tmp_path.iterdir())


def test_a_launcher_trains_by_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(multitask.UserError, match=r"torchrun run_multitask\.py CONFIG"):
        multitask.train(CONFIG, [f"output_dir={tmp_path / 'run'}"])
