"""The SLURM engine: its script and its saved files with stand-ins, then with a real SLURM.

The tests marked ``engines`` need SLURM's node of tests/support/slurm.sh; ``make test-engines``.
"""

import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from multitask.sweep.engines import slurm
from multitask.sweep.engines.base import Job, Settings
from multitask.sweep.engines.slurm import Slurm
from multitask.utils.errors import UserError
from tests.support.engine_jobs import begun, job_of, let_end
from tests.support.fake_sweep import ALL, background, starts, until


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    """Three jobs of a sweep; the directory's name needs quotes."""
    sweep = tmp_path / "it's a 100% sweep"
    sweep.mkdir()
    names = ("a seed 1", "b seed 1", "a seed 2")
    return [job_of(sweep, name) for name in names]


def engine_of(of_the_sweep: list[Job], **more: object) -> Slurm:
    return Slurm(Settings(of_the_sweep[0].directory.parent, **more))


# --- with stand-ins ---


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins: each notes its call and prints the file ANSWERS/NAME; without one it fails."""
    answers = tmp_path / "answers"
    answers.mkdir()
    for name in slurm.PROGRAMS:
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!/bin/bash\necho "{name} $*" >>{answers}/calls\n'
            f'cat {answers}/{name} 2>/dev/null || {{ echo "{name}: error: no" >&2; exit 1; }}\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "POLL", 0.0)
    (answers / "sbatch").write_text("7;cluster\n")
    (answers / "squeue").write_text("7_0\n7_1\n7_2\n6_1\n")
    return answers


def code_file(jobs: list[Job], task: int, array: int = 1) -> Path:
    return jobs[0].directory.parent / "slurm" / str(array) / f"{task}.code"


def test_a_task_that_left_the_queue_without_a_code_is_lost_after_a_while(
    jobs, programs, monkeypatch
):
    engine = engine_of(jobs)
    engine.submit(jobs)
    assert engine.ended() == {} and len(engine.running()) == 3
    (programs / "squeue").write_text("7_2\n")
    assert engine.ended() == {}  # on NFS the code may come late
    code_file(jobs, 0).write_text("2\n")
    assert engine.ended() == {"a seed 1": 2}
    monkeypatch.setattr(slurm, "LATE", -1.0)
    assert engine.ended() == {"b seed 1": -signal.SIGKILL}
    assert engine.running() == ["a seed 2"]


def test_while_slurm_does_not_answer_nothing_is_lost(jobs, programs, monkeypatch):
    monkeypatch.setattr(slurm, "LATE", -1.0)
    engine = engine_of(jobs)
    engine.submit(jobs)
    (programs / "squeue").unlink()
    assert engine.ended() == {}
    code_file(jobs, 1).write_text("137\n")
    assert engine.ended() == {"b seed 1": -9}
    with pytest.raises(UserError, match="squeue does not answer: squeue: error: no; try again"):
        engine_of(jobs)


def test_a_second_start_finds_the_tasks_in_the_queue_and_only_these(jobs, programs):
    engine = engine_of(jobs)
    engine.submit(jobs[:2])
    (programs / "sbatch").write_text("8\n")
    engine.submit(jobs[2:])
    code_file(jobs, 0).write_text("0\n")  # has ended
    (programs / "squeue").write_text("7_0\n7_1\n")  # 8_0 is lost
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == ["b seed 1"]
    (programs / "sbatch").write_text("9\n")
    second.submit([jobs[2]])
    (programs / "squeue").write_text("7_1\n9_0\n")
    third = engine_of(jobs)
    third.attach(jobs)
    assert third.running() == ["b seed 1", "a seed 2"]
    assert engine.ended() == {"a seed 1": 0}  # a second start takes nothing from the first


def test_what_another_sweep_has_submitted_since_is_not_submitted_again(jobs, programs):
    first, second = engine_of(jobs), engine_of(jobs)
    second.attach(jobs)
    first.submit(jobs[1:])
    (programs / "sbatch").write_text("9\n")
    second.submit(jobs)
    assert sorted(task.id for task in second._tasks.values()) == ["7_0", "7_1", "9_0"]
    second.submit(jobs)
    assert (programs / "calls").read_text().count("sbatch") == 2


def test_a_job_that_is_queued_with_other_values_is_refused(jobs, programs):
    engine_of(jobs).submit(jobs)
    changed = replace(jobs[1], command=("true",))
    with pytest.raises(UserError, match=r"^b seed 1: .*with other values.*`scancel 7_1`"):
        engine_of(jobs).attach([jobs[0], changed])


def test_a_start_waits_for_the_sbatch_of_a_sweep_that_was_killed(jobs, programs, tmp_path):
    """Its job would be submitted twice otherwise."""
    sbatch = tmp_path / "bin" / "sbatch"
    wait = "touch began; while [ ! -e go ]; do sleep 0.05; done; echo 7"
    sbatch.write_text(f"#!/bin/bash\ncd '{tmp_path}'; {wait}\n")
    killed = forked(engine_of(jobs).submit, jobs[:1])
    until((tmp_path / "began").exists)
    killed.kill()
    killed.join()
    waiting = subprocess.Popen(["bash", "-c", f"sleep 0.5; touch '{tmp_path}/go'"])
    second = engine_of(jobs)
    second.attach(jobs)
    waiting.wait()
    assert second.running() == [jobs[0].name]


def forked(function: Callable[..., object], *arguments: object) -> multiprocessing.Process:
    """Call a function in a separate process."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def test_what_sbatch_refuses_is_one_line_and_submitted_again_later(jobs, programs):
    (programs / "sbatch").unlink()
    engine = engine_of(jobs)
    with pytest.raises(UserError, match=r"^--engine slurm: sbatch refuses .*script\.sh: .*no$"):
        engine.submit(jobs)
    assert engine.running() == []
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == []


def test_queued_tasks_are_cancelled_and_running_ones_get_sigterm(jobs, programs):
    engine = engine_of(jobs)
    engine.submit(jobs)
    engine.cancel(["b seed 1", "a seed 2"])
    calls = (programs / "calls").read_text().splitlines()
    assert calls[-3:] == [
        "scontrol update JobId=7_1,7_2 Requeue=0",
        "scancel --state=PENDING 7_1 7_2",
        "scancel --state=RUNNING --signal=TERM 7_1 7_2",
    ]
    (programs / "squeue").write_text("7_0\n7_2\n")
    assert engine.ended() == {"b seed 1": -signal.SIGTERM}
    # the signal may have come too early: again
    assert (programs / "calls").read_text().splitlines()[-1].endswith("--signal=TERM 7_2")


@pytest.mark.parametrize(
    ("code", "expected"), [(0, 0), (2, 2), (-9, -9), (-10, -10), (75, None), (128, 128)]
)
def test_the_script_writes_log_and_code_or_queues_the_job_again(
    code, expected, jobs, programs, tmp_path, monkeypatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    srun = tmp_path / "bin" / "srun"
    srun.write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\n"$@"\n')
    (programs / "scontrol").touch()
    let_end(jobs[1], code)
    engine = engine_of(jobs, cpus=3)
    engine.submit(jobs)
    code_file(jobs, 1).write_text("2\n")  # of an earlier start of the task
    script = code_file(jobs, 1).with_name("script.sh")
    task = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "9", "SLURM_CPUS_PER_TASK": "3"}
    subprocess.run(["bash", script], env={**os.environ, **task}, check=False)
    assert engine._tasks["b seed 1"].code() == expected
    log = jobs[1].log.read_text()
    assert log.startswith("# start ") and "\nbegun a 'word' of b seed 1 3\n" in log
    requeued = "scontrol requeue 9" in (programs / "calls").read_text()
    assert requeued == (code == 75)


def test_a_task_that_slurm_does_not_queue_again_has_ended_with_75(
    jobs, programs, tmp_path, monkeypatch
):
    (tmp_path / "bin" / "srun").write_text("#!/bin/bash\nexit 75\n")
    engine = engine_of(jobs)
    engine.submit(jobs)
    script = code_file(jobs, 0).with_name("script.sh")
    task = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_ID": "9", "SLURM_CPUS_PER_TASK": "1"}
    subprocess.run(["bash", script], env={**os.environ, **task}, check=False)
    assert engine.ended() == {"a seed 1": 75}


def test_options_of_the_user_replace_those_of_the_sweep(jobs, programs):
    options = {"partition": "gpu", "signal": "TERM@600", "comment": "it's mine"}
    engine_of(jobs, jobs=2, cpus=4, slurm=options).submit(jobs)
    lines = code_file(jobs, 0).with_name("script.sh").read_text().splitlines()
    lines = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    assert {"--array=0-2%2", "--cpus-per-task=4", "--partition=gpu", "--requeue"} < set(lines)
    assert {line for line in lines if line.startswith("--signal")} == {"--signal=TERM@600"}
    assert "--open-mode=append" in lines


@pytest.mark.parametrize("option", slurm.TAKEN)
def test_options_that_the_sweep_needs_are_refused(option, jobs, programs):
    with pytest.raises(UserError, match=f"^--slurm {option}: the sweep sets this option: "):
        engine_of(jobs, slurm={option: "1"})


def test_a_share_of_a_gpu_is_refused(jobs, programs):
    with pytest.raises(UserError, match=r"^--gpus-per-run: .*--slurm gres=gpu:1"):
        engine_of(jobs, gpus=0.5)


def test_a_machine_without_slurm_is_one_line(jobs, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no sbatch here: start the sweep on a machine"):
        engine_of(jobs)


# --- with a real SLURM ---


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SLURM that answers; the test skips where there is none."""
    if shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip("no SLURM is running: tests/support/slurm.sh COMMAND starts one")
    monkeypatch.setattr(slurm, "POLL", 0.2)


def codes_of(engine: Slurm, number: int) -> dict[str, int]:
    """Wait until so many jobs have ended."""
    codes: dict[str, int] = {}
    until(lambda: codes.update(engine.ended()) or len(codes) >= number)
    return codes


def state_of(task: str) -> str:
    return subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%T", f"--jobs={task}"],
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.engines
def test_jobs_run_one_at_a_time_and_their_codes_come_back(jobs, cluster):
    engine = engine_of(jobs, slurm={"time": "5"})
    engine.submit(jobs)
    for job, code in zip(jobs, (2, -9, 0), strict=True):
        until(begun(job))
        others = [other for other in jobs if other is not job]
        assert not any(begun(other)() and other.name in engine.running() for other in others)
        let_end(job, code)
        assert codes_of(engine, 1) == {job.name: code}
    assert engine.running() == []
    log = jobs[0].log.read_text()
    assert log.startswith("# start ") and "begun a 'word' of a seed 1 1\n" in log


@pytest.mark.engines
def test_jobs_go_on_after_kill_9_and_the_next_start_finds_them(jobs, cluster):
    def submit_and_die() -> None:
        engine_of(jobs).submit(jobs)
        os.kill(os.getpid(), signal.SIGKILL)

    killed = forked(submit_and_die)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    until(begun(jobs[0]))
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == [job.name for job in jobs]
    for job in jobs:
        let_end(job)
    assert codes_of(second, 3) == {job.name: 0 for job in jobs}
    assert all(job.log.read_text().count("# start ") == 1 for job in jobs)
    third = engine_of(jobs)
    third.attach(jobs)
    assert third.running() == []


@pytest.mark.engines
def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(jobs, cluster):
    engine = engine_of(jobs)
    engine.submit(jobs[:1])
    until(begun(jobs[0]))
    task = engine._tasks["a seed 1"].id
    subprocess.run(["scancel", "--signal=TERM", task], check=True)  # as `--signal` does
    until(lambda: state_of(task) == "PENDING")
    assert engine.ended() == {} and engine.running() == ["a seed 1"]
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == ["a seed 1"]
    # SLURM makes it wait two minutes
    subprocess.run(["scontrol", "update", f"JobId={task}", "StartTime=now"], check=True)
    until(begun(jobs[0], 2))
    let_end(jobs[0])
    assert codes_of(second, 1) == {"a seed 1": 0}
    assert "\nsaved\n# start " in jobs[0].log.read_text()


@pytest.mark.engines
def test_cancelled_jobs_save_and_are_not_queued_again(jobs, cluster):
    engine = engine_of(jobs)
    engine.submit(jobs)
    until(begun(jobs[0]))
    engine.cancel(engine.running())
    assert codes_of(engine, 3) == {"a seed 1": 75, "b seed 1": -15, "a seed 2": -15}
    assert jobs[0].log.read_text().endswith("\nsaved\n")
    assert not jobs[1].log.exists() and not jobs[2].log.exists()
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == []


@pytest.mark.engines
def test_a_job_that_slurm_killed_is_lost_and_can_be_submitted_again(jobs, cluster, monkeypatch):
    monkeypatch.setattr(slurm, "LATE", 0.5)
    engine = engine_of(jobs)
    engine.submit(jobs[:1])
    until(begun(jobs[0]))
    subprocess.run(["scancel", "--signal=KILL", "--full", engine._tasks["a seed 1"].id], check=True)
    assert codes_of(engine, 1)["a seed 1"] < 0
    engine.submit(jobs[:1])
    until(begun(jobs[0], 2))
    let_end(jobs[0])
    assert codes_of(engine, 1) == {"a seed 1": 0}


@pytest.mark.engines
def test_sbatchs_own_words_are_in_the_error(jobs, cluster):
    with pytest.raises(UserError, match="invalid partition specified: nowhere"):
        engine_of(jobs, slurm={"partition": "nowhere"}).submit(jobs)


@pytest.mark.engines
def test_detach_submits_and_writes_the_table_and_the_next_start_waits(grid, cluster, monkeypatch):
    hold = grid.with_name("hold")
    hold.touch()
    monkeypatch.setenv("FAKE_HOLD", str(hold))
    command = (grid, "--engine", "slurm", "--jobs", 2)
    detached = background(*command, "--detach")
    said, _ = detached.communicate(timeout=60)
    assert detached.returncode == 0, said
    assert "4 runs are in the queue of slurm" in said
    until(lambda: starts("a", 1) and starts("b", 1))
    waiting = background(*command)
    hold.unlink()
    said, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, said
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]
    assert "written: runs/g/table.md" in said
