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
# a cell's entry in one column, and its seeds
Cell = tuple[dict[str, Any], list[int]]


def long_axes(comparison: dict[str, Any]) -> list[int]:
    """Return the positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(comparison["axes"]) if len(axis["labels"]) > 1]


def axis_labels(axis: dict[str, Any]) -> dict[str, str]:
    """Shorten the labels, as the axis already has the key: ``2e-05``, not ``lr_2e-05``."""
    pairs = zip(axis["labels"], axis["values"], strict=True)
    plain = {
        label: shown(value)
        for label, value in pairs
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
    }
    return {label: plain.get(label, label) for label in axis["labels"]}


def heatmaps(comparison: dict[str, Any], task: str | None) -> list[Heatmap]:
    """Build a map of a task's scores per pair of axes; ``task`` None stands for the mean of tasks.

    With more than two axes, a number is a mean over the other axes; it leaves out the points at
    which a cell of the map has no score. Returns no map for fewer than two axes.
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
    """Return the cells of a column that have a score, by their labels on the axes."""
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
    """Return, per combination of labels on the axes ``keep``, its cells along the other axes.

    If the other axes have several points, a point at which some combination has no score is left
    out for all.
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
    """Return every combination of labels on the axes ``which``, by the axis' position."""
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
