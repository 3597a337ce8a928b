"""The axes of grids: maps, means, and differences with their intervals."""

import itertools
import math
import shutil
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from multitask.reporting.compare import compare
from multitask.reporting.grid_axes import (
    axis_differences,
    axis_labels,
    heatmaps,
    marginals,
    over_points,
)
from multitask.reporting.read_runs import Group
from multitask.reporting.sheet import MEAN
from multitask.reporting.sheet_tables import markdown_text
from multitask.reporting.verdicts import significant
from multitask.tasks.bootstrap import percentiles, resampled_rows
from tests.support.fabricated_run import write_run


def grid(sizes, score, seeds=(1, 2, 3), tasks=("a", "b")):
    """A comparison of a complete grid; ``score(point, task)`` gives its seeds' scores or None."""
    axes = [
        {"key": f"key.{i}", "labels": [f"{i}-{j}" for j in range(n)], "values": list(range(n))}
        for i, n in enumerate(sizes)
    ]
    rows = []
    for place in itertools.product(*map(range, sizes)):
        scores = {task: score(place, task) for task in tasks}
        cells = {
            task: {"mean": statistics.fmean(values), "values": list(values)}
            for task, values in scores.items()
            if values is not None
        }
        point = {f"key.{i}": f"{i}-{j}" for i, j in enumerate(place)}
        rows.append({"name": str(place), "point": point, "seeds": list(seeds), "cells": cells})
    return {"axes": axes, "rows": rows, "columns": {task: {} for task in tasks}}


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


def test_three_axes_make_a_map_for_each_pair_averaged_over_the_third():
    scores, comparison = random_grid((2, 3, 4))
    maps = heatmaps(comparison, "b")
    for result, pair in zip(maps, itertools.combinations(range(3), 2), strict=True):
        assert (result.rows, result.columns) == tuple(f"key.{i}" for i in pair)
        (other,) = {0, 1, 2} - {*pair}
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
        entry = line["cells"]["a"]
        assert entry["mean"] == pytest.approx(part.mean())
        assert entry["sd"] == pytest.approx(part.mean(axis=(0, 1)).std(ddof=1))
        assert entry["cells"] == len(part)


def test_a_marginal_mean_compares_the_values_on_the_same_places():
    # without the cell (0, 0), only the second column can say what the rows differ in
    scores, comparison = random_grid((2, 2), missing={(0, 0)})
    by_row = [line["cells"]["a"] for line in marginals(comparison)[:2]]
    assert [entry["cells"] for entry in by_row] == [1, 1]
    assert [entry["mean"] for entry in by_row] == pytest.approx(scores[:, 1].mean(axis=-1))
    _, comparison = random_grid((2, 2), missing={(0, 0), (1, 1)})
    assert [line["cells"]["a"] for line in marginals(comparison)] == [None] * 4


def test_one_seed_and_unequal_seeds_have_no_deviation():
    comparison = grid((2, 2), lambda point, task: [0.5], seeds=[1])
    assert all(math.isnan(line["cells"]["a"]["sd"]) for line in marginals(comparison))
    _, comparison = random_grid((2, 2))
    comparison["rows"][3]["seeds"] = [1, 2, 9]
    lines = marginals(comparison)
    with_it = [line["label"] for line in lines if math.isnan(line["cells"]["a"]["sd"])]
    assert with_it == ["0-1", "1-1"]
    assert all(math.isfinite(line["cells"]["a"]["mean"]) for line in lines)


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


# ---- what each value of an axis changes


def columns_of(sizes, resamples=400, seed=0, seeds=2):
    """A column of random scores and resamples of each cell, in the order of the rows."""
    generator = np.random.default_rng(seed)
    return [
        (generator.random(seeds).tolist(), generator.normal(size=resamples))
        for _ in range(math.prod(sizes))
    ]


def differences_of(sizes, column):
    """The differences of the values of a grid's axes, in one column."""
    return axis_differences(random_grid(sizes)[1], {"a": column})["a"]


def column_of(runs, resamples=400):
    """The column of runs that have a score per row [runs, rows]."""
    drawn = np.concatenate([*resampled_rows(runs.shape[1], resamples, 1)])
    return [([run.mean()], run[drawn].mean(axis=1)) for run in runs]


def test_a_difference_is_the_mean_over_the_points_of_the_other_axes():
    sizes = (3, 2, 2)
    column = columns_of(sizes)
    cells = dict(zip(itertools.product(*map(range, sizes)), column, strict=True))
    found = differences_of(sizes, column)
    assert len(found) == 4  # two of the first axis, one of each other
    for value in (1, 2):
        pairs = [
            (cells[value, i, j], cells[0, i, j]) for i, j in itertools.product(range(2), range(2))
        ]
        mean = statistics.fmean(
            statistics.fmean(one) - statistics.fmean(base) for (one, _), (base, _) in pairs
        )
        differences = np.stack([one - base for (_, one), (_, base) in pairs])
        drawn = np.random.default_rng(4).integers(4, size=differences.shape)
        samples = []
        for resample in range(differences.shape[1]):
            plain = statistics.fmean(differences[:, resample])
            chosen = [differences[point, resample] for point in drawn[:, resample]]
            wider = math.sqrt(4 / 3) * t.ppf(0.975, 3) / norm.ppf(0.975)
            samples.append(plain + wider * (statistics.fmean(chosen) - plain))
        low, high = np.percentile(samples, [2.5, 97.5])
        entry = found["key.0", f"0-{value}"]
        assert entry["value"] == pytest.approx(mean)
        assert (entry["low"], entry["high"]) == pytest.approx((low, high))
        below = sum(sample <= 0 for sample in samples)
        p = 2 * (min(below, len(samples) - below) + 1) / (len(samples) + 1)
        assert entry["p"] == pytest.approx(min(1, p))
        assert entry["p_holm"] >= entry["p"]


def test_few_points_are_fixed_and_have_no_p():
    column = columns_of((2, 3))
    entry = differences_of((2, 3), column)["key.0", "0-1"]
    rows = np.mean([column[3 + i][1] - column[i][1] for i in range(3)], axis=0)
    assert (entry["low"], entry["high"]) == pytest.approx(percentiles(rows))
    assert math.isnan(entry["p"]) and math.isnan(entry["p_holm"])


def test_a_point_without_a_score_is_left_out():
    column = columns_of((2, 5))
    column[7] = None
    found = differences_of((2, 5), column)
    means = [entry and statistics.fmean(entry[0]) for entry in column]
    mean = statistics.fmean(means[5 + i] - means[i] for i in (0, 1, 3, 4))
    assert found["key.0", "0-1"]["value"] == pytest.approx(mean)
    # the other axis is left with one point, the row that has every value
    assert found["key.1", "1-1"]["value"] == pytest.approx(means[1] - means[0])


@pytest.mark.parametrize(
    ("of_rows", "of_runs"), [(0.15, 0.03), (1.0, 0.0), (1.0, 0.03)], ids=["runs", "rows", "both"]
)
@pytest.mark.parametrize("points", [4, 8])
def test_without_an_effect_at_most_a_twentieth_is_significant(points, of_rows, of_runs):
    """Runs that differ by chance alone: mostly as a whole, in single rows, or in both ways."""
    generator, rows, times, wrong = np.random.default_rng(0), 200, 200, 0
    for _ in range(times):
        # a score per row of each run: what its rows share, its own noise, and its level
        shared = generator.normal(size=rows)
        runs = shared + of_rows * generator.normal(size=(2 * points, rows))
        runs += of_runs * generator.normal(size=(2 * points, 1))
        first = differences_of((2, points), column_of(runs))["key.0", "0-1"]
        wrong += significant({**first, "p_holm": first["p"]})
    assert wrong <= 0.05 * times


def test_a_clear_effect_is_significant():
    runs = np.random.default_rng(0).normal(size=(8, 300)) * 0.1
    runs[4:] += 0.1
    assert significant(differences_of((2, 4), column_of(runs))["key.0", "0-1"])


def test_one_point_more_widens_less():
    differences = np.random.default_rng(0).normal(size=(6, 4000))
    plain = differences.mean(axis=0)
    assert np.array_equal(over_points(differences[:3]), differences[:3].mean(axis=0))
    assert over_points(differences).std() > plain.std()


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """A grid of 2 x 4 runs of one seed; the second value of the first axis is far better."""
    root = tmp_path_factory.mktemp("crossed")
    axes = [
        {"key": "training.lr", "labels": ["lr_1", "lr_2"], "values": [1, 2]},
        {"key": "training.epochs", "labels": [*"abcd"], "values": [*"abcd"]},
    ]
    groups = []
    for i, lr in enumerate(axes[0]["labels"]):
        for j, epochs in enumerate(axes[1]["labels"]):
            folder = root / f"{lr}-{epochs}"
            write_run(folder, seed=10 * i + j, noise=(0.6, 0.05)[i], lr=i + 1, epochs=epochs)
            for file in sorted((folder / "predictions").glob("*.dev.jsonl")):
                shutil.copy(file, file.with_name(file.name.replace(".dev.", ".holdout.")))
            point = {"training.lr": lr, "training.epochs": epochs}
            groups.append(Group(folder.name, [folder], point))
    return compare(groups, groups[0].name, axes=axes, resamples=500)


def test_a_comparison_of_one_seed_says_what_an_axis_changes(crossed):
    line = next(each for each in crossed["marginals"] if each["label"] == "lr_2")
    assert significant(line["cells"]["sst"]["difference"])
    assert line["holdout"].keys() == {"sst", "para", "sts", MEAN}
    value = line["cells"]["sst"]["difference"]["value"]
    assert line["holdout"]["sst"]["value"] == pytest.approx(value)
    others = [each for each in crossed["marginals"] if each["axis"] == "training.epochs"]
    assert others[0]["cells"]["sst"].get("difference") is None  # the first value
    assert all(each["cells"]["sst"]["difference"]["p_holm"] is None for each in others[1:])
    text = markdown_text(crossed)
    assert text.count("training.lr: 2, not 1") >= 4  # two tables, and sentences of both
    assert "training.lr: 2, not 1" in "".join(crossed["verdicts"])
