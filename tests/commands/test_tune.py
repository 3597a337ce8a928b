"""`tune` with real training: a tiny encoder and small data; killed once."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import run_multitask
from multitask.reporting.statistics import holdout_scores
from tests.conftest import ROOT

pytest.importorskip("optuna", reason="pip install optuna")
pytestmark = pytest.mark.engines

SEARCH = """
base: {root}/configs/cs224n.yaml
set:
  data_dir: {data}
  encoder.name: {encoder}
  defaults: {{max_length: 48, max_rows: 40}}
  training: {{epochs: 2, holdout: 0.3, precision: fp32, frozen_baseline: false}}
  tasks.sts: null
trials: 3
seed: 2
search:
  training.lr: {{low: 1.0e-5, high: 1.0e-2, log: true}}
  tasks.sst.pooling: [cls, mean]
"""


def test_a_killed_search_goes_on_and_its_best_config_trains(
    tiny_encoder, course_files, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = SEARCH.format(root=ROOT, data=course_files, encoder=tiny_encoder)
    Path("s.yaml").write_text(text)
    command = [sys.executable, str(ROOT / "run_multitask.py"), "tune", "s.yaml"]
    second = Path("runs/tune-s/cells/trial-1/seed-2")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while process.poll() is None and not (second / "metrics.jsonl").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    scores = {}
    for trial in range(3):
        run = Path(f"runs/tune-s/cells/trial-{trial}/seed-2")
        (scores[trial],) = holdout_scores(run)
        assert not (run / "weights").exists()
    table = Path("runs/tune-s/table.md").read_text()
    best = max(scores, key=lambda trial: scores[trial])
    assert f"**{scores[best]:.3f}**" in table
    assert run_multitask.main(["check", "runs/tune-s/best.yaml"]) == 0
