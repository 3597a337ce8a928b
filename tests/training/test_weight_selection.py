"""Patience, bests and NaN: each case is a sequence of evaluations and what must follow."""

import json
import math

import pytest

from multitask.store.saved import JOINT, selected_steps
from multitask.training.weight_selection import EarlyStopping, Selection

NAN = math.nan


def selection(patience=2, min_delta=0.0, tasks=("a", "b")):
    given = patience if isinstance(patience, dict) else dict.fromkeys(tasks, patience)
    return Selection(EarlyStopping(given, dict.fromkeys(tasks, min_delta)))


def feed(chosen, *series, start=1):
    """Evaluations at steps 1, 2, ...: the tasks' values at each; what stopped, by step."""
    stopped = {}
    for step, values in enumerate(zip(*series, strict=True), start):
        named = dict(zip(chosen.early_stopping.patience, values, strict=True))
        chosen.update(step, named, named)
        for task in chosen.early_stopping.update(step, named, list(named)):
            stopped[task] = step
    return stopped


@pytest.mark.parametrize(
    ("values", "patience", "min_delta", "stops"),
    [
        ([0.1, 0.2, 0.3, 0.4], 1, 0.0, None),
        ([0.5, 0.4, 0.3, 0.2], 2, 0.0, 3),
        ([0.5, 0.5, 0.5, 0.5], 3, 0.0, 4),  # equal is no gain
        ([0.5, 0.4, 0.6, 0.5, 0.5], 2, 0.0, 5),  # a gain starts the count anew
        ([0.5, 0.4, 0.3, 0.2], None, 0.0, None),
        ([0.50, 0.54, 0.56, 0.57], 2, 0.1, 3),  # gains of less than min_delta ...
        ([0.50, 0.58, 0.66, 0.67], 2, 0.1, None),  # ... add up: the reference stays
        ([NAN, NAN, 0.1, 0.2], 3, 0.0, None),
        ([NAN, NAN, NAN, 0.2], 3, 0.0, 3),
        ([0.5, NAN, NAN, 0.6], 2, 0.0, 3),  # NaN is an evaluation without gain
        ([0.5, NAN, 0.6, NAN, 0.7], 2, 0.0, None),  # and does not hide a later gain
        ([-0.5, -0.4, -0.3], 1, 0.0, None),  # a correlation may start below zero
    ],
)
def test_patience(values, patience, min_delta, stops):
    chosen = selection(patience, min_delta, tasks=("a",))
    assert feed(chosen, values) == ({} if stops is None else {"a": stops})
    assert chosen.early_stopping.stopped == ({} if stops is None else {"a": stops})


def test_each_task_has_its_own_patience_and_stops_once():
    chosen = selection({"a": 1, "b": 3})
    flat = [0.5] * 8
    assert feed(chosen, flat, flat) == {"a": 2, "b": 4}


@pytest.mark.parametrize(
    ("one", "other", "steps", "joint"),
    [
        ([0.1, 0.9, 0.2, 0.3], [0.1, 0.0, 0.2, 0.8], (2, 4, 4), 0.55),
        ([0.3, 0.5, 0.5], [0.5, 0.3, 0.3], (2, 1, 1), 0.4),  # the first of equal ones
        ([0.5, 0.6, 0.7], [0.5, 0.4, 0.3], (3, 1, 1), 0.5),  # gains below min_delta count
        # a mean over more tasks is preferred to one over fewer
        ([NAN, 0.1, NAN, 0.3, NAN], [0.8, 0.1, 0.9, 0.2, 0.9], (4, 3, 4), 0.25),
        ([0.1, 0.6, 0.3], [NAN, NAN, NAN], (2, 3, 2), 0.6),  # one never has a score
    ],
)
def test_best_is_per_task_and_jointly(one, other, steps, joint):
    chosen = selection(None, min_delta=0.5)
    feed(chosen, one, other)
    assert chosen.best_steps() == dict(zip(("a", "b", JOINT), steps, strict=True))
    assert chosen.best[JOINT].value == pytest.approx(joint)
    assert chosen.best["a"].value == one[steps[0] - 1]


def test_a_stopped_task_may_still_set_a_best():
    """The shared encoder moves on; the task stays stopped."""
    chosen = selection(1)
    assert feed(chosen, [0.5, 0.4, 0.9], [0.1, 0.2, 0.3]) == {"a": 2}
    assert chosen.best_steps()["a"] == 3
    assert chosen.early_stopping.stopped == {"a": 2}


def test_while_all_is_nan_the_latest_step_serves():
    chosen = selection(None)
    for step in (1, 2):
        chosen.update(step, {"a": NAN, "b": NAN}, {"a": NAN, "b": NAN})
        assert chosen.best_steps() == {"a": step, "b": step, JOINT: step}
    chosen.update(3, {"a": -1.0, "b": NAN}, {"a": -1.0, "b": NAN})
    assert chosen.best_steps() == {"a": 3, "b": 3, JOINT: 3}
    chosen.update(4, {"a": NAN, "b": NAN}, {"a": NAN, "b": NAN})
    assert chosen.best_steps() == {"a": 3, "b": 4, JOINT: 3}


@pytest.mark.parametrize(
    ("select", "expected"), [("joint", {"a": 7, "b": 7}), ("per_task", {"a": 2, "b": 4})]
)
def test_selected_steps(select, expected):
    tasks = {"a": "a", "b": "b"}
    assert selected_steps({"a": 2, "b": 4, JOINT: 7}, tasks, select) == expected


SERIES = (
    [NAN, 0.5, 0.5, NAN, 0.6, 0.4, 0.4, 0.9],
    [0.3, 0.2, NAN, 0.4, 0.1, 0.1, 0.8, 0.1],
)


@pytest.mark.parametrize("cut", range(9))
def test_restored_after_any_evaluation_it_goes_on_the_same(cut):
    """Through JSON, as in a checkpoint, where NaN has no place."""
    unbroken = selection(3, 0.05)
    expected = feed(unbroken, *SERIES)
    first = selection(3, 0.05)
    stopped = feed(first, *(series[:cut] for series in SERIES))
    state = json.loads(json.dumps(first.state_dict(), allow_nan=False))
    second = selection(3, 0.05)
    second.load_state_dict(state)
    assert second.state_dict() == first.state_dict()
    stopped |= feed(second, *(series[cut:] for series in SERIES), start=cut + 1)
    assert stopped == expected
    assert second.state_dict() == unbroken.state_dict()
    assert second.best_steps() == unbroken.best_steps()


def test_a_stop_is_remembered_until_a_later_stage_trains_the_task():
    chosen = selection(patience=1)
    feed(chosen, (0.5, 0.4), (0.5, 0.4))
    assert chosen.early_stopping.stopped == chosen.early_stopping.last_stops == {"a": 2, "b": 2}
    chosen.early_stopping.begin_stage(["b"])
    assert not chosen.early_stopping.stopped and chosen.early_stopping.last_stops == {"a": 2}
    resumed = selection(patience=1)
    resumed.load_state_dict(chosen.state_dict())
    assert resumed.early_stopping.last_stops == {"a": 2}


def test_a_state_is_a_copy():
    chosen = selection(1)
    feed(chosen, [0.5, 0.6], [0.5, 0.6])
    state = chosen.state_dict()
    before = json.dumps(state)
    feed(chosen, [0.1, 0.9], [0.1, 0.9], start=3)
    assert json.dumps(state) == before
