"""The scores of a grid along its axes: a map for each pair of axes, a mean for each value."""

import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from multitask.reporting.comparison.settings import shown
from multitask.reporting.figures.grid_figures import Heatmap

Point = tuple[str, ...]
# a cell's score of one column, and the seeds that its values are of
Cell = tuple[dict[str, Any], list[int]]


def long_axes(comparison: dict[str, Any]) -> list[int]:
    """Positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(comparison["axes"]) if len(axis["labels"]) > 1]


def axis_labels(axis: dict[str, Any]) -> dict[str, str]:
    """The labels as they are read beside the axis' key: ``2e-05``, not ``lr_2e-05``."""
    pairs = zip(axis["labels"], axis["values"], strict=True)
    plain = {
        label: shown(value)
        for label, value in pairs
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
    }
    return {label: plain.get(label, label) for label in axis["labels"]}


def heatmaps(comparison: dict[str, Any], task: str | None) -> list[Heatmap]:
    """A map of a task's scores (of their mean over tasks: None) for each pair of axes.

    With more axes than two, a map's numbers are means over the places on the others at which no
    cell of the map lacks its score. Empty for fewer than two axes.
    """
    axes, cells = comparison["axes"], _cells(comparison, task)
    maps = []
    for pair in combinations(long_axes(comparison), 2):
        rows, columns = (axes[i] for i in pair)
        values = np.full((len(rows["labels"]), len(columns["labels"])), np.nan)
        for at, found in zip(np.ndindex(values.shape), _sets(axes, cells, pair), strict=True):
            if found:
                values[at] = _mean(found)
        sides = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        maps.append(Heatmap("", values, sides[0], sides[1], rows["key"], columns["key"]))
    return maps


def marginals(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """For each value of each axis its mean scores over the places on the other axes.

    A column's mean is over the places at which every value of the axis has a score, so that the
    values of an axis are compared on the same places; ``cells`` is how many. ``sd`` is over seeds,
    of the mean over cells; NaN for one seed or where cells have other seeds. None stands where no
    place is left. Empty for fewer than two axes: the means are the table itself.
    """
    long = long_axes(comparison)
    if len(long) < 2:
        return []
    axes = comparison["axes"]
    columns = (*comparison["tasks"], None)
    cells = {task: _cells(comparison, task) for task in columns}
    found = []
    for i in long:
        sets = {task: _sets(axes, cells[task], (i,)) for task in columns}
        for at, label in enumerate(axes[i]["labels"]):
            means = {task: _marginal(sets[task][at]) for task in columns}
            overall = means.pop(None)
            entry = {"axis": axes[i]["key"], "label": label, "tasks": means, "overall": overall}
            found.append(entry)
    return found


def _cells(comparison: dict[str, Any], task: str | None) -> dict[Point, Cell]:
    """The scored cells of a column by their labels on the axes."""
    found = {}
    for group in comparison["groups"]:
        entry = group["overall"] if task is None else group["tasks"].get(task)
        if entry and entry["mean"] is not None and math.isfinite(entry["mean"]):
            point = tuple(group["point"][axis["key"]] for axis in comparison["axes"])
            found[point] = (entry, group["seeds"])
    return found


def _sets(
    axes: Sequence[dict[str, Any]], cells: dict[Point, Cell], keep: Sequence[int]
) -> list[list[Cell]]:
    """For each combination of labels on the kept axes, in order, its cells on the other axes.

    Where the others have several places, one at which any combination has no score is left out
    for all.
    """
    rest = [i for i in range(len(axes)) if i not in keep]
    kept = _combinations(axes, keep)
    places = _combinations(axes, rest)
    sets: list[list[Cell]] = [[] for _ in kept]
    for place in places:
        at = [{**each, **place} for each in kept]
        here = [cells.get(tuple(label for _, label in sorted(point.items()))) for point in at]
        if None in here and len(places) > 1:
            continue
        for found, cell in zip(sets, here, strict=True):
            if cell is not None:
                found.append(cell)
    return sets


def _combinations(axes: Sequence[dict[str, Any]], which: Sequence[int]) -> list[dict[int, str]]:
    """Every combination of labels of some axes, by the axis' position."""
    labels = product(*(axes[i]["labels"] for i in which))
    return [dict(zip(which, each, strict=True)) for each in labels]


def _mean(cells: Iterable[Cell]) -> float:
    return statistics.fmean(entry["mean"] for entry, _ in cells)


def _marginal(cells: list[Cell]) -> dict[str, Any] | None:
    if not cells:
        return None
    seeds = cells[0][1]
    sd = math.nan
    if len(seeds) > 1 and all(others == seeds for _, others in cells):
        by_seed = zip(*(entry["values"] for entry, _ in cells), strict=True)
        sd = statistics.stdev(statistics.fmean(values) for values in by_seed)
    return {"mean": _mean(cells), "sd": sd, "cells": len(cells)}
