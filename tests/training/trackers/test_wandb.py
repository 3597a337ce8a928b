"""The file that W&B writes offline has what metrics.jsonl says, each step once."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from multitask.inference.load_run import load
from tests.support.run_files import report_of
from tests.support.tracked_runs import (
    Curves,
    check_same,
    command,
    expected,
    kill_and_resume,
    run_id,
    train,
)
from tests.support.wandb_file import records

pytest.importorskip("wandb", reason="pip install wandb")
pytestmark = pytest.mark.engines
TRACKED = "training.trackers=[wandb]"


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def sessions(run_dir: Path) -> list[list]:
    """The records of each session, the newest last."""
    files = (run_dir / "trackers" / "wandb").glob("offline-run-*/*.wandb")
    return [list(records(file)) for file in sorted(files)]


def recorded(session: list, last: int) -> Curves:
    """The curves of a session; the report's scores are in its summary."""
    curves = defaultdict(list)
    for record in session:
        items = [("/".join(i.nested_key) or i.key, i.value_json) for i in record.history.item]
        curves_of_step = {tag: json.loads(text) for tag, text in items if not tag.startswith("_")}
        for tag, value in curves_of_step.items():
            curves[tag].append((record.history.step.num, value))
        for update in record.summary.update:
            tag = "/".join(update.nested_key) or update.key
            if tag.startswith("report/"):
                curves[tag] = [(last, json.loads(update.value_json))]
    return dict(curves)


def test_a_killed_run_is_resumed_under_its_id_with_each_step_once(
    tiny_overrides, tmp_path, monkeypatch
):
    monkeypatch.setenv("MULTITASK_SWEEP", "poolings")
    kill_and_resume(tiny_overrides, TRACKED)
    run_dir = tmp_path / "run"
    last = report_of(run_dir)["steps"]["done"]
    *_, newest = before_and_after = sessions(run_dir)
    assert len(before_and_after) == 2
    check_same(recorded(newest, last), expected(run_dir))
    (run,) = [record.run for record in newest if record.WhichOneof("record_type") == "run"]
    assert (run.run_id, run.project) == (run_id(run_dir, "wandb"), "multitask")
    assert (run.display_name, run.run_group) == ("run", "poolings")
    config = {update.key: update.value_json for update in run.config.update}
    assert json.loads(config["training"])["checkpoint_steps"] == 4
    assert [record.exit.exit_code for record in newest if record.HasField("exit")] == [0]
    assert load(run_dir).tasks  # needs no tracker


@pytest.mark.parametrize("key", ["0" * 40, "no key"])
def test_without_a_server_or_with_a_wrong_key_the_run_is_in_a_file_to_upload(
    key, tiny_overrides, tmp_path, monkeypatch
):
    monkeypatch.setenv("WANDB_API_KEY", key)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    done = train(command(tiny_overrides, "training.max_steps=2", TRACKED))
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: wandb")]
    run_dir = tmp_path / "run"
    (file,) = (run_dir / "trackers" / "wandb").glob("offline-run-*/*.wandb")
    assert f"`wandb sync {file.parent}`" in warning
    assert report_of(run_dir)["steps"]["done"] == 2
    (session,) = sessions(run_dir)
    check_same(recorded(session, 2), expected(run_dir))
    (run,) = [record.run for record in session if record.WhichOneof("record_type") == "run"]
    assert run.run_id == run_id(run_dir, "wandb")
