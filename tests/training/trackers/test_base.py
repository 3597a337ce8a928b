"""A tracker gets each step once, also after a resume, and never a failed run."""

import importlib.util
import json
from types import SimpleNamespace

import pytest

import run_multitask
from multitask.config import load_config
from multitask.config.registry import TRACKERS
from multitask.inference.load_run import load
from multitask.inference.scoring import Scorer
from multitask.store.run_directory import RunDirectory
from multitask.training.trackers.base import Row, Tracking, rows_of
from multitask.utils import distributed
from multitask.utils.optional import install_command
from tests.conftest import ROOT
from tests.support.fake_tracker import NAME, TARGET, FakeTracker
from tests.support.messages import complaint
from tests.support.run_files import events, full_report, report_of, results
from tests.support.tracked_runs import SETTINGS, check_same, command, expected, run_id

TRACKED = f"training.trackers=[{NAME}]"


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setitem(TRACKERS, NAME, TARGET)
    monkeypatch.setattr(FakeTracker, "runs", {})
    monkeypatch.setattr(FakeTracker, "failing", "")
    monkeypatch.chdir(run_multitask.__file__.rpartition("/")[0])
    return FakeTracker


def recorded(entry: dict) -> dict:
    curves: dict = {}
    for step, values in [*entry["rows"], *entry["reports"]]:
        for tag, value in values.items():
            curves.setdefault(tag, []).append((step, value))
    return curves


def stop_in_evaluation(monkeypatch, nth: int) -> None:
    """Let the ``nth`` scoring of a task fail, once."""
    score, calls = Scorer.score, []

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) == nth:
            raise RuntimeError("the power failed")
        return score(*args, **kwargs)

    monkeypatch.setattr(Scorer, "score", failing)


def test_a_tracker_gets_config_metrics_and_report(fake, tiny_overrides, tmp_path, monkeypatch):
    monkeypatch.setenv("MULTITASK_SWEEP", "poolings")
    assert run_multitask.main(command(tiny_overrides, TRACKED)) == 0
    (entry,) = fake.runs.values()
    check_same(recorded(entry), expected(tmp_path / "run"))
    assert entry["config"]["training"]["trackers"] == [NAME]
    assert (entry["name"], entry["sweep"], entry["closed"]) == ("run", "poolings", [True])
    assert run_id(tmp_path / "run", NAME) == "id-0"


def test_a_resume_goes_on_in_the_tracker_and_sends_what_it_lacks(
    fake, tiny_overrides, tmp_path, monkeypatch
):
    stop_in_evaluation(monkeypatch, nth=5)
    arguments = command(tiny_overrides, *SETTINGS, TRACKED)
    with pytest.raises(RuntimeError, match="the power failed"):
        run_multitask.main(arguments)
    (entry,) = fake.runs.values()
    assert entry["closed"] == [False] and not entry["reports"]
    del entry["rows"][1]  # a queued line that a kill has lost
    assert run_multitask.main([*arguments, "--resume"]) == 0
    assert list(fake.runs) == ["id-0"] and entry["closed"] == [False, True]
    wanted, actual = expected(tmp_path / "run"), recorded(entry)
    check_same({tag: sorted(pairs) for tag, pairs in actual.items()}, wanted)
    check_usable_without_tracker(tmp_path / "run", tmp_path / "export", monkeypatch)


def check_usable_without_tracker(run_dir, target, monkeypatch) -> None:
    """Load, evaluate and export a run whose tracker cannot be imported here."""
    monkeypatch.setitem(TRACKERS, NAME, "not_here:Tracker")
    assert load(run_dir).predict("sst", ["a good film"])
    assert run_multitask.main(["evaluate", str(run_dir)]) == 0
    export = ["--format", "transformers", "--encoder-only", "--task", "sst"]
    assert run_multitask.main(["export", str(run_dir), str(target), *export]) == 0


def test_trackers_may_change_between_start_and_resume(fake, tiny_overrides, tmp_path, monkeypatch):
    stop_in_evaluation(monkeypatch, nth=5)
    arguments = command(tiny_overrides, *SETTINGS)
    with pytest.raises(RuntimeError, match="the power failed"):
        run_multitask.main(arguments)
    assert run_multitask.main([*arguments, TRACKED, "--resume"]) == 0
    (entry,) = fake.runs.values()
    check_same(recorded(entry), expected(tmp_path / "run"))


def test_an_overwritten_run_is_a_new_one_in_the_tracker(fake, tiny_overrides):
    arguments = command(tiny_overrides, "training.max_steps=2", TRACKED)
    assert run_multitask.main(arguments) == 0
    assert run_multitask.main([*arguments, "--overwrite"]) == 0
    assert list(fake.runs) == ["id-0", "id-1"]


@pytest.mark.parametrize("method", ["start", "log", "report", "close"])
def test_a_tracker_that_fails_costs_one_warning(
    method, fake, tiny_overrides, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(fake, "failing", method)
    arguments = command(tiny_overrides, f"training.trackers=[{NAME}, tensorboard]")
    assert run_multitask.main(arguments) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if NAME in line]
    assert len(lines) == 1 and f"no server in {method}" in lines[0]
    assert list((tmp_path / "run" / "tensorboard").iterdir())  # the other one goes on
    assert report_of(tmp_path / "run")["steps"]["done"] == len(events(tmp_path / "run", "step"))


def test_a_deleted_log_costs_one_warning(fake, tiny_overrides, tmp_path, monkeypatch, capsys):
    tracking = Tracking.on_start

    def delete(self, trainer):
        trainer.log.file.unlink()
        tracking(self, trainer)

    monkeypatch.setattr(Tracking, "on_start", delete)
    run_multitask.main(command(tiny_overrides, "training.max_steps=2", TRACKED))
    (line,) = [line for line in capsys.readouterr().err.splitlines() if f"{NAME} failed" in line]
    assert "metrics.jsonl" in line


def test_a_tracked_run_trains_as_one_without(fake, tiny_overrides, tmp_path):
    other = [*tiny_overrides, f"output_dir={tmp_path / 'other'}"]
    assert run_multitask.main(command(tiny_overrides, TRACKED)) == 0
    assert run_multitask.main(command(other)) == 0
    assert results(tmp_path / "run") == results(tmp_path / "other")


def test_only_the_first_process_sends(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    config = load_config(ROOT / "configs" / "demo.yaml", [TRACKED])
    tracking = Tracking(config, RunDirectory(tmp_path))  # it has no log: reading would fail
    tracking.on_start(None)
    tracking.on_step(None, [], None)
    tracking.on_report(SimpleNamespace(step=1), full_report())
    assert not fake.runs and not list(tmp_path.iterdir())


def test_an_unknown_tracker_is_named_with_the_nearest_one(refused):
    line = refused("training.trackers=[mlfow]")
    assert "training.trackers" in line and "'mlfow'" in line and "mlflow" in line


@pytest.mark.parametrize(
    ("setting", "package", "extra"),
    [
        ("trackers=[mlflow]", "alembic", "trackers"),
        ("tensorboard=true", "tensorboard", "tensorboard"),
    ],
)
def test_a_missing_package_is_one_line_at_the_key(
    setting, package, extra, refused, tiny_overrides, monkeypatch, capsys
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    words = ["check", "configs/cs224n.yaml", *tiny_overrides, f"training.{setting}"]
    for line in (refused(f"training.{setting}"), complaint(capsys, *words)):
        assert f"training.{setting.partition('=')[0]}" in line and install_command(extra) in line


def test_lines_of_a_step_become_one_row_and_damaged_ones_are_left_out():
    lines = [
        {"event": "step", "task": "a", "loss": 2.0, "lr": 0.1, "head_lr": 0.2, "grad_norm": None},
        {"event": "damaged"},
        {"event": "eval", "split": "dev", "tasks": {"a": {"f1": None}}, "joint": 0.5},
        {"event": "stop", "task": "a"},
    ]
    written = [json.dumps({"step": 1, **line}).encode() for line in lines]
    values = {"train/loss/a": 2.0, "train/lr/a": 0.1, "train/head_lr/a": 0.2, "dev/joint": 0.5}
    assert rows_of(written) == [Row(1, values)]


def test_the_terms_of_smart_are_sent_apart():
    line = {"event": "step", "task": "a", "loss": 2.0, "lr": 0.1, "head_lr": 0.2, "grad_norm": 1.0}
    terms = {"penalty": 0.5, "adversarial": 0.375, "bregman": 0.125}
    (row,) = rows_of([json.dumps({"step": 1, **line, **terms}).encode()])
    assert {f"train/{name}/a": value for name, value in terms.items()}.items() <= row.values.items()
