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
from multitask.reporting.statistics import Resampled, corrected, p_value
from multitask.tasks.base import Array
from multitask.tasks.bootstrap import percentiles

FEWEST_POINTS = 4  # with fewer, an interval is of the rows and seeds alone

Point = tuple[str, ...]
# a cell of the grid: its scores in one column, and its seeds
Place = tuple[Cell, list[int]]


def long_axes(sheet: Mapping[str, Any]) -> list[int]:
    """Return the positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(sheet.get("axes", [])) if len(axis["labels"]) > 1]


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
    axes, cells = sheet["axes"], _places(sheet, column)
    maps = []
    for pair in combinations(long_axes(sheet), 2):
        rows, columns = (axes[i] for i in pair)
        labels = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        means = [_mean(each) if each else math.nan for each in _sets(axes, cells, pair)]
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
    long = long_axes(sheet)
    if len(long) < 2:
        return []
    axes = sheet["axes"]
    places = {name: _places(sheet, name) for name in sheet["columns"]}
    dev, held = (axis_differences(sheet, columns) for columns in (resampled, held_out))
    lines: list[AxisValue] = []
    for i in long:
        key = axes[i]["key"]
        for at, label in enumerate(axes[i]["labels"]):
            cells = {name: _marginal(_sets(axes, of, (i,))[at]) for name, of in places.items()}
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
        made: dict[tuple[str, str], Difference] = {}
        samples: list[Array] = []
        for i in long_axes(sheet):
            first, *others = axes[i]["labels"]
            places = _by_rest(sheet, column, i)
            used = [place for place in places if len(place) == len(others) + 1]
            for label in others if used else ():
                pairs = [(place[label], place[first]) for place in used]
                value = statistics.fmean(
                    statistics.fmean(a) - statistics.fmean(b) for (a, _), (b, _) in pairs
                )
                drawn = over_points(np.stack([a - b for (_, a), (_, b) in pairs]))
                low, high = percentiles(drawn)
                p = p_value(drawn) if len(used) >= FEWEST_POINTS else math.nan
                made[axes[i]["key"], label] = {"value": value, "low": low, "high": high, "p": p}
                samples.append(drawn)
        ps = corrected(samples, [each["p"] for each in made.values()])
        for difference, p in zip(made.values(), ps, strict=True):
            difference["p_holm"] = p
        result[name] = made
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


def _by_rest(
    sheet: Sheet, column: Resampled, axis: int
) -> list[dict[str, tuple[list[float], Array]]]:
    """Return, per point of the other axes, the scores and resamples of each label of an axis."""
    keys = [each["key"] for each in sheet["axes"]]
    places: dict[Point, dict[str, tuple[list[float], Array]]] = defaultdict(dict)
    for row, entry in zip(sheet["rows"], column, strict=True):
        if entry is not None and all(map(math.isfinite, entry[0])):
            rest = tuple(row["point"][key] for i, key in enumerate(keys) if i != axis)
            places[rest][row["point"][keys[axis]]] = entry
    return [*places.values()]


def _places(sheet: Sheet, column: str) -> dict[Point, Place]:
    """Return the cells of a column that have a score, by their labels on the axes."""
    return {
        tuple(row["point"][axis["key"]] for axis in sheet["axes"]): (cell, row["seeds"])
        for row in sheet["rows"]
        if (cell := row["cells"].get(column))
        and cell["mean"] is not None
        and math.isfinite(cell["mean"])
    }


def _sets(
    axes: Sequence[Axis], cells: dict[Point, Place], sides: Sequence[int]
) -> list[list[Place]]:
    """Return, per combination of labels on the axes ``sides``, its cells along the other axes.

    If the other axes have several points, a point at which some combination has no score is left
    out for all.
    """
    rest = [i for i in range(len(axes)) if i not in sides]
    places: dict[Point, dict[Point, Place]] = defaultdict(dict)
    for point, cell in cells.items():
        places[tuple(point[i] for i in rest)][tuple(point[i] for i in sides)] = cell
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
