"""Tracked runs: how one is started, killed and resumed, and what a tracker should have of it."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.kill import kill_inside
from tests.support.run_files import events, report_of

Curves = dict[str, list[tuple[int, float]]]  # (step, value) by tag

SETTINGS = ("training.epochs=3", "training.checkpoint_steps=4")
SECOND_EVALUATION = ("multitask.inference.scoring:Scorer.score", "before", 5)


def command(overrides: list[str], *more: str) -> list[str]:
    # 'configs/...': the processes start in the project's root
    return ["configs/cs224n.yaml", *overrides, "training.frozen_baseline=false", *more]


def kill_and_resume(overrides: list[str], *more: str) -> None:
    """Kill a run inside its second evaluation, after steps that no checkpoint has; resume it."""
    arguments = command(overrides, *SETTINGS, *more)
    kill_inside(*SECOND_EVALUATION, arguments)
    train([*arguments, "--resume"])


def train(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Train in a new process, as some libraries read their variables only once."""
    done = subprocess.run(
        [sys.executable, "run_multitask.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


def expected(run_dir: Path) -> Curves:
    """Read from metrics.jsonl and report.json what a tracker should have."""
    actual = defaultdict(list)
    for line in events(run_dir):
        if line["event"] == "step":
            for key in ("loss", "lr", "head_lr", "grad_norm"):
                actual[f"train/{key}/{line['task']}"].append((line["step"], line[key]))
        if line["event"] == "eval":
            actual[f"{line['split']}/joint"].append((line["step"], line["joint"]))
            for task, values in line["tasks"].items():
                for metric, value in values.items():
                    actual[f"{line['split']}/{metric}/{task}"].append((line["step"], value))
    report = report_of(run_dir)
    last = report["steps"]["done"]
    for name, value in report["overall"].items():
        actual[f"report/{name}"].append((last, value))
    for task, entry in report["tasks"].items():
        for metric, value in entry["dev"].items():
            if metric != "confusion":
                actual[f"report/dev/{metric}/{task}"].append((last, value))
    defined = {tag: [(s, v) for s, v in pairs if v is not None] for tag, pairs in actual.items()}
    return {tag: pairs for tag, pairs in defined.items() if pairs}


def check_same(actual: Curves, wanted: Curves) -> None:
    """Compare what a tracker has with what it should have: each step once, in order."""
    assert set(actual) == set(wanted)
    for tag, pairs in wanted.items():
        assert [step for step, _ in actual[tag]] == [step for step, _ in pairs], tag
        values = [value for _, value in pairs]
        assert [value for _, value in actual[tag]] == pytest.approx(values, rel=1e-6), tag


def run_id(run_dir: Path, tracker: str) -> str:
    return json.loads((run_dir / "trackers" / "ids.json").read_text())[tracker]
