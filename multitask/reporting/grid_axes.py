"""The axes of a grid: maps of their pairs, and what each value of an axis changes.

The difference of a value to the first value of its axis is paired over rows and seeds, and over the
points of the other axes. These are its repeats: with four points, one seed of each is enough.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from multitask.reporting.figures.maps import Heatmap
from multitask.reporting.read_runs import shown
from multitask.reporting.sheet import Axis, AxisValue, Cell, Difference, Marginal, Sheet
from multitask.reporting.statistics import Resampled, correct, difference_of
from multitask.tasks.base import Array

FEWEST_POINTS = 4  # with fewer, an interval is of the rows and seeds alone

Point = tuple[str, ...]
# a cell of the grid: its scores in one column, and its seeds
Place = tuple[Cell, list[int]]


def long_axes(axes: Sequence[Axis]) -> list[int]:
    """Return the positions of the axes that have several values."""
    return [i for i, axis in enumerate(axes) if len(axis["labels"]) > 1]


def axis_labels(axis: Axis) -> dict[str, str]:
    """Shorten the labels, as the axis already has the key: ``2e-05``, not ``lr_2e-05``."""
    return {
        label: shown(value)
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
        else label
        for label, value in zip(axis["labels"], axis["values"], strict=True)
    }


def heatmaps(sheet: Sheet, column: str) -> list[Heatmap]:
    """Build a map of a column's scores per pair of axes.

    With more than two axes, a number is a mean over the other axes; it leaves out the points at
    which a cell of the map has no score. Returns no map for fewer than two axes.
    """
    axes, scored = sheet["axes"], _scored(sheet, column)
    maps = []
    for pair in combinations(long_axes(axes), 2):
        rows, columns = (axes[i] for i in pair)
        labels = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        sets = _sets(sheet, scored, pair)
        means = [_mean(each) if each else math.nan for each in sets]
        values = np.array(means).reshape([len(side) for side in labels])
        maps.append(Heatmap(values, labels[0], labels[1], rows["key"], columns["key"]))
    return maps


def marginals(
    sheet: Sheet, resampled: Mapping[str, Resampled] = {}, held_out: Mapping[str, Resampled] = {}
) -> list[AxisValue]:
    """Return the mean scores of each value of each axis over the points of the other axes.

    A mean uses only the points at which every value of the axis has a score, so that the values
    are compared on the same points. ``cells`` counts them; the entry is None if there is none.
    ``sd`` is the standard deviation over seeds of the mean over cells; NaN for one seed, or if the
    cells have different seeds. For fewer than two axes the list is empty, as the means would be
    the table itself.

    ``difference`` is that to the axis' first value, and ``holdout`` has those on the held-out rows.
    They follow from the resampled columns of the rows, and of their held-out rows.
    """
    axes = sheet["axes"]
    long = long_axes(axes)
    if len(long) < 2:
        return []
    dev, held = (axis_differences(sheet, columns) for columns in (resampled, held_out))
    lines: list[AxisValue] = []
    for i in long:
        key = axes[i]["key"]
        sets = {n: _sets(sheet, _scored(sheet, n), (i,)) for n in sheet["columns"]}
        for at, label in enumerate(axes[i]["labels"]):
            cells = {name: _marginal(of_label[at]) for name, of_label in sets.items()}
            for name, cell in cells.items():
                if cell is not None:
                    cell["difference"] = dev.get(name, {}).get((key, label))
            apart = {n: each for n in held if (each := held[n].get((key, label)))}
            lines.append({"axis": key, "label": label, "cells": cells, "holdout": apart})
    return lines


def axis_differences(
    sheet: Sheet, columns: Mapping[str, Resampled]
) -> dict[str, dict[tuple[str, str], Difference]]:
    """Return, by column, the difference of each value of an axis to the axis' first value.

    It is the mean over the points of the other axes at which every value of the axis has a score.
    The keys are an axis and a label. There is a p from ``FEWEST_POINTS`` points on; Holm's
    correction is over the column's differences.
    """
    axes = sheet["axes"]
    result = {}
    for name, column in columns.items():
        made: dict[tuple[str, str], tuple[Difference, Array]] = {}
        known = [each if each and all(map(math.isfinite, each[0])) else None for each in column]
        for i in long_axes(axes):
            first, *others = _sets(sheet, known, (i,))
            for label, entries in zip(axes[i]["labels"][1:], others, strict=True):
                pairs = list(zip(entries, first, strict=True))
                if not pairs:
                    continue
                value = statistics.fmean(
                    statistics.fmean(a) - statistics.fmean(b) for (a, _), (b, _) in pairs
                )
                drawn = over_points(np.stack([a - b for (_, a), (_, b) in pairs]))
                tested = len(pairs) >= FEWEST_POINTS
                made[axes[i]["key"], label] = difference_of(value, drawn, tested=tested), drawn
        correct([*made.values()])
        result[name] = {place: difference for place, (difference, _) in made.items()}
    return result


def over_points(differences: Array) -> Array:
    """Resample P points: their differences, resampled over rows and seeds [P, R] -> means [R].

    P points drawn from P vary less than P new points would, by (P - 1) / P in variance, and a
    percentile interval is too narrow for few of them. So the deviation that the drawn points add is
    multiplied by sqrt(P / (P - 1)), and by the ratio of Student's to the normal quantile. With
    fewer than ``FEWEST_POINTS`` the points are fixed.
    """
    from scipy.stats import norm, t

    points, resamples = differences.shape
    means: Array = differences.mean(axis=0)
    if points < FEWEST_POINTS:
        return means
    drawn = np.random.default_rng(points).integers(points, size=(points, resamples))
    deviation = np.take_along_axis(differences, drawn, axis=0).mean(axis=0) - means
    factor = math.sqrt(points / (points - 1)) * t.ppf(0.975, points - 1) / norm.ppf(0.975)
    return means + float(factor) * deviation


def _scored(sheet: Sheet, column: str) -> list[Place | None]:
    """Return each row's cell of a column with its seeds; None without a score."""
    cells = [row["cells"].get(column) for row in sheet["rows"]]
    return [
        (cell, row["seeds"])
        if cell and cell["mean"] is not None and math.isfinite(cell["mean"])
        else None
        for cell, row in zip(cells, sheet["rows"], strict=True)
    ]


def _sets(sheet: Sheet, values: Sequence[Any], sides: Sequence[int]) -> list[list[Any]]:
    """Return, per combination of labels on the axes ``sides``, its values along the other axes.

    ``values`` has one per row; None: no score. If the other axes have several points, a point at
    which some combination has no score is left out for all.
    """
    axes = sheet["axes"]
    rest = [i for i in range(len(axes)) if i not in sides]
    places: dict[Point, dict[Point, Any]] = defaultdict(dict)
    for row, value in zip(sheet["rows"], values, strict=True):
        if value is not None:
            point = [row["point"][axis["key"]] for axis in axes]
            places[tuple(point[i] for i in rest)][tuple(point[i] for i in sides)] = value
    combined = list(product(*(axes[i]["labels"] for i in sides)))
    alone = all(len(axes[i]["labels"]) == 1 for i in rest)
    used = [place for place in places.values() if alone or len(place) == len(combined)]
    return [[place[each] for place in used if each in place] for each in combined]


def _mean(cells: Iterable[Place]) -> float:
    return statistics.fmean(cell["mean"] for cell, _ in cells)


def _marginal(cells: list[Place]) -> Marginal | None:
    if not cells:
        return None
    seeds = cells[0][1]
    sd = math.nan
    if len(seeds) > 1 and all(others == seeds for _, others in cells):
        by_seed = zip(*(cell["values"] for cell, _ in cells), strict=True)
        sd = statistics.stdev(statistics.fmean(values) for values in by_seed)
    return {"mean": _mean(cells), "sd": sd, "cells": len(cells)}
