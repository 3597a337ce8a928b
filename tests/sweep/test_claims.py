"""Claims: one holder at most, stale ones are taken over once, live ones never."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from multitask.sweep import claims
from multitask.sweep.claims import Claim, exclusive, highest, is_stale, renewing, try_claim
from tests.conftest import ROOT


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "seed-1"


def claimed(base: Path) -> Claim:
    claim = try_claim(base)
    assert claim is not None
    return claim


def write_claim(base: Path, number: int, *, host: str, pid: int, age: float = 0.0) -> Path:
    """Another process's claim, last renewed ``age`` seconds ago."""
    file = base.with_name(f"{base.name}.claim-{number}")
    processes = [[pid, claims.start_of(pid)]]
    file.write_text(json.dumps({"host": host, "processes": processes}))
    when = file.stat().st_mtime - age
    os.utime(file, (when, when))
    return file


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


HERE = claims.socket.gethostname()


def test_a_held_claim_is_nobody_elses(base):
    claim = claimed(base)
    assert try_claim(base) is None
    owner = json.loads(claim.file.read_text())
    assert owner["host"] == HERE and owner["processes"][0][0] == os.getpid() and owner["time"]


def test_a_claim_done_leaves_no_file_and_a_freed_one_is_free_on_every_host(base, monkeypatch):
    claimed(base).release(done=True)
    assert not list(base.parent.iterdir())
    claimed(base).release(done=False)
    monkeypatch.setattr(claims.socket, "gethostname", lambda: "another")
    claim = claimed(base)
    assert claim.number == 2
    claim.release(done=True)
    assert not list(base.parent.iterdir())


@pytest.mark.parametrize(
    ("host", "living", "age", "stale"),
    [
        (HERE, True, 0, False),
        (HERE, True, 5000, False),  # suspended, perhaps: it may wake up
        (HERE, False, 0, True),
        ("another", True, 0, False),
        ("another", False, 500, False),
        ("another", False, 700, True),
        ("another", True, 700, True),  # its pid means nothing here
    ],
)
def test_stale_is_a_dead_process_here_or_ten_minutes_of_silence_elsewhere(
    host, living, age, stale, base
):
    pid = os.getpid() if living else dead_pid()
    assert is_stale(write_claim(base, 1, host=host, pid=pid, age=age)) is stale
    assert (try_claim(base) is not None) is stale


def test_silence_is_measured_on_the_file_systems_clock(base, monkeypatch):
    file = write_claim(base, 1, host="another", pid=1)
    monkeypatch.setattr(claims.time, "time", lambda: 4e9)  # this host's clock is far ahead
    assert not is_stale(file)
    later = file.stat().st_mtime + 601
    monkeypatch.setattr(claims, "_now", lambda directory: later)
    assert is_stale(file)


def test_a_later_process_of_the_same_number_holds_nothing(base):
    file = base.with_name("seed-1.claim-1")
    file.write_text(json.dumps({"host": HERE, "processes": [[os.getpid(), "12345"]]}))
    assert is_stale(file)


@pytest.mark.skipif(sys.platform != "linux", reason="a zombie is told by /proc")
def test_a_zombie_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    process.stdout.read()  # until its end; not waited for
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    assert not claims.alive(process.pid)
    process.wait()


def test_a_claim_that_is_being_written_is_held(base):
    file = base.with_name("seed-1.claim-1")
    file.touch()
    assert try_claim(base) is None
    os.utime(file, (0, 0))  # its writer died over it long ago
    assert try_claim(base) is not None


def test_a_claim_lives_as_long_as_any_of_its_processes(base):
    claim = claimed(base)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    claim.share(dead_pid(), child.pid)
    assert try_claim(base) is None
    child.communicate(b"\n")
    assert try_claim(base) is not None


def test_a_late_look_does_not_take_over_a_claim_that_was_taken_over_before(base, monkeypatch):
    write_claim(base, 1, host="another", pid=1, age=700)
    look = claims.highest(base)
    first = claimed(base)  # in the meantime
    monkeypatch.setattr(claims, "highest", lambda base: look)
    assert try_claim(base) is None
    assert first.file.exists() and not first.lost


def test_many_threads_at_once_get_one_claim(base):
    write_claim(base, 1, host="another", pid=1, age=700)
    result: list[Claim] = []
    barrier = threading.Barrier(8)

    def take() -> None:
        barrier.wait()
        claim = try_claim(base)
        if claim:
            result.append(claim)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 1


COUNT = """
import sys, time
from pathlib import Path
from multitask.sweep.claims import exclusive
number = Path(sys.argv[1])
for _ in range(20):
    with exclusive(number):
        found = int(number.read_text())
        time.sleep(0.002)
        number.write_text(str(found + 1))
"""


def test_processes_that_exclude_each_other_lose_no_count(tmp_path):
    number = tmp_path / "number"
    number.write_text("0")
    command = [sys.executable, "-c", COUNT, str(number)]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert number.read_text() == "60"
    assert highest(number) == 0


def test_renewing_keeps_a_claim_young_and_notices_its_loss(base, monkeypatch):
    monkeypatch.setattr(claims, "RENEW_EVERY", 0.01)
    claim = claimed(base)
    os.utime(claim.file, (0, 0))
    with renewing(lambda: [claim]):
        while claim.file.stat().st_mtime == 0:
            pass
        assert not claim.lost
        write_claim(base, 2, host="another", pid=1)
        while not claim.lost:
            pass
    claim.release(done=True)
    assert highest(base) == 2  # the other's claim is left alone


def test_a_deleted_claim_is_lost(base):
    claim = claimed(base)
    claim.file.unlink()
    claim.renew()
    assert claim.lost


def test_exclusive_frees_when_the_block_fails(base):
    with pytest.raises(ValueError), exclusive(base):
        assert try_claim(base) is None
        raise ValueError
    assert highest(base) == 0


def test_a_process_number_counts_in_its_namespace_only(base, monkeypatch):
    """Two containers with one host name: process 1 is another one in each."""
    monkeypatch.setattr(claims, "namespace", lambda: "pid:[1] of boot a")
    claim = claimed(base)
    claim.share(dead_pid())
    for other in ("pid:[2] of boot a", "pid:[1] of boot b", ""):
        monkeypatch.setattr(claims, "namespace", lambda other=other: other)
        assert not is_stale(claim.file) and try_claim(base) is None
    when = claim.file.stat().st_mtime - 700
    os.utime(claim.file, (when, when))
    assert is_stale(claim.file)


def test_a_live_process_of_another_namespace_is_stale_after_its_silence(base, monkeypatch):
    claim = claimed(base)
    monkeypatch.setattr(claims, "namespace", lambda: "pid:[2] of boot a")
    assert not is_stale(claim.file)
    os.utime(claim.file, (0, 0))
    assert is_stale(claim.file)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the namespace")
def test_a_namespace_is_named_by_its_number_and_boot():
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    number = Path("/proc/self/ns/pid").stat().st_ino
    assert claims.namespace() == f"pid:[{number}] of boot {boot}"


def test_a_claim_has_the_mode_that_the_umask_leaves(base):
    before = os.umask(0o002)
    try:
        assert claimed(base).file.stat().st_mode & 0o777 == 0o664
    finally:
        os.umask(before)
