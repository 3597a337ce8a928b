"""metrics.jsonl: a line at once, and cut back to a checkpoint on resume."""

import hashlib
import math

import pytest

from multitask.training.metric_log import MetricLog, check_log
from multitask.utils.errors import UserError
from tests.support.run_files import events


@pytest.fixture
def log(tmp_path):
    made = MetricLog(tmp_path / "metrics.jsonl")
    yield made
    made.close()


def test_a_line_is_in_the_file_at_once_and_nan_is_null(log, tmp_path):
    log.write("step", step=1, loss=0.5, nested={"a": math.nan, "b": [math.inf, 1.0]})
    (line,) = events(tmp_path)
    nested = {"a": None, "b": [None, 1.0]}
    assert line == {"event": "step", "step": 1, "loss": 0.5, "nested": nested}


def test_a_new_log_goes_on_behind_the_old_lines(log, tmp_path):
    log.write("plan", step=0)
    log.close()
    again = MetricLog(log.file)
    again.write("step", step=1)
    assert again.state_dict()["sha256"] == hashlib.sha256(log.file.read_bytes()).hexdigest()
    again.close()
    assert [line["event"] for line in events(tmp_path)] == ["plan", "step"]


def test_what_came_after_a_checkpoint_is_forgotten(log, tmp_path):
    log.write("step", step=1)
    saved = log.state_dict()
    assert saved["size"] == log.file.stat().st_size
    log.write("step", step=2)
    log.load_state_dict(saved)
    log.write("step", step=3)
    assert [line["step"] for line in events(tmp_path)] == [1, 3]


def test_a_log_that_was_changed_is_said(log, capsys):
    log.write("step", step=1)
    saved = log.state_dict()
    log.load_state_dict(saved)
    assert not capsys.readouterr().err
    log.file.write_text(log.file.read_text().replace("1", "2"))
    log.load_state_dict(saved)
    assert "metrics.jsonl is not as it was written" in capsys.readouterr().err


def test_a_log_that_lost_lines_is_refused(log):
    log.write("step", step=1)
    saved = log.state_dict()
    log.truncate(3)
    with pytest.raises(UserError, match="is shorter than when this checkpoint was saved"):
        check_log(log.file, saved)


def test_other_processes_than_the_first_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("multitask.utils.distributed.rank", lambda: 1)
    log = MetricLog(tmp_path / "other.jsonl")
    log.write("step", step=1)
    log.close()
    assert log.size() == 0 and not log.file.exists()
