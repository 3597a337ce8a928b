"""MLflow: the server of ``MLFLOW_TRACKING_URI``, or a SQLite file in the working directory."""

import os
import time
from collections.abc import Sequence

from multitask.store.prepare_run import flat
from multitask.training.trackers.base import PROJECT, Row, TrackedRun, Tracker

# the library waits 120 seconds and tries 8 times; it also reports its use to its makers
DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
METRICS, PARAMS = 1000, 100  # the most that one call may send


class MLflow(Tracker):
    """Asks MLflow after a resume which steps it has, and sends the others."""

    modules = ("mlflow", "sqlalchemy", "alembic")

    def start(self, run: TrackedRun, run_id: str | None) -> str:
        os.environ.update({name: v for name, v in DEFAULTS.items() if name not in os.environ})
        import mlflow
        from mlflow.store.db import utils

        # it has no variable: the library tries ten times, for 100 seconds
        utils.MAX_RETRY_COUNT = 1
        if not mlflow.is_tracking_uri_set():
            mlflow.set_tracking_uri("sqlite:///mlflow.db")
        self._client = client = mlflow.MlflowClient()
        if run_id is None:
            group = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT)
            tags = {"sweep": run.sweep} if run.sweep else {}
            made = client.create_run(group.experiment_id, tags=tags, run_name=run.name)
            run_id = str(made.info.run_id)
        self._id = run_id
        client.update_run(run_id, status="RUNNING")
        has = client.get_run(run_id).data.params
        items = [(key, value) for key, value in flat(dict(run.config)).items() if key not in has]
        params = [mlflow.entities.Param(key, str(value)) for key, value in items]
        for first in range(0, len(params), PARAMS):
            client.log_batch(run_id, params=params[first : first + PARAMS])
        return run_id

    def sent(self) -> set[tuple[str, int]]:
        tags, history = self._client.get_run(self._id).data.metrics, self._client.get_metric_history
        return {(tag, metric.step) for tag in tags for metric in history(self._id, tag)}

    def log(self, rows: Sequence[Row]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(tag, v, now, step) for step, row in rows for tag, v in row.items()]
        for first in range(0, len(metrics), METRICS):
            self._client.log_batch(self._id, metrics=metrics[first : first + METRICS])

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")
