# Tested by tests/reporting/figures/test_training_curves.py
"""The confusion matrix of a task's dev predictions."""

from pathlib import Path

import numpy as np

from multitask.config.registry import task_type
from multitask.config.saved.report_model import TaskReport
from multitask.reporting.figures import style

# With more classes there is no room for counts in the cells, or for names on the axes.
MAX_CLASSES_WITH_COUNTS = 12
MAX_CLASSES_WITH_NAMES = 30


def confusion(task: str, result: TaskReport, predictions: Path) -> "style.Figure":
    """Draw counts of gold (rows) and predicted (columns); the colour is the share of the row."""
    counts = np.array(result.dev["confusion"])
    size = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = style.labels(map(str, result.classes or range(size)), width=18)

    side = min(max(0.85 * size, 2.4), 9.0)
    figure, axes = style.new_panel(side + 2.6, side + 1.5)
    image = axes.imshow(shares, cmap=style.ONE_HUE, vmin=0, vmax=1)
    label = "share of the gold class"
    style.colour_bar(figure, image, label, ax=axes, shrink=0.85, format=_percent)
    axes.set(xlabel="predicted", ylabel="gold")
    what = task_type(result.label_type).counted
    axes.set_title(
        f"{style.label(task)}: {counts.trace():,} of {counts.sum():,} {what} right",
        fontsize=style.TITLE,
    )
    axes.spines[:].set_visible(False)
    if size <= MAX_CLASSES_WITH_NAMES:
        axes.set_xticks(range(size), names)
        axes.set_yticks(range(size), names)
        if max(map(len, names)) > 4:
            style.tilt(axes, 35)
    if size <= MAX_CLASSES_WITH_COUNTS:
        style.separate_cells(axes, size, size)
        texts = [
            [f"{count:,}\n{_percent(share)}" for count, share in zip(*row, strict=True)]
            for row in zip(counts, shares, strict=True)
        ]
        style.write_in_cells(axes, texts, image.to_rgba(shares), style.LABEL)
    return figure


def _percent(share: float, _: object = None) -> str:
    """Write a share as text; matplotlib also passes the position of a tick."""
    return f"{100 * share:.0f} %"
