"""The SLURM engine: its script and its saved files with stand-ins, then with a real SLURM.

The tests marked ``engines`` need the two nodes of tests/support/slurm.sh; ``make test-engines``.
"""

# Long: each fault of a cluster is tried with stand-ins, which CI has always, and on a real SLURM

import errno
import fcntl
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from multitask.sweep import pool
from multitask.sweep.engines import slurm
from multitask.sweep.engines.base import Job, Settings
from multitask.sweep.engines.slurm import Slurm
from multitask.sweep.sweep_directory import error_line
from multitask.utils.errors import UserError
from tests.support.engine_jobs import begun, job_of, let_end
from tests.support.fake_sweep import ALL, background, ended, starts, swept, until


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


@pytest.fixture
def submitted(jobs: list[Job], programs: Path) -> Slurm:
    """An engine that has submitted the jobs."""
    engine = engine_of(jobs)
    engine.submit(jobs)
    return engine


def code_file(jobs: list[Job], task: int, array: int = 1) -> Path:
    return jobs[0].directory.parent / "slurm" / str(array) / f"{task}.code"


def test_a_task_that_left_the_queue_without_a_code_is_lost_after_a_while(
    jobs, submitted, programs, monkeypatch
):
    assert submitted.ended() == {} and len(submitted.running()) == 3
    (programs / "squeue").write_text("7_2\n")
    assert submitted.ended() == {}  # on NFS the code may come late
    code_file(jobs, 0).write_text("2\n")
    assert submitted.ended() == {"a seed 1": 2}
    monkeypatch.setattr(slurm, "LATE", -1.0)
    assert submitted.ended() == {"b seed 1": -signal.SIGKILL}
    assert submitted.running() == ["a seed 2"]


def test_while_slurm_does_not_answer_nothing_is_lost(jobs, submitted, programs, monkeypatch):
    monkeypatch.setattr(slurm, "LATE", -1.0)
    (programs / "squeue").unlink()
    assert submitted.ended() == {}
    code_file(jobs, 1).write_text("137\n")
    assert submitted.ended() == {"b seed 1": -9}
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


def test_queued_tasks_are_cancelled_and_running_ones_get_sigterm(submitted, programs):
    submitted.cancel(["b seed 1", "a seed 2"])
    calls = (programs / "calls").read_text().splitlines()
    assert calls[-3:] == [
        "scontrol update JobId=7_1,7_2 Requeue=0",
        "scancel --state=PENDING 7_1 7_2",
        "scancel --state=RUNNING --signal=TERM 7_1 7_2",
    ]
    (programs / "squeue").write_text("7_0\n7_2\n")
    assert submitted.ended() == {"b seed 1": -signal.SIGTERM}
    # the signal may have come too early: again
    assert (programs / "calls").read_text().splitlines()[-1].endswith("--signal=TERM 7_2")


@pytest.fixture
def srun(programs, tmp_path, monkeypatch) -> Path:
    """A stand-in for srun that runs the command; SLURM can queue a task again."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    file = tmp_path / "bin" / "srun"
    file.write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\n"$@"\n')
    (programs / "scontrol").touch()
    return file


def run_script(jobs: list[Job], task: int) -> None:
    """Run the script of the first array as SLURM runs it for a task, the last of the array."""
    script = code_file(jobs, task).with_name("script.sh")
    variables = {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(task)}
    # the last task has the array's own number
    variables |= {"SLURM_JOB_ID": "4711", "SLURM_CPUS_PER_TASK": "3", "SLURMD_NODENAME": "n7"}
    with code_file(jobs, task).with_suffix(".log").open("a") as log:
        command = ["bash", script]
        subprocess.run(command, env={**os.environ, **variables}, check=False, stderr=log)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, 0), (2, 2), (-9, -9), (-10, -10), (75, None), (-15, None), (128, 128)],
)
def test_the_script_writes_log_and_code_or_queues_its_task_again(
    code, expected, jobs, programs, srun
):
    let_end(jobs[1], code)
    engine = engine_of(jobs, cpus=3)
    engine.submit(jobs)
    code_file(jobs, 1).write_text("2\n")  # of an earlier start of the task
    run_script(jobs, 1)
    assert engine._tasks["b seed 1"].code() == expected
    log = jobs[1].log.read_text()
    assert log.startswith("# start ") and "\nbegun a 'word' of b seed 1 3\n" in log
    calls = (programs / "calls").read_text().splitlines()
    # not the whole array
    asked = [call for call in calls if call.startswith("scontrol requeue ")]
    assert asked == (["scontrol requeue 4711_1"] if expected is None else [])


def test_a_task_that_slurm_does_not_queue_again_has_ended_with_75(jobs, submitted, programs, srun):
    srun.write_text("#!/bin/bash\nexit 75\n")
    (programs / "scontrol").unlink()
    run_script(jobs, 0)
    assert submitted.ended() == {}  # it leaves the queue later, or SLURM has queued it again itself
    (programs / "squeue").write_text("7_1\n7_2\n")
    assert submitted.ended() == {"a seed 1": 75}


def test_a_run_that_gets_no_further_is_failed_after_three_starts(jobs, submitted, programs, srun):
    srun.write_text("#!/bin/bash\nexit 75\n")
    metrics = jobs[0].directory / "metrics.jsonl"
    jobs[0].directory.mkdir()
    run_script(jobs, 0)
    run_script(jobs, 0)
    srun.write_text(f"#!/bin/bash\necho '{{}}' >>\"{metrics}\"\nexit 75\n")
    run_script(jobs, 0)
    srun.write_text("#!/bin/bash\nexit 75\n")
    run_script(jobs, 0)
    run_script(jobs, 0)
    assert submitted._tasks["a seed 1"].code() is None
    run_script(jobs, 0)
    code = submitted._tasks["a seed 1"].code()
    assert code == 2 and "three starts" in error_line(jobs[0].log, code)
    assert (programs / "calls").read_text().count("scontrol requeue 4711_0") == 5


def test_a_command_that_could_not_start_is_found_by_its_node_and_slurms_log(jobs, submitted, srun):
    srun.write_text("#!/bin/bash\necho 'execve(): no such file' >&2\nexit 2\n")
    run_script(jobs, 2)
    line = error_line(jobs[2].log, 2)
    assert "n7" in line and str(code_file(jobs, 2).with_suffix(".log")) in line
    assert "execve(): no such file" in line


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ('export OF_THE_JOB="a module"\r\necho loaded\nexec nice "$@"\n', 0, "begun a module 1"),
        ("set -e\nno-such-module\n", 127, "no-such-module"),  # it ends, and so does the run
        ("if true\n", 2, "syntax error"),
    ],
)
def test_setup_lines_run_before_each_command_and_may_wrap_it(
    text, code, last, jobs, programs, srun, tmp_path
):
    setup = tmp_path / "it's a setup"
    setup.write_text(text)
    let_end(jobs[1])
    engine = engine_of(jobs, slurm_setup=setup)
    engine.submit(jobs)
    run_script(jobs, 1)
    assert engine._tasks["b seed 1"].code() == code
    log = jobs[1].log.read_text()
    assert last in (log.splitlines()[-1] if code == 0 else error_line(jobs[1].log, code))
    assert ("\nloaded\n" in log) == (code == 0)


@pytest.mark.parametrize("content", [None, "#SBATCH --account=x\n"])
def test_a_setup_file_that_cannot_be_used_is_one_line(content, jobs, programs, tmp_path):
    setup = tmp_path / "setup"
    if content is not None:
        setup.write_text(content)
    with pytest.raises(UserError, match=r"^--slurm-setup .*") as caught:
        engine_of(jobs, slurm_setup=setup)
    assert str(setup) in str(caught.value) and "\n" not in str(caught.value)


def asked_of_sbatch(programs: Path) -> list[list[str]]:
    """The options of each call of sbatch."""
    calls = (programs / "calls").read_text().splitlines()
    return [call.split(" --")[1:] for call in calls if call.startswith("sbatch ")]


def test_options_of_the_user_replace_those_of_the_sweep(jobs, programs):
    options = {"partition": "gpu", "signal": "TERM@600", "comment": "it's mine", "exclusive": ""}
    engine_of(jobs, jobs=2, cpus=4, slurm=options).submit(jobs)
    (given,) = asked_of_sbatch(programs)
    given[-1] = given[-1].partition(" /")[0]  # the script
    assert {"array=0-2%2", "cpus-per-task=4", "partition=gpu", "requeue", "exclusive"} < set(given)
    assert {each for each in given if each.startswith("signal")} == {"signal=TERM@600"}
    assert "open-mode=append" in given and "comment=it's mine" in given


@pytest.mark.parametrize("limit", ["MaxArraySize = 2", "MaxArraySize=9\nX=a,max_array_tasks=2,b"])
def test_more_runs_than_an_array_may_have_are_several_arrays(limit, jobs, programs):
    (programs / "scontrol").write_text(f"{limit}\n")
    engine_of(jobs).submit(jobs)
    first, second = asked_of_sbatch(programs)
    assert "array=0-1" in first and "array=0-0" in second
    assert not any("dependency" in option for option in second)


def test_so_many_at_once_holds_over_several_arrays(jobs, programs):
    (programs / "scontrol").write_text("MaxArraySize            = 1\n")
    engine_of(jobs, jobs=1, slurm={"dependency": "afterok:3"}).submit(jobs)
    options = [next(o for o in given if "dependency" in o) for given in asked_of_sbatch(programs)]
    assert [option.partition(" /")[0] for option in options] == [
        "dependency=afterok:3",
        "dependency=afterok:3,afterany:7",
        "dependency=afterok:3,afterany:7",
    ]


@pytest.mark.parametrize("said", ["Welcome to 7 nodes\n 42 users\n\n4711\n", "4711;cluster\nbye\n"])
def test_the_job_id_is_found_among_lines_of_a_banner(said, jobs, programs):
    (programs / "sbatch").write_text(said)
    engine = engine_of(jobs)
    engine.submit(jobs)
    assert engine._tasks["b seed 1"].id == "4711_1"


def test_without_a_job_id_sbatchs_words_are_in_the_error(jobs, programs):
    (programs / "sbatch").write_text("Welcome to 7 nodes\nqueued for review\n")
    engine = engine_of(jobs)
    with pytest.raises(UserError, match="Welcome to 7 nodes queued for review"):
        engine.submit(jobs)
    assert engine.running() == []


def test_variables_of_the_allocation_around_the_sweep_do_not_reach_the_runs(
    jobs, programs, tmp_path, monkeypatch
):
    inside = ("SLURM_CPU_BIND", "SLURM_JOB_ID", "SLURM_EXPORT_ENV", "CUDA_VISIBLE_DEVICES", "PMI_X")
    outside = ("SLURM_CONF", "SBATCH_ACCOUNT", "HF_HOME")
    for name in (*inside, *outside, "SQUEUE_STATES"):
        monkeypatch.setenv(name, "x")
    program = tmp_path / "bin" / "sbatch"
    program.write_text(f"#!/bin/bash\nenv >{tmp_path}/env\necho 7\n")
    (tmp_path / "bin" / "squeue").write_text('#!/bin/bash\n[ ! "$SQUEUE_STATES" ]\n')
    engine_of(jobs).submit(jobs)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names.isdisjoint(inside) and names.issuperset(outside)


@pytest.mark.parametrize("code", ["66:0", "0:53"])
def test_a_node_that_does_not_see_the_directory_is_named_at_once(code, submitted, programs):
    (programs / "squeue").write_text("7_0\n7_2\n")
    (programs / "scontrol").write_text(f"JobState=FAILED ExitCode={code} NodeList=n2 X=\n")
    with pytest.raises(UserError, match=r"node n2 does not see .*exclude=n2"):
        submitted.ended()


def test_a_preempted_task_is_pending_and_not_lost(submitted, programs):
    (programs / "squeue").write_text("7_0\n7_2\n")
    (programs / "scontrol").write_text("JobState=PREEMPTED ExitCode=0:15 NodeList=n2\n")
    assert submitted.ended() == {"b seed 1": 75}


REFUSED = [
    *(({"signal": signal}, "signal=") for signal in ("B:TERM@60", "USR1@60", "TERM@x")),
    *(({option: "1"}, f"{option}: ") for option in slurm.TAKEN),
]


@pytest.mark.parametrize(("options", "key"), REFUSED)
def test_options_with_which_no_run_could_save_are_refused(options, key, jobs, programs):
    with pytest.raises(UserError, match=f"^--slurm {key}"):
        engine_of(jobs, slurm=options)


def test_why_runs_wait_is_said_once_a_minute(submitted, programs, monkeypatch, capsys):
    reasons = "7_0|PENDING|Priority\n7_1|PENDING|Priority\n7_2|RUNNING|None\n6_1|PENDING|Held\n"
    (programs / "squeue").write_text(reasons)
    submitted.ended()
    submitted.ended()
    assert capsys.readouterr().out.count("Priority (2)") == 1
    monkeypatch.setattr(slurm, "TOLD", 0.0)
    submitted.ended()
    assert "Priority (2)" in capsys.readouterr().out
    (programs / "squeue").write_text("7_0|PENDING|JobArrayTaskLimit\n7_1|RUNNING|None\n")
    submitted.ended()
    assert capsys.readouterr().out == ""


def flock_of_nfs(handle, operation: int, flock=fcntl.flock) -> None:
    """NFS gives an exclusive lock only on a file that is opened to write."""
    number = handle if isinstance(handle, int) else handle.fileno()
    access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    if operation & fcntl.LOCK_EX and access == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    flock(handle, operation)


def test_two_sweeps_submit_a_run_once_on_nfs(jobs, programs, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    # both have looked for queued jobs before one submits, unless one waits for the other
    monkeypatch.setattr(slurm, "largest_array", lambda: time.sleep(0.5) or 10)
    both = [forked(engine_of(jobs).submit, jobs) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert len(asked_of_sbatch(programs)) == 1


def test_the_packages_that_a_config_may_name_reach_the_runs(monkeypatch):
    """A node may not get the variables of the sweep."""
    monkeypatch.setenv("MULTITASK_MODULES", "mine")
    assert pool.variables(Path("runs/g"))["MULTITASK_MODULES"] == "mine"


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
    engine = engine_of(jobs, jobs=1, slurm={"time": "5"})
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


def start_now(task: str) -> None:
    """Start a task that waits for its new start: SLURM makes it wait two minutes."""
    until(lambda: state_of(task) == "PENDING")
    time.sleep(2)  # in the second of its end, SLURM would refuse to start it
    subprocess.run(["scontrol", "update", f"JobId={task}", "StartTime=now"], check=True)


@pytest.mark.engines
def test_the_last_job_whose_time_is_over_is_queued_again_alone_and_goes_on(jobs, cluster):
    engine = engine_of(jobs)
    engine.submit(jobs)
    for job in jobs:
        until(begun(job))
    task = engine._tasks["a seed 2"].id
    subprocess.run(["scancel", "--signal=TERM", task], check=True)  # as `--signal` does
    until(lambda: state_of(task) == "PENDING")
    assert engine.ended() == {} and len(engine.running()) == 3
    second = engine_of(jobs)
    second.attach(jobs)
    assert second.running() == [job.name for job in jobs]
    for job in jobs[:2]:
        let_end(job)
    assert codes_of(second, 2) == {job.name: 0 for job in jobs[:2]}
    start_now(task)
    until(begun(jobs[2], 2))
    let_end(jobs[2])
    assert codes_of(second, 1) == {"a seed 2": 0}
    assert "\nsaved\n# start " in jobs[2].log.read_text()
    assert [job.log.read_text().count("# start ") for job in jobs] == [1, 1, 2]


@pytest.mark.engines
def test_a_preempted_job_saves_and_goes_on_when_there_is_room(jobs, cluster, capsys):
    engine = engine_of(jobs, cpus=8, slurm={"constraint": "v100"})  # all of n2
    engine.submit(jobs[:1])
    until(begun(jobs[0]))
    urgent = ["--partition=high", "--cpus-per-task=8", "--constraint=v100", "--output=/dev/null"]
    command = ["sbatch", "--parsable", *urgent, "--wrap=sleep 300"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    until(lambda: "saved\n" in jobs[0].log.read_text() and state_of(done.stdout) == "RUNNING")
    assert engine.ended() == {} and engine.running() == ["a seed 1"]
    subprocess.run(["scancel", done.stdout.strip()], check=True)
    start_now(engine._tasks["a seed 1"].id)
    until(begun(jobs[0], 2))
    let_end(jobs[0])
    assert codes_of(engine, 1) == {"a seed 1": 0}


@pytest.mark.engines
def test_directories_that_a_node_does_not_see_are_one_line(jobs, cluster, monkeypatch):
    if "SLURM_ONLY_N1" not in os.environ:
        pytest.skip("the node n2 has no mounts of its own here")
    output, here = (Path(os.environ["SLURM_ONLY_N1"]) / name for name in ("sweep", "here"))
    output.mkdir()
    here.mkdir()
    hidden = [job_of(output, job.name) for job in jobs]
    engine = Slurm(Settings(output, slurm={"exclude": "n1"}))
    engine.submit(hidden)
    with pytest.raises(UserError, match=r"node n2 does not see .*/sweep"):
        codes_of(engine, 1)
    engine = Slurm(Settings(output, slurm={"constraint": "a100"}))
    engine.submit(hidden[:1])
    let_end(hidden[0])
    assert codes_of(engine, 1) == {"a seed 1": 0}
    monkeypatch.chdir(here)
    engine = engine_of(jobs, slurm={"exclude": "n1"})
    engine.submit(jobs[:1])
    with pytest.raises(UserError, match=r"node n2 does not see .*/here"):
        codes_of(engine, 1)


@pytest.mark.engines
@pytest.mark.parametrize("by", ["variable", "option"])
def test_runs_start_where_a_site_exports_nothing(by, jobs, cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CPU_BIND", "mask_cpu:0x40000000")  # of an allocation around the sweep
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    if by == "variable":
        monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    setup = tmp_path / "setup"
    setup.write_text("export OF_THE_JOB=$SLURM_CPU_BIND.$SLURM_JOB_PARTITION\n")
    options = {"export": "NONE"} if by == "option" else {"constraint": "a100|v100"}
    engine = engine_of(jobs, slurm=options, slurm_setup=setup)
    let_end(jobs[0])
    engine.submit(jobs[:1])
    assert codes_of(engine, 1) == {"a seed 1": 0}
    assert "0x40000000" not in jobs[0].log.read_text()


@pytest.mark.engines
def test_why_jobs_wait_is_said(jobs, cluster, capsys):
    engine = engine_of(jobs, slurm={"begin": "now+1hour"})
    engine.submit(jobs)
    until(lambda: engine.ended() or "BeginTime (3)" in capsys.readouterr().out)
    engine.cancel(engine.running())
    assert codes_of(engine, 3) == {job.name: -15 for job in jobs}


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
def test_detach_submits_and_writes_the_table_and_the_next_start_waits(grid, cluster, hold):
    command = (grid, "--engine", "slurm", "--jobs", 2)
    assert "4 runs are in the queue of slurm" in swept(*command, "--detach")
    until(lambda: starts("a", 1) and starts("b", 1))
    waiting = background(*command)
    hold.unlink()
    assert "written: runs/g/table.md" in ended(waiting)
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]
