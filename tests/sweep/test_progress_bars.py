"""The output of a sweep: bars on a terminal, lines everywhere."""

import io
import sys

import pytest

from multitask.sweep.progress_bars import Progress, steps_done
from multitask.utils import heartbeat, terminal

PLAN = '{"event": "plan", "step": 0, "steps": 300, "epochs": 3.0}\n'


# the first stage has shorter epochs
HALF = '{"event": "step", "step": 150, "epoch": 2.25, "task": "a", "loss": 1.0}\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        (PLAN, None),
        (PLAN[:20], None),
        (HALF, None),  # written before logs had a plan
        (PLAN + HALF, (150, 300, 2.25, 3.0)),
        (PLAN + HALF + '{"event": "sk', (150, 300, 2.25, 3.0)),
        (PLAN + HALF + '{"event": "stop", "step": 150, "task": "a"}\n', (150, 300, 2.25, 3.0)),
        (PLAN + "x" * 9000 + "\n" + HALF, (150, 300, 2.25, 3.0)),
    ],
)
def test_how_far_a_run_is_stands_in_its_log(text, expected, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(text)
    assert steps_done(tmp_path) == expected
    assert steps_done(tmp_path / "nowhere") is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_is_for_a_terminal_and_lines_for_everyone(terminal, tmp_path, monkeypatch, capsys):
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    (tmp_path / "metrics.jsonl").write_text(PLAN + HALF)
    with Progress(5) as progress:
        progress.skipped(2)
        progress.show([("a seed 1", tmp_path)])
        progress.settled("a seed 1", "mean 0.5 (3 s)")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["2 of 5 runs are finished already", "cell 3/5 a seed 1: mean 0.5 (3 s)"]
    bar = stderr.getvalue()
    assert ("a seed 1: step 150 of 300" in bar and "2/5" in bar) is terminal
    assert (bar == "") is not terminal


def test_quiet_runs_say_how_far_they_are_every_30_seconds(tmp_path, monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("multitask.utils.heartbeat._says", [said.append])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    (tmp_path / "metrics.jsonl").write_text(PLAN + HALF)
    counts = []
    with Progress(5, note) as progress:
        terminal.note()
        for second in range(100):
            now[0] = float(second)
            progress.show([("a seed 1", tmp_path), ("b seed 1", tmp_path / "nowhere")])
            if second == 40:
                progress.settled("c seed 1", "mean 0.5 (3 s)")
            heartbeat.speak(now[0])
            counts += [second] * len(said)
            assert all(("step 150" in line and "1 of 5" in line) or second < 40 for line in said)
            said.clear()
    assert counts == [30, 70]


def note(line):
    """Print nothing: only the time counts."""
    terminal.note()
