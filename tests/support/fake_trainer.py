"""Stands in for ``run_multitask.py`` in tests of `ablate`: a run of no time, without torch.

``FAKE_FAIL`` names a cell whose runs fail; while the file ``FAKE_HOLD`` exists, no run ends.
SIGTERM ends it with 75, as a run whose state is saved.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import run_multitask
from multitask.config import load_config
from multitask.config.prepare_run_directory import own
from multitask.config.run_directory import RunDirectory
from multitask.utils.errors import TryAgain


def interrupted(*_: object) -> None:
    raise TryAgain("interrupted")


def train(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, interrupted)
    config = load_config(arguments[1], [a for a in arguments[2:] if "=" in a])
    directory = Path(config.output_dir)
    with own(RunDirectory(directory)):
        (directory / "config.yaml").write_text(config.dump())
        if directory.parent.name == os.environ.get("FAKE_FAIL"):
            print("error: an earlier one\nerror: the data are bad\nand a last word")
            return 2
        for name in ("weights", "checkpoints", "encoder", "figures"):
            (directory / name).mkdir(exist_ok=True)
            (directory / name / "file").touch()
        step = {"event": "step", "step": 10, "epoch": 0.5}
        (directory / "metrics.jsonl").write_text(json.dumps(step) + "\n")
        while Path(os.environ.get("FAKE_HOLD", "/nowhere")).exists():
            time.sleep(0.02)
        (directory / "report.md").touch()
        report = {"overall": {"mean": config.seed / 10}, "seed": config.seed}
        report |= {"selection_split": "dev", "tasks": {}}
        (directory / "report.json").write_text(json.dumps(report))
        if "--discard-weights" in arguments:
            for name in ("weights", "checkpoints", "encoder"):
                shutil.rmtree(directory / name)
    return 0


run_multitask.run = train
sys.exit(run_multitask.main(sys.argv[1:]))
