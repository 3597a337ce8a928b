"""Ctrl-C and SIGTERM ask; behind the block they act as before."""

import signal
import threading

import pytest

from multitask.utils.signals import on_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_stops_nothing(number):
    """The handlers come back, also after an exception."""
    asked = []
    before = signal.getsignal(number)
    with pytest.raises(ZeroDivisionError), on_signal(lambda: asked.append(number)):
        signal.raise_signal(number)
        assert asked == [number]
        raise ZeroDivisionError
    assert signal.getsignal(number) is before


def test_only_a_second_ctrl_c_stops_at_once():
    asked = []
    with on_signal(lambda: asked.append(True)):
        for number in [signal.SIGTERM] * 4 + [signal.SIGINT] + [signal.SIGTERM] * 4:
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert asked == [True]


def test_a_thread_that_cannot_have_handlers_works_without():
    done = []

    def work() -> None:
        with on_signal(lambda: None):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
