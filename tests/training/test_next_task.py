"""Whose turn it is, and the training scores of an epoch that samplers ask for."""

import math
from types import SimpleNamespace

import pytest
import torch

from multitask.data.task_sampler import Turn
from multitask.training.next_task import Turns

MEMBERS = {"a": ["a"], "b": ["b", "guest"]}


class Sampler:
    """Two steps an epoch: of the streams a and b, then of a alone, which is left out."""

    steps_per_epoch = 2

    def __init__(self, needs_scores=False):
        self.needs_scores = needs_scores
        self.asked = []

    def turns(self, epoch, scores):
        self.asked.append((epoch, scores))
        return [(Turn("a"), Turn("b")), (Turn("a", False),)]


def stage(tasks=("a", "b", "guest"), needs_scores=False):
    return SimpleNamespace(tasks=list(tasks), sampler=Sampler(needs_scores))


def mean_error(task, scores, labels):
    return (scores - labels).abs().mean().item()


def no_line(*given, **values):
    raise AssertionError("nothing to write")


def test_a_streams_turn_is_that_of_its_tasks_in_this_stage():
    turns = Turns(MEMBERS, mean_error)
    now = stage()
    assert turns.next(now, 0, no_line) == {"a": True, "b": True, "guest": True}
    assert turns.next(now, 1, no_line) == {"a": False}
    assert turns.next(stage(["a", "guest"]), 2, no_line) == {"a": True, "guest": True}


def test_an_epoch_is_planned_once():
    turns, now = Turns(MEMBERS, mean_error), stage()
    for done in range(5):
        turns.next(now, done, no_line)
    assert [epoch for epoch, _ in now.sampler.asked] == [0, 1, 2]


def test_a_sampler_gets_the_scores_of_the_epoch_before():
    turns, now, lines = Turns(MEMBERS, mean_error), stage(needs_scores=True), []

    def write(event, **values):
        lines.append((event, values["tasks"].copy()))

    turns.next(now, 0, write)
    turns.watch("a", torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
    turns.watch("a", torch.tensor([6.0]), torch.tensor([0.0]))  # the mean of all rows: 3
    turns.watch("b", torch.tensor([5.0]), torch.tensor([1.0]))
    turns.next(now, 1, write)
    assert lines == []
    turns.next(now, 2, write)
    assert lines == [("train_scores", {"a": 3.0, "b": 4.0})]
    # no score of the guest: the stream that it is on is as bad as can be
    assert now.sampler.asked[-1] == (1, {"a": 3.0, "b": -math.inf})
    turns.watch("a", torch.tensor([1.0]), torch.tensor([0.0]))  # those before are forgotten
    turns.next(now, 4, write)
    assert lines[-1] == ("train_scores", {"a": 1.0, "b": 4.0})


@pytest.mark.parametrize(
    ("scores", "known"),
    [
        ({"a": 0.5, "b": 0.9, "guest": 0.7}, {"a": 0.5, "b": 0.7}),
        ({"a": math.nan, "b": 0.9, "guest": 0.8}, {"a": -math.inf, "b": 0.8}),
    ],
)
def test_a_streams_score_is_the_lowest_of_its_tasks(scores, known):
    turns = Turns(MEMBERS, mean_error)
    turns.train_scores = scores
    assert turns.stream_scores(stage()) == known
    assert turns.stream_scores(stage(["b"])) == {"b": 0.9}


def test_turns_go_on_from_their_saved_state_within_an_epoch():
    unbroken, parts = Turns(MEMBERS, mean_error), Turns(MEMBERS, mean_error)
    for turns in (unbroken, parts):
        turns.train_scores = {"b": 0.25}
        turns.watch("a", torch.tensor([1.0]), torch.tensor([0.0]))
    resumed = Turns(MEMBERS, mean_error)
    resumed.load_state_dict(parts.state_dict())
    lines = []
    for turns in (unbroken, resumed):
        turns.watch("a", torch.tensor([4.0]), torch.tensor([1.0]))
        turns.next(stage(needs_scores=True), 2, lambda event, tasks: lines.append(dict(tasks)))
    assert lines == [{"a": 2.0, "b": 0.25}] * 2


def test_a_new_stage_forgets_scores_and_turns():
    turns = Turns(MEMBERS, mean_error)
    turns.train_scores = {"a": 0.5}
    turns.watch("a", torch.tensor([1.0]), torch.tensor([0.0]))
    turns.next(stage(), 0, no_line)
    turns.begin_stage()
    assert turns.state_dict() == {"train_scores": {}, "seen": {}}
    now = stage()
    turns.next(now, 0, no_line)
    assert now.sampler.asked  # planned anew
