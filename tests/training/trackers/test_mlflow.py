"""MLflow's client finds in its SQLite file what metrics.jsonl says, each step once."""

import pytest

from tests.support.run_files import report_of
from tests.support.tracked_runs import (
    Curves,
    check_same,
    command,
    expected,
    kill_and_resume,
    run_id,
    train,
)

mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
pytest.importorskip("sqlalchemy", reason="pip install sqlalchemy")
pytest.importorskip("alembic", reason="pip install alembic")
pytestmark = pytest.mark.engines
TRACKED = "training.trackers=[mlflow]"


@pytest.fixture
def database(monkeypatch, tmp_path) -> str:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def recorded(client, run) -> Curves:
    histories = {tag: client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics}
    return {tag: sorted((m.step, m.value) for m in items) for tag, items in histories.items()}


def test_a_killed_run_is_resumed_under_its_id_with_each_step_once(
    tiny_overrides, tmp_path, monkeypatch, database
):
    monkeypatch.setenv("MULTITASK_SWEEP", "poolings")
    kill_and_resume(tiny_overrides, TRACKED)
    client = mlflow.MlflowClient(database)
    experiment = client.get_experiment_by_name("multitask")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == run_id(tmp_path / "run", "mlflow")
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.tags["sweep"] == "poolings"
    assert run.data.params["training.checkpoint_steps"] == "4"
    check_same(recorded(client, run), expected(tmp_path / "run"))


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:9",
        "sqlite:////proc/mlflow.db",
        "sqlite:////dev/null/mlflow.db",
        "sqlite:////",
    ],
)
def test_a_server_or_file_that_cannot_be_used_costs_one_warning(
    uri, tiny_overrides, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    done = train(command(tiny_overrides, "training.max_steps=2", TRACKED))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: mlflow")]
    assert len(warnings) == 1 and "the run goes on without it" in warnings[0]
    assert "will be retried" not in done.stderr
    assert report_of(tmp_path / "run")["steps"]["done"] == 2
