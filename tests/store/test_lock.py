"""Who owns a directory: one process at a time, by a lock that ends with it."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import pytest

from multitask.store import lock as lock_module
from multitask.store.lock import Busy, holder, is_unfinished, owned
from multitask.utils.errors import UserError
from tests.conftest import ROOT

OWNER = """
import sys
from pathlib import Path
from multitask.store.lock import owned
with owned(Path(sys.argv[1]), "trains there"):
    print("owned", flush=True)
    input()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "run" / "owner.lock"


@pytest.fixture
def other(lock: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that owns the directory until it reads a line."""
    started = []

    def start(script: str = OWNER) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(lock)],
            cwd=ROOT,
            env={**os.environ, "SLURM_JOB_ID": "12"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "owned\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_another_process_is_refused_with_the_name_of_the_owner(lock, other):
    process = other()
    process.send_signal(signal.SIGSTOP)  # a suspended owner keeps the directory
    with pytest.raises(Busy) as caught, owned(lock, "trains there"):
        pass
    process.send_signal(signal.SIGCONT)
    name = f"host {os.uname().nodename}, process {process.pid}, job 12"
    assert str(caught.value).startswith(
        f"{lock.parent}: another process trains there ({name}): wait"
    )
    assert caught.value.exit_code == 75 and holder(lock) == name
    process.communicate("\n")
    assert holder(lock) is None and not is_unfinished(lock)


def test_a_killed_owner_leaves_the_directory_free_at_once(lock, other):
    process = other()
    process.kill()
    process.wait()
    assert holder(lock) is None and is_unfinished(lock)
    with owned(lock, "trains there"):
        assert f"process {os.getpid()}" in holder(lock)
        (lock.parent / "report").touch()
    assert not is_unfinished(lock)


def test_an_owner_is_waited_for(lock, other):
    process = other()
    names = []

    def waiting(name: str) -> None:
        names.append(name)
        process.communicate("\n")

    with owned(lock, "writes", waiting=waiting):
        assert f"process {os.getpid()}" in holder(lock)
    assert len(names) == 1 and f"process {process.pid}" in names[0]


def test_a_fork_does_not_keep_the_directory(lock, other):
    script = f"import os\n{OWNER}".replace("print", "os.fork() and print")
    process = other(script)
    assert holder(lock)
    process.kill()
    process.wait()
    with owned(lock, "trains there"):
        pass


def test_a_block_inside_another_one_frees_nothing(lock):
    with owned(lock, "trains there"):
        with owned(lock, "trains there"):
            pass
        assert holder(lock) and is_unfinished(lock)


@pytest.mark.parametrize(("error", "left"), [(OSError, True), (UserError, False)])
def test_a_failure_frees_the_lock_and_leaves_the_name(error, left, lock):
    with pytest.raises(error), owned(lock, "trains there"):
        (lock.parent / "log").touch()
        raise error("no")
    assert holder(lock) is None and is_unfinished(lock) is left


def test_a_directory_that_stays_empty_is_removed_with_its_parents(tmp_path):
    with owned(tmp_path / "a" / "b" / "owner.lock", "trains there"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_removed_by_its_owner_is_made_again(lock, other, monkeypatch):
    """The owner of an empty directory removes it while another process waits."""
    process = other()
    calls: list[Path] = []
    acquire = filelock.FileLock.acquire

    def removed_first(self, **options):
        acquire(self, **options)
        calls.append(lock)
        if len(calls) == 1:
            lock.unlink()

    monkeypatch.setattr(filelock.FileLock, "acquire", removed_first)
    with owned(lock, "trains there", waiting=lambda name: process.communicate("\n")):
        assert f"process {os.getpid()}" in holder(lock)
    assert len(calls) == 2


def test_the_name_of_another_process_is_left_alone(lock):
    """A process that has replaced the directory frees the new one before its block ends."""
    with owned(lock, "trains there"):
        lock.write_text("host a, process 1")
        (lock.parent / "log").touch()
    assert lock.read_text() == "host a, process 1"


def test_a_link_is_not_followed(lock, tmp_path):
    lock.parent.mkdir()
    (tmp_path / "mine").write_text("years of work")
    lock.symlink_to(tmp_path / "mine")
    with pytest.raises(OSError), owned(lock, "trains there"):
        pass
    assert (tmp_path / "mine").read_text() == "years of work"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_without_locks_is_refused(number, lock, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filelock.FileLock, "acquire", fail)
    with pytest.raises(UserError, match="cannot lock files"), owned(lock, "trains there"):
        pass


def test_a_job_of_an_array_is_named_as_slurm_does(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "14")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "12")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert lock_module.own_name().endswith(b", job 12_3")
