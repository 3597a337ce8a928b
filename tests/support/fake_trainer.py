"""Stands in for ``run_multitask.py`` in tests of `ablate`: a run of no time, without torch.

- ``FAKE_FAIL`` names a cell whose runs fail.
- While the file ``FAKE_HOLD`` exists, no run ends. On SIGTERM a run says `saved` and ends with 75;
  with ``FAKE_STUBBORN`` it says `not yet`.
- The run that removes the file ``FAKE_KILL`` is killed by -9.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from multitask.config import Config, load_config
from multitask.config.prepare_run_directory import own
from multitask.config.run_directory import RunDirectory
from multitask.utils.owner import Busy


def save_and_end(*_: object) -> None:
    if "FAKE_STUBBORN" in os.environ:
        print("not yet", flush=True)
        return
    print("saved")
    sys.exit(75)


def train(config: Config) -> None:
    directory = Path(config.output_dir)
    if run.finished:
        return
    (directory / "config.yaml").write_text(config.dump())
    if directory.parent.name == os.environ.get("FAKE_FAIL"):
        print("error: an earlier one\nerror: the data are bad\nand a last word")
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
    print("trained")
    (directory / "report.md").touch()
    report = {"overall": {"mean": config.seed / 10}, "seed": config.seed, "selection_split": "dev"}
    (directory / "report.json").write_text(json.dumps(report | {"tasks": {}}))


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
