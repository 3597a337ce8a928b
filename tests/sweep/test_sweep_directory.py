"""One run of a sweep on disk."""

import json

import pytest

from multitask.sweep.sweep_directory import Run, error_line, mean_score


@pytest.mark.parametrize(
    ("log", "code", "line"),
    [
        ("# start 1\nerror: old\n# start 2\nerror: new\nmore\n", 2, "new"),
        ("# start 1\nerror: old\n# start 2\nTraceback\n  x\nKeyError: 3\n\n", 1, "KeyError: 3"),
        ("# start 1\n", 3, "exit code 3, and nothing said"),
        ("# start 1\nwords\n", -9, "killed by signal 9 (Killed)"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_starts_error_line(log, code, line, tmp_path):
    (tmp_path / "x.log").write_text(log)
    assert error_line(tmp_path / "x.log", code) == line


@pytest.mark.parametrize("code", [2, -9])
def test_a_start_that_said_nothing_is_found_by_its_host_and_its_log(code, tmp_path):
    log = tmp_path / "x.log"
    log.write_text("# start 1 on gpu-7: python\nwords\n# start 2 on gpu-8: python a: b\n\n")
    line = error_line(log, code)
    assert "gpu-8" in line and "gpu-7" not in line and str(log) in line and "a: b" not in line


@pytest.mark.parametrize(("mean", "words"), [(0.7314, "mean 0.731"), (None, "mean -")])
def test_a_run_is_finished_with_its_report(mean, words, tmp_path):
    run = Run("mean", 3, tmp_path / "seed-3", config=None, arguments=())
    run.directory.mkdir()
    assert not run.finished and not run.settled
    report = {"overall": {"mean": mean}, "tasks": {}, "seed": 3, "selection_split": "dev"}
    (run.directory / "report.json").write_text(json.dumps(report))
    assert run.finished and mean_score(run) == words
    assert run.name == "mean seed 3" and run.log == tmp_path / "logs" / "seed-3.log"
    assert run.settled  # of an older version, without a lock
    for owner in ("host a, process 1", ""):  # it was killed, or it has ended
        run.files.lock.write_text(owner)
        assert run.settled is not bool(owner)
