"""Streams: every row as often as promised, in an order that the seed alone decides."""

import json
import math
import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitask.data.batch_sampler import TaskStream, length_grouped_batches

relaxed = settings(max_examples=60)  # no deadline: the machine may be busy
seeds = st.integers(0, 2**31)
sizes = st.integers(1, 7)
row_lengths = st.lists(st.integers(2, 40), min_size=1, max_size=60).map(np.array)
arguments = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["sst", "qqp"]),
        "lengths": row_lengths,
        "batch_size": sizes,
        "accumulation": st.integers(1, 4),
        "seed": seeds,
    }
)


def one_pass(stream):
    """The steps of a whole pass, each a list of batches."""
    return [stream.next() for _ in range(stream.steps_per_pass)]


def rows_of(steps):
    return [row for step in steps for batch in step for row in batch.tolist()]


def plain(steps):
    return [[batch.tolist() for batch in step] for step in steps]


@relaxed
@given(row_lengths, sizes, seeds)
def test_a_pass_holds_every_row_once_in_full_batches_but_one(lengths, batch_size, seed):
    batches = length_grouped_batches(lengths, batch_size, np.random.default_rng(seed))
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    sizes = Counter(map(len, batches))
    full, left = divmod(len(lengths), batch_size)
    assert sizes == Counter({batch_size: full} | ({left: 1} if left else {}))


@relaxed
@given(arguments)
def test_passes_are_complete_and_steps_hold_their_batches(arguments):
    stream = TaskStream(**arguments)
    for _ in range(3):
        steps = one_pass(stream)
        assert sorted(rows_of(steps)) == list(range(len(stream.lengths)))
        assert all(len(step) == stream.accumulation for step in steps[:-1])
        assert 1 <= len(steps[-1]) <= stream.accumulation
        assert all(0 < len(batch) <= stream.batch_size for step in steps for batch in step)
    batches = math.ceil(len(stream.lengths) / stream.batch_size)
    assert stream.steps_per_pass == math.ceil(batches / stream.accumulation)


@relaxed
@given(arguments, st.integers(0, 40), st.integers(1, 40))
def test_restored_anywhere_it_goes_on_the_same(arguments, before, after):
    stream, fresh = TaskStream(**arguments), TaskStream(**arguments)
    for _ in range(before):
        stream.next()
    state = json.loads(json.dumps(stream.state_dict()))
    fresh.load_state_dict(state)
    expected = [stream.next() for _ in range(after)]
    assert plain(fresh.next() for _ in range(after)) == plain(expected)


def make(name="sst", rows=48, batch_size=8, seed=1, lengths=None):
    lengths = np.full(rows, 5) if lengths is None else lengths
    return TaskStream(name, lengths, batch_size, 1, seed)


@pytest.mark.parametrize(
    ("other", "same"),
    [({}, True), ({"seed": 2}, False), ({"name": "qqp"}, False)],
    ids=["same", "seed", "task"],
)
def test_seed_and_task_fix_the_order(other, same):
    first, second = make(), make(**other)
    for _ in range(3):
        assert (plain(one_pass(first)) == plain(one_pass(second))) == same


LENGTHS = {
    "equal": lambda rows: np.full(rows, 5),
    # all different: sorted in one window, every pass had the same batches
    "distinct": lambda rows: np.arange(2, rows + 2),
    "two kinds": lambda rows: np.arange(rows) % 2 * 30 + 2,
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(("rows", "batch_size"), [(48, 8), (150, 16), (600, 16), (1700, 16)])
def test_every_pass_is_shuffled_and_its_batches_composed_anew(lengths, rows, batch_size):
    stream = make(rows=rows, batch_size=batch_size, lengths=lengths(rows))
    passes = [one_pass(stream) for _ in range(4)]
    orders = {tuple(rows_of(steps)) for steps in passes}
    assert len(orders) == 4
    groups = [{frozenset(batch.tolist()) for step in steps for batch in step} for steps in passes]
    for i, earlier in enumerate(groups):
        for later in groups[i + 1 :]:
            assert len(earlier & later) <= 0.05 * len(earlier)


def padded(batches, lengths):
    return sum(len(batch) * lengths[batch].max() for batch in batches)


@pytest.mark.parametrize(("rows", "least"), [(600, 0.6), (5000, 0.8)])
def test_length_grouping_saves_padding(rows, least):
    """Of the padding that random batches need, at least this share goes."""
    rng = np.random.default_rng(0)
    lengths = 3 + rng.geometric(0.05, size=rows)
    grouped = padded(length_grouped_batches(lengths, 16, rng), lengths)
    order = rng.permutation(rows)
    random = padded([order[i : i + 16] for i in range(0, rows, 16)], lengths)
    assert random - grouped > least * (random - lengths.sum())


def test_a_window_of_one_batch_draws_rows_whatever_their_lengths():
    """As many lengths in a batch as random draws have: a chi-squared test on 4 equal shares."""
    lengths = np.repeat([5, 10, 20, 40], 400)
    stream = TaskStream("simcse", lengths, 16, 1, 0, window=1)
    shares = np.array([
        [(lengths[batch] == length).sum() for length in (5, 10, 20, 40)]
        for (batch,) in one_pass(stream)
    ])  # fmt: skip
    assert sorted(rows_of(one_pass(stream))) == list(range(1600))
    # without replacement each count is hypergeometric: 16 draws, a quarter each
    variance = 16 * 0.25 * 0.75 * (1600 - 16) / (1600 - 1)
    assert shares.var() == pytest.approx(variance, rel=0.15)
    grouped = TaskStream("simcse", lengths, 16, 1, 0)
    wide = [len(set(lengths[batch])) for (batch,) in one_pass(grouped)]
    assert statistics.mean(wide) < 1.5


def test_every_row_is_equally_likely_anywhere():
    """At any batch of a pass, and in the small batch (which weighs its rows more), whatever its
    length: counts within five standard deviations."""
    rows, batch_size, passes = 26, 4, 2000
    lengths = np.arange(2, rows + 2)
    stream = TaskStream("sst", lengths, batch_size, 1, 3)
    where = np.zeros((rows, stream.steps_per_pass))
    small = np.zeros(rows)
    for _ in range(passes):
        for place, (batch,) in enumerate(one_pass(stream)):
            where[batch, place] += 1
            if len(batch) < batch_size:
                small[batch] += 1

    def deviation(counts, share):
        return np.abs(counts - passes * share).max() / math.sqrt(passes * share * (1 - share))

    assert deviation(where, 1 / stream.steps_per_pass) < 5
    assert deviation(small, (rows % batch_size) / rows) < 5


@relaxed
@given(row_lengths, sizes, st.integers(1, 120), seeds)
def test_batch_tokens_bounds_every_batch(lengths, batch_size, budget, seed):
    """Padding included; a longer row stands alone, and no batch could take another's first row."""
    stream = TaskStream("sst", lengths, batch_size, 1, seed, budget)
    batches = [step[0] for step in one_pass(stream)]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget
    loose = TaskStream("sst", lengths, batch_size, 1, seed, 40 * batch_size)
    assert [b.tolist() for (b,) in one_pass(loose)] == [
        b.tolist() for (b,) in one_pass(TaskStream("sst", lengths, batch_size, 1, seed))
    ]


@relaxed
@given(row_lengths, st.integers(1, 120), seeds)
def test_the_rows_that_fit_in_a_pass(lengths, budget, seed):
    """The most that keep to the budget, or one."""
    stream = TaskStream("sst", lengths, 64, 1, seed, budget)
    rows = np.random.default_rng(seed).permutation(len(lengths))
    result = stream.fitting(rows)

    def width(count):
        return count * lengths[rows[:count]].max()

    assert result == 1 or width(result) <= budget
    assert result == len(rows) or width(result + 1) > budget
    assert TaskStream("sst", lengths, 64, 1, seed).fitting(rows) == len(rows)
