"""A tracker that keeps what it gets in memory, and fails when it is told to."""

from collections.abc import Sequence

from multitask.training.trackers.base import Row, TrackedRun, Tracker

NAME = "fake"
TARGET = "tests.support.fake_tracker:FakeTracker"


class FakeTracker(Tracker):
    """Its runs are in the class, so a resume in the same process finds them."""

    modules = ("json",)
    packages = "nothing"
    runs: dict[str, dict] = {}
    failing = ""  # the method that raises

    def _call(self, method: str) -> None:
        if FakeTracker.failing == method:
            raise ConnectionError(f"no server in\n{method}")

    def start(self, run: TrackedRun, run_id: str | None) -> str:
        self._call("start")
        self.id = run_id or f"id-{len(self.runs)}"
        entry = self.runs.setdefault(self.id, {"rows": [], "reports": [], "closed": []})
        entry |= {"name": run.name, "config": run.config, "sweep": run.sweep}
        return self.id

    def sent(self) -> set[tuple[str, int]]:
        return {(tag, row.step) for row in self.runs[self.id]["rows"] for tag in row.values}

    def log(self, rows: Sequence[Row]) -> None:
        self._call("log")
        self.runs[self.id]["rows"] += rows

    def report(self, row: Row) -> None:
        self._call("report")
        self.runs[self.id]["reports"].append(row)

    def close(self, finished: bool) -> None:
        self._call("close")
        self.runs[self.id]["closed"].append(finished)
