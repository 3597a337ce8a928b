"""Stands in for ``run_multitask.py`` in tests of sweeps: a run of no time, without torch.

- With a holdout, each task has a score that depends on the learning rate: see `score`.
- A run whose mean score is below ``FAKE_BEST`` never ends after its first evaluation.
- ``FAKE_FAIL`` names a cell whose runs fail, ``FAKE_DIVERGE`` one whose runs diverge.
- While the file ``FAKE_MISSING`` does not exist, every run fails.
- While the file ``FAKE_HOLD`` exists, no run ends. On SIGTERM a run says `saved` and ends with 75;
  with ``FAKE_STUBBORN`` it says `not yet`.
- The run that removes the file ``FAKE_KILL`` is killed by -9.
"""

import json
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from multitask.config import Config, load_config
from multitask.store.lock import Busy
from multitask.store.prepare_run import own
from multitask.store.run_directory import RunDirectory


def save_and_end(*_: object) -> None:
    if "FAKE_STUBBORN" in os.environ:
        print("not yet", flush=True)
        return
    print("saved")
    sys.exit(75)


def score(config: Config, task: str) -> float:
    """Return the accuracy on the holdout. It is highest at 1e-4, that of qqp at 1e-5."""
    best = -5 if task == "qqp" else -4
    return round(0.9 - 0.3 * abs(math.log10(config.training.lr) - best), 2)


def hold_out(config: Config) -> dict[str, object]:
    """Write evaluations and predictions, and return the entries of the report."""
    scores = {task: score(config, task) for task in config.tasks}
    joint = sum(scores.values()) / len(scores)
    with run.metrics.open("w") as log:
        log.write(json.dumps({"event": "plan", "step": 0, "steps": 30, "epochs": 3}) + "\n")
        for step in (10, 20, 30):
            line = {"event": "eval", "step": step, "epoch": step / 10, "split": "holdout"}
            log.write(json.dumps(line | {"tasks": {}, "joint": joint * step / 30}) + "\n")
            log.flush()
            while joint < float(os.environ.get("FAKE_BEST", "0")):
                time.sleep(0.02)
    run.predictions.mkdir(exist_ok=True)
    for task, value in scores.items():
        rows = [{"id": str(row), "texts": [""], "label": 1} for row in range(100)]
        for row, record in enumerate(rows):
            record["prediction"] = int(row < round(100 * value))
            record["scores"] = [0.5, 0.5]
        lines = "".join(json.dumps(record) + "\n" for record in rows)
        run.predictions_of(task, "holdout").write_text(lines)
    entry = {"label_type": "class", "metric": "accuracy", "dev": {"accuracy": 0.5}}
    return dict.fromkeys(scores, entry)


def train(config: Config) -> None:
    directory = Path(config.output_dir)
    if run.finished:
        return
    (directory / "config.yaml").write_text(config.dump())
    if directory.parent.name == os.environ.get("FAKE_FAIL"):
        print("error: an earlier one\nerror: the data are bad\nand a last word")
        sys.exit(2)
    if not Path(os.environ.get("FAKE_MISSING", "/")).exists():
        print("error: no such file: data.csv")
        sys.exit(2)
    if directory.parent.name == os.environ.get("FAKE_DIVERGE"):
        event = {"event": "diverged", "step": 3, "reason": "task sst: loss nan"}
        run.metrics.write_text(json.dumps(event) + "\n")
        print("error: step 4, task sst: loss nan")
        sys.exit(2)
    for name in ("weights", "checkpoints", "encoder", "figures"):
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "file").touch()
    step = {"event": "step", "step": 10, "epoch": 0.5}
    (directory / "metrics.jsonl").write_text(json.dumps(step) + "\n")
    try:
        Path(os.environ.get("FAKE_KILL", "/nowhere")).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    except FileNotFoundError:
        pass
    while Path(os.environ.get("FAKE_HOLD", "/nowhere")).exists():
        time.sleep(0.02)
    tasks = hold_out(config) if config.training.holdout else {}
    print("trained")
    (directory / "report.md").touch()
    report = {"overall": {"mean": config.seed / 10}, "seed": config.seed, "selection_split": "dev"}
    (directory / "report.json").write_text(json.dumps(report | {"tasks": tasks}))


signal.signal(signal.SIGTERM, save_and_end)
print(f"process {os.getpid()} of {os.environ.get('MULTITASK_SWEEP')}", flush=True)
config = load_config(sys.argv[2], [argument for argument in sys.argv[3:] if "=" in argument])
run = RunDirectory(Path(config.output_dir))
run.path.mkdir(parents=True, exist_ok=True)
try:
    with own(run):
        train(config)
        if "--discard-weights" in sys.argv:
            for folder in (run.weights, run.checkpoints, run.encoder):
                shutil.rmtree(folder, ignore_errors=True)
except Busy:
    sys.exit(75)
