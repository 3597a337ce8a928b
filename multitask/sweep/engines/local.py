"""Run the commands as processes of this machine."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from multitask.sweep.engines.base import Job, Settings, threads
from multitask.sweep.engines.process import starter
from multitask.utils.errors import UserError

DEVICES = "CUDA_VISIBLE_DEVICES"


class Local:
    """Processes of this machine. If the sweep is killed, Linux sends them SIGTERM.

    The devices of ``CUDA_VISIBLE_DEVICES``, or all GPUs if it is not set, are dealt out: each
    command gets the one that the fewest others have.
    """

    queues: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        if settings.gpus is not None:
            raise UserError(
                f"--gpus-per-run: this machine's GPUs are dealt out: list them in {DEVICES}, "
                "such as 0,1"
            )
        self._variables = threads(settings.cpus, settings.slots)
        chosen = os.environ.get(DEVICES)
        self._devices = gpus() if chosen is None else visible_devices(chosen)
        self._device_of: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def attach(self, jobs: Sequence[Job]) -> None:
        """Find nothing: the processes end with the sweep that started them."""

    def submit(self, jobs: Sequence[Job]) -> None:
        start = starter()
        for job in jobs:
            variables = {**self._variables, **job.environment, **self._deal(job.name)}
            process = start(job.command, str(job.log), variables, str(Path.cwd()))
            self._processes[job.name] = process

    def ended(self) -> dict[str, int]:
        polled = {name: process.poll() for name, process in self._processes.items()}
        codes = {name: code for name, code in polled.items() if code is not None}
        for name in codes:
            del self._processes[name]
            self._device_of.pop(name, None)
        return codes

    def running(self) -> list[str]:
        return list(self._processes)

    def cancel(self, names: Sequence[str]) -> None:
        for name in names:
            self._processes[name].terminate()

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _deal(self, name: str) -> dict[str, str]:
        """Give a command the device that the fewest others have."""
        if not self._devices:
            return {}
        taken = list(self._device_of.values())
        self._device_of[name] = min(self._devices, key=taken.count)
        return {DEVICES: self._device_of[name]}


def gpus() -> list[str]:
    """Return the ids of this machine's NVIDIA GPUs; none where there is no NVIDIA tool to ask."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.split()


def visible_devices(value: str) -> list[str]:
    """Return the devices of ``CUDA_VISIBLE_DEVICES``; CUDA ignores what follows a negative one."""
    devices = []
    for device in value.split(","):
        if not device.strip() or device.strip().startswith("-"):
            break
        devices.append(device.strip())
    return devices
