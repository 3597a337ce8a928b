"""The engine `local`: GPUs are dealt out."""

import time
from pathlib import Path

import pytest

from multitask.sweep.engines.base import Job, Settings
from multitask.sweep.engines.local import Local, gpus
from multitask.utils.errors import UserError


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(engine: Local, *names: str) -> None:
    """Start commands that end when the file ``hold`` is gone."""
    Path("hold").touch()
    script = 'echo "device $CUDA_VISIBLE_DEVICES"; while [ -e hold ]; do sleep 0.02; done'
    jobs = [Job(name, ("sh", "-c", script), Path(f"{name}.log"), Path(name)) for name in names]
    engine.submit(jobs)


def devices(engine: Local, *names: str) -> list[str]:
    """The devices of commands that run at the same time."""
    start(engine, *names)
    Path("hold").unlink()
    while engine.running():
        engine.ended()
        time.sleep(0.01)
    lines = [Path(f"{name}.log").read_text().splitlines()[-1] for name in names]
    return [line.removeprefix("device ") for line in lines]


@pytest.mark.parametrize(
    ("value", "dealt"), [("4, 6", ["4", "6", "4"]), ("", [""] * 3), ("-1", ["-1"] * 3)]
)
def test_each_command_gets_the_device_that_the_fewest_have(value, dealt, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    engine = Local(Settings(tmp_path, jobs=4))
    assert devices(engine, "a", "b", "c") == dealt
    assert devices(engine, "d") == dealt[:1]  # all are free again


def test_without_the_variable_all_gpus_are_dealt_out(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1 $2" = "--query-gpu=uuid --format=csv,noheader" ] || exit 1\n'
                    "echo GPU-1; echo GPU-2\n")  # fmt: skip
    tool.chmod(0o755)
    assert gpus() == ["GPU-1", "GPU-2"]
    assert devices(Local(Settings(tmp_path, jobs=2)), "a", "b") == ["GPU-1", "GPU-2"]
    tool.write_text("#!/bin/sh\nexit 9\n")  # no driver
    assert gpus() == []


def test_close_kills_what_still_runs(tmp_path):
    engine = Local(Settings(tmp_path))
    start(engine, "a")
    engine.close()
    assert engine.ended() == {"a": -9}


def test_gpus_per_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"--gpus-per-run: .* list them in CUDA_VISIBLE_DEVICES"):
        Local(Settings(tmp_path, gpus=0.5))
