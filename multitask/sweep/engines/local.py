"""Run the commands as processes of this machine."""

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from multitask.sweep.engines.base import Job, Settings, threads
from multitask.utils.errors import UserError

DEVICES = "CUDA_VISIBLE_DEVICES"
PR_SET_PDEATHSIG = 1


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
        self._devices = gpus() if chosen is None else [d.strip() for d in chosen.split(",")]
        self._device_of: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def attach(self, jobs: Sequence[Job]) -> None:
        """Find nothing: the processes end with the sweep that started them."""

    def submit(self, jobs: Sequence[Job]) -> None:
        start = starter()
        for job in jobs:
            variables = {**self._variables, **job.environment}
            if self._devices:
                taken = list(self._device_of.values())
                self._device_of[job.name] = min(self._devices, key=taken.count)
                variables[DEVICES] = self._device_of[job.name]
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


def gpus() -> list[str]:
    """Return the ids of this machine's NVIDIA GPUs; none where there is no NVIDIA tool to ask."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.split()


def starter() -> "Callable[[Sequence[str], str, Mapping[str, str], str], subprocess.Popen[bytes]]":
    """Return the function that starts a command.

    It is nested, and needs only the standard library: Ray sends it to its workers by value, so they
    need not import ``multitask``.
    """
    death_signal = PR_SET_PDEATHSIG

    def start(
        command: Sequence[str], log: str, variables: Mapping[str, str], directory: str
    ) -> "subprocess.Popen[bytes]":
        """Start a command in a directory, with these variables, and append its output to the log.

        On Linux it gets SIGTERM, on which a run saves its state, when the calling thread dies.
        """
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        parent = os.getpid()

        def die_with_parent() -> None:
            if libc is not None:
                libc.prctl(death_signal, signal.SIGTERM)
                if os.getppid() != parent:
                    os._exit(1)

        when = datetime.now().astimezone().isoformat(timespec="seconds")
        line = f"# start {when} on {socket.gethostname()}: {shlex.join(command)}\n"
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(handle, "ab", buffering=0) as output:
            output.write(line.encode(errors="surrogateescape"))  # a path may not be UTF-8
            return subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,  # Ctrl-C reaches it through the engine alone
                preexec_fn=die_with_parent,
            )

    return start
