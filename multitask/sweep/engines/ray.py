"""Run the commands as tasks of Ray Core, on this machine or on a cluster."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from multitask.sweep.engines.base import Job, Settings, cores
from multitask.sweep.engines.local import starter
from multitask.utils.errors import UserError, reason_of
from multitask.utils.optional import optional

POLL = 0.2  # seconds between two looks at a command
CONNECT = 60.0  # seconds in which each node must answer
OBJECTS = 100 * 2**20  # bytes of the object store, which holds exit codes only
# Ray would kill a command with SIGKILL when its worker ends
WORKERS = {"RAY_kill_child_processes_on_worker_exit": "0"}
THREADS = "OMP_NUM_THREADS"
ADDRESS = re.compile(r"[^/]+:\d{1,5}")  # HOST:PORT


class Ray:
    """Tasks of Ray, each of which starts a command and waits for it.

    Without ``address``, Ray starts on this machine and ends with the sweep. When the sweep or a
    worker is killed, the commands get SIGTERM from Linux.
    """

    queues: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        os.environ.update(WORKERS)  # both before the import, which reads them
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = optional("ray", "--engine ray needs Ray", "engines")
        self._errors = optional("ray.exceptions", "--engine ray needs Ray", "engines")
        self._tasks: dict[str, Any] = {}
        self._connect(settings.address)
        try:
            self._task, self._threads = self._prepare(settings)
        except BaseException:
            self.close()
            raise

    def attach(self, jobs: Sequence[Job]) -> None:
        """Find nothing: tasks end with the sweep that submitted them."""

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            variables = {THREADS: self._threads, **job.environment}
            arguments = (job.command, str(job.log.absolute()), variables, str(Path.cwd()))
            self._tasks[job.name] = self._task.remote(*arguments)

    def ended(self) -> dict[str, int]:
        tasks = list(self._tasks.values())
        done = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)[0] if tasks else []
        codes = {name: self._code(task) for name, task in self._tasks.items() if task in done}
        for name in codes:
            del self._tasks[name]
        return codes

    def running(self) -> list[str]:
        return list(self._tasks)

    def cancel(self, names: Sequence[str]) -> None:
        for name in names:
            self._ray.cancel(self._tasks[name])

    def close(self) -> None:
        self._ray.shutdown()

    def _code(self, task: Any) -> int:
        """Return a task's exit code; below 0 if its worker or its node was lost."""
        try:
            code: int = self._ray.get(task)
        except self._errors.TaskCancelledError:
            return -signal.SIGTERM
        except self._errors.RayTaskError as error:
            advice = "does each node see this directory, and --output DIR?"
            message = f"--engine ray: a node cannot start a run: {error.cause}: {advice}"
            raise UserError(message) from error
        except self._errors.RayError:
            return -signal.SIGKILL
        return code

    def _connect(self, address: str | None) -> None:
        """Join the cluster, or start Ray here: its default would join any cluster that it finds."""
        here: dict[str, Any] = {"include_dashboard": False, "object_store_memory": OBJECTS}
        where = {"runtime_env": {"env_vars": WORKERS}} if address else here
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if address and ADDRESS.fullmatch(address):  # else Ray tries for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=CONNECT).close()
            self._ray.init(address or "local", logging_level="error", log_to_driver=False, **where)
        except Exception as error:  # Ray raises this kind itself if it does not come up
            self._ray.shutdown()
            place = f"--address {address}" if address else "--engine ray"
            raise UserError(f"{place}: {reason_of(error)}") from error
        finally:
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own

    def _prepare(self, settings: Settings) -> tuple[Any, str]:
        """Return the task for all commands and their number of threads.

        Raises UserError if no node is large enough.
        """
        share = 1 if settings.address else max(1, cores() // settings.slots)
        cpus = settings.cpus or share
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        has = [(resources.get("CPU", 0), resources.get("GPU", 0)) for resources in alive]
        largest, most = map(max, zip(*(has or [(0, 0)]), strict=True))
        gpus = min(1, most) if settings.gpus is None else settings.gpus
        if not any(cpu >= cpus and gpu >= gpus for cpu, gpu in has):
            raise UserError(
                f"--engine ray: no node has {cpus} CPU cores and {gpus:g} GPUs for a run: give "
                f"fewer with --cpus-per-run (at most {largest:g}) and --gpus-per-run (at most "
                f"{most:g})"
            )
        # no retry: Ray's would start while the command of a lost worker still saves its state.
        # One call: if a command is left behind, it gets SIGTERM when the worker ends
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0, "max_calls": 1}
        chosen = None if settings.cpus else os.environ.get(THREADS)
        return self._ray.remote(**options)(waiter(POLL)), chosen or str(cpus)


def waiter(poll: float) -> Callable[..., int]:
    """Return the task: it starts a command, waits for it, and returns its exit code.

    Nested functions go to the workers by value, so these need not import ``multitask``.
    """
    start = starter()

    def wait(command: Sequence[str], log: str, variables: Mapping[str, str], directory: str) -> int:
        process = start(command, log, variables, directory)
        try:
            while process.poll() is None:
                time.sleep(poll)  # `ray.cancel` does not interrupt `process.wait`
        except KeyboardInterrupt:
            process.terminate()
        return process.wait()

    return wait
