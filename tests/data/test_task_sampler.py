"""Turns: every task as often as its sampler promises, in an order that the seed alone decides."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitask.config.registry import SAMPLERS, build, resolve
from multitask.data.batch_sampler import TaskStream
from multitask.data.task_sampler import RoundRobin, Shares, Sizes
from multitask.utils.errors import UserError
from tests.support.cases import sampler_case

relaxed = settings(max_examples=60)  # no deadline: the machine may be busy
seeds = st.integers(0, 2**31)
row_lengths = st.lists(st.integers(2, 40), min_size=1, max_size=60).map(np.array)
NAMES = ["sst", "qqp", "sts", "cfimdb"]
SETS = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(row_lengths, st.integers(1, 7)), min_size=1
)
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 60), min_size=1)


def sizes_of(rows, epochs=1, batch=8, **more):
    steps = {name: math.ceil(count / batch) for name, count in rows.items()}
    return Sizes(rows=rows, steps=steps, epochs=epochs, **more)


def make(name, sizes, joint=False, **options):
    return build("sampler", name, options, {"sizes": sizes, "joint": joint})


def counts(sampler, epoch=0, scores=None):
    steps = sampler.turns(epoch, scores)
    assert len(steps) == sampler.steps_per_epoch
    return Counter(turn.task for step in steps for turn in step if turn.taken)


def options_of(name, rows):
    case = sampler_case(name)
    return case.options(rows) if hasattr(case, "options") else {}


# ---- every sampler


@relaxed
@given(st.sampled_from(sorted(SAMPLERS)), COUNTS, st.integers(1, 4), seeds)
def test_turns_depend_on_nothing_but_seed_and_epoch(name, rows, epochs, seed):
    first, second = (
        make(name, sizes_of(rows, epochs, seed=seed), **options_of(name, rows)) for _ in range(2)
    )
    order = range(epochs)
    forwards = [first.turns(epoch, {}) for epoch in order]
    assert forwards == [second.turns(epoch, {}) for epoch in reversed(order)][::-1]
    for steps in forwards:
        assert len(steps) == first.steps_per_epoch
        assert {turn.task for step in steps for turn in step} <= set(rows)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_task_has_turns_and_the_longest_is_through(name):
    rows = {"sst": 24, "qqp": 88, "sts": 16}
    sampler = make(name, sizes_of(rows, epochs=3), **options_of(name, rows))
    result = counts(sampler)
    assert set(result) == set(rows)
    assert result["qqp"] >= 11


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("epoch", [7, "sts", "qqp"])
def test_an_epoch_is_as_long_as_asked(name, epoch):
    rows = {"sst": 24, "qqp": 88, "sts": 16}
    sampler = make(name, sizes_of(rows, epochs=3, epoch=epoch), **options_of(name, rows))
    result = counts(sampler)
    if isinstance(epoch, int):
        assert sampler.steps_per_epoch == 7
    else:  # the named task is through once, give or take the step that rounding takes
        assert result[epoch] in (math.ceil(rows[epoch] / 8), math.ceil(rows[epoch] / 8) + 1)


# ---- round-robin


@relaxed
@given(SETS, st.integers(1, 3), seeds)
def test_an_epoch_is_one_pass_of_the_longest_task(sets, accumulation, seed):
    """Every row of it exactly once; the others' as evenly as whole passes allow."""
    made = {
        name: TaskStream(name, lengths, batch_size, accumulation, seed)
        for name, (lengths, batch_size) in sets.items()
    }
    steps = {name: stream.steps_per_pass for name, stream in made.items()}
    sampler = RoundRobin(Sizes({n: len(s.lengths) for n, s in made.items()}, steps), joint=False)
    longest = max(steps.values())
    seen = {name: [] for name in made}
    for epoch in range(2):
        turns = [turn.task for (turn,) in sampler.turns(epoch)]
        assert len(turns) == sampler.steps_per_epoch == longest * len(made)
        rounds = [turns[i : i + len(made)] for i in range(0, len(turns), len(made))]
        assert all(sorted(turn) == sorted(made) for turn in rounds)
        for task in turns:
            seen[task] += np.concatenate(made[task].next()).tolist()
        for name, stream in made.items():
            rows = len(stream.lengths)
            times = Counter(seen[name])
            if stream.steps_per_pass == longest:
                assert times == Counter(dict.fromkeys(range(rows), epoch + 1))
            for start in range(0, len(seen[name]), rows):  # one pass after the other
                part = seen[name][start : start + rows]
                assert len(set(part)) == len(part)
            assert set(times.values()) <= {len(seen[name]) // rows, -(-len(seen[name]) // rows)}


@relaxed
@given(COUNTS)
def test_without_oversampling_every_task_is_through_exactly_once(rows):
    sizes = sizes_of(rows)
    sampler = make("round_robin", sizes, oversample=False)
    for epoch in range(2):
        assert counts(sampler, epoch) == Counter(sizes.steps)
        order = [turn.task for (turn,) in sampler.turns(epoch)]
        assert all(turn.taken for (turn,) in sampler.turns(epoch))
        # rounds of the tasks that are left, in their order
        for number in range(max(sizes.steps.values())):
            left = [task for task in rows if sizes.steps[task] > number]
            assert order[: len(left)] == left
            order = order[len(left) :]
        assert not order


@relaxed
@given(COUNTS, st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1)), st.booleans())
def test_oversampling_while_the_training_score_is_low(rows, scores, joint):
    """The paper's rule; the number of steps is the same whatever the scores are."""
    sizes = sizes_of(rows)
    rule = {"while_train_score_below": 0.5}
    sampler = make("round_robin", sizes, joint, oversample=rule)
    assert sampler.needs_scores
    full = max(sizes.steps.values())
    assert counts(sampler, 0) == dict.fromkeys(rows, full)  # nothing is known yet
    result = counts(sampler, 1, scores)
    for task, steps in sizes.steps.items():
        low = task not in scores or scores[task] < 0.5
        assert result[task] == (full if low else steps)
    assert counts(sampler, 1, dict.fromkeys(rows, math.nan)) == dict.fromkeys(rows, full)


@relaxed
@given(COUNTS, st.booleans())
def test_joint_steps_hold_every_task_that_is_left(rows, oversample):
    sizes = sizes_of(rows)
    sampler = make("round_robin", sizes, joint=True, oversample=oversample)
    steps = sampler.turns(0)
    assert len(steps) == sampler.steps_per_epoch == max(sizes.steps.values())
    for number, step in enumerate(steps):
        assert [turn.task for turn in step] == list(rows)
        for turn in step:
            assert turn.taken == (oversample or number < sizes.steps[turn.task])


def test_epochs_of_a_number_of_steps_go_on_where_the_last_one_stopped():
    sampler = make("round_robin", sizes_of({"sst": 24, "qqp": 88, "sts": 16}, epoch=4))
    order = [turn.task for epoch in range(6) for (turn,) in sampler.turns(epoch)]
    assert order == ["sst", "qqp", "sts"] * 8


# ---- shares


@relaxed
@given(
    st.sampled_from([name for name in SAMPLERS if issubclass(resolve("sampler", name), Shares)]),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5000), min_size=1),
    st.integers(1, 4),
    st.data(),
    seeds,
)
def test_realised_counts_are_the_shares_to_within_one_step(name, rows, epochs, data, seed):
    """The formula of each method is in its case, as the sources print it."""
    case, options = sampler_case(name), options_of(name, rows)
    options |= {key: data.draw(values) for key, values in getattr(case, "VARIED", {}).items()}
    sampler = make(name, sizes_of(rows, epochs, seed=seed), **options)
    for epoch in range(epochs):
        result, weights = counts(sampler, epoch), case.weights(rows, epoch, epochs, **options)
        for task, weight in weights.items():
            share = weight / sum(weights.values())
            assert abs(result[task] - share * sampler.steps_per_epoch) < 1 + 1e-6


@pytest.mark.parametrize("place", range(3))
def test_a_task_of_less_than_a_step_an_epoch_comes_to_its_share(place):
    """Rounding each epoch alike would never give it a turn."""
    weights = [20.0, 20.0]
    weights.insert(place, 1.0)
    tasks = dict(zip(("sst", "qqp", "sts"), weights, strict=True))
    sizes = sizes_of(dict.fromkeys(tasks, 800), epochs=100, epoch=20)
    sampler = make("fixed", sizes, weights=tasks)
    total = Counter()
    for epoch in range(100):
        total += counts(sampler, epoch)
        exact = {task: (epoch + 1) * 20 * weight / 41 for task, weight in tasks.items()}
        assert all(abs(total[task] - steps) < 3 for task, steps in exact.items())


def test_the_order_of_turns_is_shuffled_anew_in_every_epoch():
    rows = {"sst": 400, "qqp": 900, "sts": 300}
    sampler = make("proportional", sizes_of(rows, epochs=3, seed=1))
    orders = [tuple(turn.task for (turn,) in sampler.turns(epoch)) for epoch in range(3)]
    assert len(set(orders)) == 3
    other = make("proportional", sizes_of(rows, epochs=3, seed=2))
    assert other.turns(0) != sampler.turns(0)
    for order in orders:  # no run of one task as in blocks
        assert sum(a != b for a, b in itertools.pairwise(order)) > len(order) / 4


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("round_robin", {"temperature": 2}, "no option 'temperature'"),
        ("round_robin", {"oversample": "no"}, "oversample must be true or false or"),
        ("round_robin", {"oversample": {"below": 1}}, "oversample must be"),
        ("temperature", {"temperature": 0.0}, "above 0"),
        ("fixed", {"weights": {"sst": 1.0}}, "each of sst, qqp"),
        ("fixed", {"weights": {"sst": 1.0, "qqp": 0.0}}, "each of sst, qqp"),
        ("fixed", {"weights": {"sst": 1.0, "qqp": math.inf}}, "at most .*, not inf"),
        ("fixed", {}, "weights"),
    ],
)
def test_options_that_do_not_fit_say_so(name, options, message):
    with pytest.raises(UserError, match=message):
        make(name, sizes_of({"sst": 8, "qqp": 9}), **options)


def test_without_oversampling_an_epoch_has_its_own_length():
    with pytest.raises(UserError, match="needs `epoch: longest`"):
        make("round_robin", sizes_of({"sst": 8, "qqp": 9}, epoch="sst"), oversample=False)
