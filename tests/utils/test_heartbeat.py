"""A line after 30 seconds of silence, on a clock that the tests turn."""

import io
import sys
import threading

import pytest

from multitask.utils import heartbeat, terminal
from multitask.utils.heartbeat import speak, talking, tracked, working


@pytest.fixture
def clock(monkeypatch):
    """The time in a list; nothing was printed since 0."""
    now = [0.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(heartbeat.threading.Thread, "start", lambda thread: None)  # no real time
    monkeypatch.setattr(terminal, "latest", 0.0)
    return now


def said_at(clock, times):
    """What is said at these times, by the time."""
    said = {}
    heartbeat._says.append(lambda line: said.setdefault(clock[0], line))
    for clock[0] in times:
        speak(clock[0])
    heartbeat._says.pop()
    return said


def test_a_line_every_thirty_seconds(clock):
    with talking(print), working("reading the data"):
        said = said_at(clock, range(0, 100))
    assert said == {t: f"reading the data, for {t} s" for t in (30, 60, 90)}


def test_other_output_counts_as_a_line(clock, monkeypatch):
    with talking(print), working("training"):
        clock[0] = 20
        monkeypatch.setattr(sys, "stdout", terminal.Printed(io.StringIO(), bars=False))
        print("step 3/9")
        assert said_at(clock, range(20, 60)) == {50: "training, for 50 s"}
        clock[0] = 70
        terminal.say("step 4/9")
        assert list(said_at(clock, range(70, 110))) == [100]


def test_the_innermost_work_is_named_with_its_count(clock):
    with talking(print), working("measuring the baselines"):
        clock[0] = 100
        rest = tracked(range(10), "scoring sst")
        for part in rest:
            if part == 3:
                assert said_at(clock, [131]) == {131: "scoring sst, 3 of 10, for 31 s"}
        assert said_at(clock, [165]) == {165: "measuring the baselines, for 165 s"}


def test_nothing_is_said_while_the_program_waits_or_does_nothing(clock):
    with talking(print):
        assert said_at(clock, [40]) == {}
        with working("serve"), working(""):
            assert said_at(clock, [80]) == {}


def test_work_of_another_thread_may_end_later(clock):
    first, second = working("a"), working("b")
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    with talking(print):
        assert said_at(clock, [50]) == {50: "b, for 50 s"}
    second.__exit__(None, None, None)
    assert heartbeat._works == []


def test_the_thread_ends_with_the_block(monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY", 0)
    said, heard = [], threading.Event()

    def say(line):
        said.append(line)
        heard.set()

    before = threading.active_count()
    with talking(say), working("a"), talking(say):
        assert threading.active_count() == before + 1
        assert heard.wait(60)
    assert threading.active_count() == before and said[0].startswith("a, for ")


def test_a_closed_output_ends_nothing(monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY", 0)
    asked = threading.Event()

    def say(line):
        asked.set()
        raise BrokenPipeError

    with talking(say), working("a"):
        assert asked.wait(60)
        asked.clear()
        assert asked.wait(60)  # it tries again


def test_no_thread_is_left_to_start(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(heartbeat.threading.Thread, "start", start)
    with talking(print), working("a"):
        pass
