"""Heat maps and means along the axes of a grid, against plain loops over its cells."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.reporting.comparison.grid_axes import axis_labels, heatmaps, marginals


def grid(sizes, score, seeds=(1, 2, 3), tasks=("a", "b")):
    """A comparison of a complete grid; ``score(point, task)`` gives its seeds' scores or None."""
    axes = [
        {"key": f"key.{i}", "labels": [f"{i}-{j}" for j in range(n)], "values": list(range(n))}
        for i, n in enumerate(sizes)
    ]
    groups = []
    for point in itertools.product(*map(range, sizes)):
        entries = {task: score(point, task) for task in tasks}
        entries = {
            task: {"mean": statistics.fmean(values), "values": list(values)}
            for task, values in entries.items()
            if values is not None
        }
        groups.append(
            {
                "name": str(point),
                "point": {f"key.{i}": f"{i}-{j}" for i, j in enumerate(point)},
                "seeds": list(seeds),
                "tasks": entries,
                "overall": None,
            }
        )
    return {"axes": axes, "groups": groups, "tasks": {task: {} for task in tasks}}


def random_grid(sizes, missing=(), seed=0):
    scores = np.random.default_rng(seed).random((*sizes, 3))
    return scores, grid(sizes, lambda point, task: None if point in missing else scores[point])


def test_two_axes_make_one_map_of_the_cells_with_gaps_where_no_score_is():
    scores, comparison = random_grid((2, 3), missing={(1, 2)})
    (actual,) = heatmaps(comparison, "a")
    expected = scores.mean(axis=-1)
    expected[1, 2] = math.nan
    np.testing.assert_allclose(actual.values, expected)
    assert (actual.rows, actual.columns) == ("key.0", "key.1")
    assert (actual.row_labels, actual.column_labels) == (["0-0", "0-1"], ["1-0", "1-1", "1-2"])
    assert np.isnan(heatmaps(comparison, None)[0].values).all()


def test_three_axes_make_a_map_for_each_pair_averaged_over_the_third():
    scores, comparison = random_grid((2, 3, 4))
    maps = heatmaps(comparison, "b")
    assert [(each.rows, each.columns) for each in maps] == [
        ("key.0", "key.1"),
        ("key.0", "key.2"),
        ("key.1", "key.2"),
    ]
    for result, other in zip(maps, (2, 1, 0), strict=True):
        np.testing.assert_allclose(result.values, scores.mean(axis=(other, 3)))


@given(data=st.data())
def test_a_place_with_a_gap_is_left_out_for_all_cells_of_the_map(data):
    sizes = data.draw(st.tuples(*[st.integers(1, 3)] * data.draw(st.integers(3, 4))))
    points = list(itertools.product(*map(range, sizes)))
    missing = data.draw(st.sets(st.sampled_from(points)))
    scores, comparison = random_grid(sizes, missing)
    long = [i for i, size in enumerate(sizes) if size > 1]
    maps = heatmaps(comparison, "a")
    assert len(maps) == math.comb(len(long), 2)
    for (row, column), result in zip(itertools.combinations(long, 2), maps, strict=True):
        rest = [i for i in range(len(sizes)) if i not in (row, column)]
        places = list(itertools.product(*(range(sizes[i]) for i in rest)))

        def at(r, c, place, pair=(row, column), rest=rest):
            point = dict(zip((*pair, *rest), (r, c, *place), strict=True))
            return tuple(point[i] for i in sorted(point))

        for r, c in np.ndindex(sizes[row], sizes[column]):
            total, count = 0.0, 0
            for place in places:
                cells = [at(*each, place) for each in np.ndindex(sizes[row], sizes[column])]
                complete = not missing & {*cells}
                if complete or (len(places) == 1 and at(r, c, place) not in missing):
                    total += scores[at(r, c, place)].mean()
                    count += 1
            if count:
                assert result.values[r, c] == pytest.approx(total / count)
            else:
                assert math.isnan(result.values[r, c])


def test_marginal_means_are_over_cells_and_their_deviation_over_seeds():
    scores, comparison = random_grid((2, 3, 1))
    lines = marginals(comparison)
    assert [(line["axis"], line["label"]) for line in lines] == [
        ("key.0", "0-0"), ("key.0", "0-1"), ("key.1", "1-0"), ("key.1", "1-1"), ("key.1", "1-2"),
    ]  # fmt: skip
    for line, part in zip(
        lines, (*scores, *scores.transpose(1, 0, 2, 3)), strict=True
    ):  # part [other axis, 1, seeds]
        entry = line["tasks"]["a"]
        assert entry["mean"] == pytest.approx(part.mean())
        assert entry["sd"] == pytest.approx(part.mean(axis=(0, 1)).std(ddof=1))
        assert entry["cells"] == len(part)
        assert line["overall"] is None


def test_a_marginal_mean_compares_the_values_on_the_same_places():
    # without the cell (0, 0), only the second column can say what the rows differ in
    scores, comparison = random_grid((2, 2), missing={(0, 0)})
    by_row = [line["tasks"]["a"] for line in marginals(comparison)[:2]]
    assert [entry["cells"] for entry in by_row] == [1, 1]
    assert [entry["mean"] for entry in by_row] == pytest.approx(scores[:, 1].mean(axis=-1))
    _, comparison = random_grid((2, 2), missing={(0, 0), (1, 1)})
    assert [line["tasks"]["a"] for line in marginals(comparison)] == [None] * 4


def test_one_seed_and_unequal_seeds_have_no_deviation():
    comparison = grid((2, 2), lambda point, task: [0.5], seeds=[1])
    assert all(math.isnan(line["tasks"]["a"]["sd"]) for line in marginals(comparison))
    _, comparison = random_grid((2, 2))
    comparison["groups"][3]["seeds"] = [1, 2, 9]
    lines = marginals(comparison)
    with_it = [line["label"] for line in lines if math.isnan(line["tasks"]["a"]["sd"])]
    assert with_it == ["0-1", "1-1"]
    assert all(math.isfinite(line["tasks"]["a"]["mean"]) for line in lines)


@pytest.mark.parametrize("sizes", [(), (4,), (1, 4, 1)])
def test_fewer_than_two_axes_have_neither_maps_nor_means(sizes):
    _, comparison = random_grid(sizes)
    assert heatmaps(comparison, "a") == [] and marginals(comparison) == []


def test_labels_lose_the_key_that_stands_beside_them():
    axis = {
        "key": "training.lr",
        "labels": ["lr_2e-05", "lr_null", "own", "plain_word", "list"],
        "values": [2e-5, None, 3, "word", ["u", "v"]],
    }
    assert list(axis_labels(axis).values()) == ["2e-05", "null", "own", "plain_word", "list"]
