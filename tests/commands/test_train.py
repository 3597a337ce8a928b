"""`train`: what a run directory holds, and which directories it leaves alone."""

import csv
import re
import time
from pathlib import Path

import numpy as np
import pytest

from multitask.config import load_config
from multitask.store.run_directory import load_lines
from multitask.training.train_run import train
from tests.support.commands import main
from tests.support.run_files import report_of

# the header and a value of the course's files
COURSE_FILES = {
    "sst": ("id \t Predicted_Sentiment ", "[0-4]"),
    "para": ("id \t Predicted_Is_Paraphrase ", r"[01]\.0"),
    "sts": ("id \t Predicted_Similiary ", r"[0-4](\.\d+)?|5"),
}


def test_run_directory_holds_what_is_documented(course_run):
    names = (
        "config.yaml metrics.jsonl report.json report.md report.html predictions figures encoder"
    )
    assert {*names.split(), "weights"} <= {path.name for path in course_run.iterdir()}
    report = report_of(course_run)
    values = [report["tasks"][t]["dev"][report["tasks"][t]["metric"]] for t in report["tasks"]]
    r = values[2]
    assert report["overall"]["mean"] == pytest.approx(np.mean(values))
    assert report["overall"]["cs224n"] == pytest.approx(np.mean([*values[:2], (r + 1) / 2]))
    assert report["selection_split"] == "holdout"
    assert report["tasks"]["sst"]["baselines"]["frozen"]["accuracy"] is not None
    assert set(report["tasks"]["sst"]["data"]) == {"train", "dev", "test", "holdout"}


def test_predictions_stand_in_file_order(course_run, course_files):
    with (course_files / "ids-sst-dev.csv").open() as file:
        expected = [row["id"] for row in csv.DictReader(file, delimiter="\t")]
    actual = [record["id"] for record in load_lines(course_run / "predictions" / "sst.dev.jsonl")]
    assert actual == expected


@pytest.mark.parametrize("name", COURSE_FILES)
@pytest.mark.parametrize(("split", "count"), [("dev", 12), ("test", 6)])
def test_course_files_are_written_to_the_letter(name, split, count, course_run):
    text = (course_run / "predictions" / f"{name}-{split}-output.csv").read_text()
    header, value = COURSE_FILES[name]
    assert re.fullmatch(rf"{header}\n([\w-]+ , ({value}) \n){{{count}}}", text)


def test_saved_config_reproduces_the_run(course_run, tmp_path):
    again = tmp_path / "again"
    assert main(course_run / "config.yaml", f"output_dir={again}") == 0
    first, second = ((d / "metrics.jsonl").read_bytes() for d in (course_run, again))
    assert first == second


def test_frozen_encoder_run_trains_heads_only(tiny_overrides, capsys):
    assert main("configs/cs224n.yaml", *tiny_overrides, "encoder.freeze=true") == 0
    output = capsys.readouterr().out
    assert "sts: nothing to train" in output


def test_the_wall_time_counts_from_the_start_of_the_command(tiny_overrides, tmp_path):
    changes = [*tiny_overrides, "training.max_steps=1", "training.frozen_baseline=false"]
    config = load_config("configs/cs224n.yaml", changes)
    train(config, say=lambda line: None, began=time.perf_counter() - 1000)
    assert report_of(tmp_path / "run")["wall_time_s"] > 1000


# --- the run directory ---


def test_a_run_and_the_working_directory_are_left_alone(refused, tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.json", "report.json"):
        (run / name).write_text("{}")
    line = refused()
    assert all(part in line for part in (str(run), "--resume", "--overwrite", "output_dir=DIR"))
    monkeypatch.chdir(run)
    assert ". is where you are" in refused("--overwrite", "output_dir=.")
    assert {path.name: path.read_text() for path in run.iterdir()} == {
        "run.json": "{}",
        "report.json": "{}",
    }


@pytest.mark.parametrize("name", ["config.yaml", ".mine"])
@pytest.mark.parametrize("flags", [[], ["--resume"], ["--overwrite"]])
def test_directory_of_something_else_is_left_alone(flags, name, refused, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("years of work")  # of the user, not of a run
    assert f"{run} is not empty" in refused(*flags)
    assert (run / name).read_text() == "years of work"


def test_run_directory_that_cannot_be_made(refused, tmp_path):
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path / 'file'} is a file" in refused(f"output_dir={tmp_path / 'file'}")
    for place in (tmp_path / "file" / "run", Path("/proc/run")):
        assert str(place) in refused(f"output_dir={place}")
    assert (tmp_path / "file").read_text() == "x"


def test_a_finished_run_is_trained_on_in_a_new_one(tiny_overrides, tmp_path, capsys):
    """The message about another number of epochs has the words that do it."""
    one = ["configs/cs224n.yaml", *tiny_overrides, "tasks.qqp=null", "tasks.sts=null"]
    run = [*one, f"output_dir={tmp_path / 'run'}", "training.max_steps=2"]
    assert main(*run) == 0
    assert main(*run, "--resume") == 0
    assert "init_from.run=" in capsys.readouterr().out
    assert main(*run, "training.epochs=4", "--resume") == 2
    advice = capsys.readouterr().err
    words = [word for word in advice.split() if word.startswith("init_from.")]
    assert words == [f"init_from.run={tmp_path / 'run'}", "init_from.take=head"]
    more = [*one, f"output_dir={tmp_path / 'more'}", "training.max_steps=2"]
    assert main(*more, "training.epochs=4", *words) == 0
    assert report_of(tmp_path / "more")["init_from"]["take"] == "head"


def test_what_transformers_cannot_export_is_said_before_training(tiny_overrides, capsys):
    words = ["configs/cs224n.yaml", *tiny_overrides, "training.max_steps=1"]
    assert main(*words, "tasks.sst.projection=null") == 0
    said = capsys.readouterr().out.splitlines()
    (place,) = [n for n, line in enumerate(said) if "`tasks.sst.projection=tanh`" in line]
    assert place < said.index("measuring the baselines")
