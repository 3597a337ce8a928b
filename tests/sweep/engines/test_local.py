"""The engine `local`: GPUs are dealt out."""

import time
from pathlib import Path

import pytest

from multitask.sweep.engines.base import Job, Settings
from multitask.sweep.engines.local import Local, gpus, visible_devices
from multitask.utils.errors import UserError


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("", []),
        ("-1", []),
        ("0", ["0"]),
        ("3, 1", ["3", "1"]),
        ("0,-1,2", ["0"]),
        ("GPU-8932f937,MIG-a/1/0", ["GPU-8932f937", "MIG-a/1/0"]),
    ],
)
def test_visible_devices(value, devices):
    assert visible_devices(value) == devices


def run(engine: Local, *names: str) -> None:
    script = 'echo "device $CUDA_VISIBLE_DEVICES"; while [ -e hold ]; do sleep 0.02; done'
    jobs = [Job(name, ("sh", "-c", script), Path(f"{name}.log"), Path(name)) for name in names]
    engine.submit(jobs)


def wait(engine: Local) -> None:
    while engine.running():
        engine.ended()
        time.sleep(0.01)


def devices_of(*names: str) -> list[str]:
    return [Path(f"{name}.log").read_text().split()[-1] for name in names]


def test_each_command_gets_the_device_that_the_fewest_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    engine = Local(Settings(tmp_path, jobs=4))
    Path("hold").touch()
    run(engine, "a", "b", "c")
    Path("hold").unlink()
    wait(engine)
    run(engine, "d")  # all devices are free again
    wait(engine)
    assert devices_of("a", "b", "c", "d") == ["4", "6", "4", "4"]


def test_without_the_variable_all_gpus_are_dealt_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1 $2" = "--query-gpu=uuid --format=csv,noheader" ] || exit 1\n'
                    "echo GPU-1; echo GPU-2\n")  # fmt: skip
    tool.chmod(0o755)
    assert gpus() == ["GPU-1", "GPU-2"]
    engine = Local(Settings(tmp_path, jobs=2))
    Path("hold").touch()
    run(engine, "a", "b")
    Path("hold").unlink()
    wait(engine)
    assert devices_of("a", "b") == ["GPU-1", "GPU-2"]
    tool.write_text("#!/bin/sh\nexit 9\n")  # no driver
    assert gpus() == []


def test_close_kills_what_still_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hold").touch()
    engine = Local(Settings(tmp_path))
    run(engine, "a")
    engine.close()
    assert engine.ended() == {"a": -9}


def test_gpus_per_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"--gpus-per-run: .* list them in CUDA_VISIBLE_DEVICES"):
        Local(Settings(tmp_path, gpus=0.5))
