"""The scores of a grid along its axes: a map for each pair of axes, a mean for each value."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, product

import numpy as np

from multitask.reporting.comparison.comparison_json import (
    Axis,
    AxisValue,
    Comparison,
    Marginal,
    Scores,
)
from multitask.reporting.comparison.settings import shown
from multitask.reporting.figures.grid_figures import Heatmap

Point = tuple[str, ...]
# a cell's entry in one column, and its seeds
Cell = tuple[Scores, list[int]]


def long_axes(comparison: Comparison) -> list[int]:
    """Return the positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(comparison["axes"]) if len(axis["labels"]) > 1]


def axis_labels(axis: Axis) -> dict[str, str]:
    """Shorten the labels, as the axis already has the key: ``2e-05``, not ``lr_2e-05``."""
    return {
        label: shown(value)
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
        else label
        for label, value in zip(axis["labels"], axis["values"], strict=True)
    }


def heatmaps(comparison: Comparison, task: str | None) -> list[Heatmap]:
    """Build a map of a task's scores per pair of axes; ``task`` None means the mean of tasks.

    With more than two axes, a number is a mean over the other axes; it leaves out the points at
    which a cell of the map has no score. Returns no map for fewer than two axes.
    """
    axes, cells = comparison["axes"], _cells(comparison, task)
    maps = []
    for pair in combinations(long_axes(comparison), 2):
        rows, columns = (axes[i] for i in pair)
        labels = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        means = [_mean(each) if each else math.nan for each in _sets(axes, cells, pair)]
        values = np.array(means).reshape([len(side) for side in labels])
        maps.append(Heatmap(values, labels[0], labels[1], rows["key"], columns["key"]))
    return maps


def marginals(comparison: Comparison) -> list[AxisValue]:
    """Return the mean scores of each value of each axis over the points of the other axes.

    A mean uses only the points at which every value of the axis has a score, so that the values
    are compared on the same points. ``cells`` counts them; the entry is None if there is none.
    ``sd`` is the standard deviation over seeds of the mean over cells; NaN for one seed, or if the
    cells have different seeds. For fewer than two axes the list is empty, as the means would be
    the table itself.
    """
    long = long_axes(comparison)
    if len(long) < 2:
        return []
    axes = comparison["axes"]
    cells = {task: _cells(comparison, task) for task in (*comparison["tasks"], None)}
    entries: list[AxisValue] = []
    for i in long:
        sets = {task: _sets(axes, scored, (i,)) for task, scored in cells.items()}
        for at, label in enumerate(axes[i]["labels"]):
            means = {task: _marginal(by_label[at]) for task, by_label in sets.items()}
            overall = means[None]
            of_tasks = {task: mean for task, mean in means.items() if task is not None}
            entries.append(
                {"axis": axes[i]["key"], "label": label, "tasks": of_tasks, "overall": overall}
            )
    return entries


def _cells(comparison: Comparison, task: str | None) -> dict[Point, Cell]:
    """Return the cells of a column that have a score, by their labels on the axes."""
    cells = {}
    for group in comparison["groups"]:
        entry = group["overall"] if task is None else group["tasks"].get(task)
        if entry and entry["mean"] is not None and math.isfinite(entry["mean"]):
            point = tuple(group["point"][axis["key"]] for axis in comparison["axes"])
            cells[point] = (entry, group["seeds"])
    return cells


def _sets(axes: Sequence[Axis], cells: dict[Point, Cell], sides: Sequence[int]) -> list[list[Cell]]:
    """Return, per combination of labels on the axes ``sides``, its cells along the other axes.

    If the other axes have several points, a point at which some combination has no score is left
    out for all.
    """
    rest = [i for i in range(len(axes)) if i not in sides]
    places: dict[Point, dict[Point, Cell]] = defaultdict(dict)
    for point, cell in cells.items():
        places[tuple(point[i] for i in rest)][tuple(point[i] for i in sides)] = cell
    combined = list(product(*(axes[i]["labels"] for i in sides)))
    alone = all(len(axes[i]["labels"]) == 1 for i in rest)
    used = [place for place in places.values() if alone or len(place) == len(combined)]
    return [[place[each] for place in used if each in place] for each in combined]


def _mean(cells: Iterable[Cell]) -> float:
    return statistics.fmean(entry["mean"] for entry, _ in cells)


def _marginal(cells: list[Cell]) -> Marginal | None:
    if not cells:
        return None
    seeds = cells[0][1]
    sd = math.nan
    if len(seeds) > 1 and all(others == seeds for _, others in cells):
        by_seed = zip(*(entry["values"] for entry, _ in cells), strict=True)
        sd = statistics.stdev(statistics.fmean(values) for values in by_seed)
    return {"mean": _mean(cells), "sd": sd, "cells": len(cells)}
