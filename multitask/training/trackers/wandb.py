"""Weights & Biases: online if you are logged in, else as files that ``wandb sync`` uploads."""

import os
import secrets
from collections.abc import Sequence
from typing import Any

from multitask.training.trackers.base import PROJECT, Row, TrackedRun, Tracker

TIMEOUT = 10.0  # seconds to wait for the server, at the start and at the end


class WeightsAndBiases(Tracker):
    """Sends everything again after a resume: the server has each step once.

    A run that was killed may have left an empty file, so what it has sent is unknown.
    """

    modules = ("wandb",)

    def start(self, run: TrackedRun, run_id: str | None) -> str:
        import wandb

        run_id = run_id or secrets.token_hex(4)
        mode: Any = os.environ.get("WANDB_MODE") or "online"
        # neither network nor question
        if mode == "online" and not wandb.login(verify=False, prompt=False):
            mode = "offline"
        limits = {"init_timeout": TIMEOUT, "finish_timeout": TIMEOUT}
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run_id,
            name=run.name,
            group=run.sweep,
            config=dict(run.config),
            dir=run.directory.make(run.directory.trackers),
            mode=mode,
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(silent=True, console="off", **limits),
        )
        return run_id

    def log(self, rows: Sequence[Row]) -> None:
        for step, values in rows:
            self._run.log(values, step=step)

    def report(self, row: Row) -> None:
        self._run.summary.update(row.values)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
