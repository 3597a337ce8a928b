"""trackio: a SQLite file in ``TRACKIO_DIR``, on this machine only."""

import contextlib
import io
import os
import uuid
from collections.abc import Sequence

from multitask.training.trackers.base import PROJECT, Row, TrackedRun, Tracker


class Trackio(Tracker):
    """Asks trackio after a resume which steps it has, and sends the others."""

    modules = ("trackio",)

    def start(self, run: TrackedRun, run_id: str | None) -> str:
        import trackio

        # not trackio.init: it continues runs by name, and two directories may have the same one
        self._run = trackio.Run(
            url=None,
            client=None,
            project=os.environ.get("TRACKIO_PROJECT") or PROJECT,
            name=run.name,
            run_id=run_id or uuid.uuid4().hex,
            group=run.sweep,
            config=dict(run.config),
        )
        return str(self._run.id)

    def sent(self) -> set[tuple[str, int]]:
        from trackio.sqlite_storage import SQLiteStorage

        run = self._run
        rows = SQLiteStorage.get_logs(run.project, run=run.name, run_id=run.id)
        return {(tag, row["step"]) for row in rows for tag in row}

    def log(self, rows: Sequence[Row]) -> None:
        for step, values in rows:
            self._run.log(values, step=step)

    def close(self, finished: bool) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it says that it uploads
            self._run.finish()
