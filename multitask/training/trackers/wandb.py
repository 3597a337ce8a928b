"""Weights & Biases: online if you are logged in, else as files that ``wandb sync`` uploads."""

import os
import secrets
import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

from multitask.training.trackers.base import PROJECT, Row, TrackedRun, Tracker
from multitask.utils.errors import reason_of, warn

TIMEOUT = 10.0  # seconds to wait for the server, at the start and at the end


class WeightsAndBiases(Tracker):
    """Sends everything again after a resume: the server has each step once.

    A run that was killed may have left an empty file, so what it has sent is unknown.
    """

    modules = ("wandb",)

    def start(self, run: TrackedRun, run_id: str | None) -> str:
        import wandb

        run_id = run_id or secrets.token_hex(4)
        limits = {"init_timeout": TIMEOUT, "finish_timeout": TIMEOUT}
        begin = partial(
            wandb.init,
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run_id,
            name=run.name,
            group=run.sweep,
            config=dict(run.config),
            dir=run.directory.make(run.directory.trackers),
            settings=wandb.Settings(silent=True, console="off", **limits),
        )
        mode: Any = os.environ.get("WANDB_MODE") or "online"
        self._run: Any = None
        if mode == "online":
            try:
                if wandb.login(verify=False, prompt=False):  # neither network nor question
                    self._run = begin(mode=mode, resume="allow")
            except Exception as error:  # no network, or a wrong key
                wandb.teardown()  # it would hold the id
                reason = reason_of(error, 200)
                self._run = begin(mode="offline")
                warn(f"wandb: no connection ({reason}): the run is in a file; {self._advice}")
        if self._run is None:
            self._run = begin(mode="offline" if mode == "online" else mode)
        return run_id

    @property
    def _advice(self) -> str:
        return f"upload it with `wandb sync {shlex.quote(self._run.settings.sync_dir)}`"

    def log(self, rows: Sequence[Row]) -> None:
        for step, values in rows:
            self._run.log(values, step=step)

    def report(self, row: Row) -> None:
        self._run.summary.update(row.values)

    def close(self, finished: bool) -> None:
        try:
            self._run.finish(exit_code=0 if finished else 1)
        except Exception as error:  # the network was lost
            raise ConnectionError(f"{reason_of(error, 100)}; {self._advice}") from error
