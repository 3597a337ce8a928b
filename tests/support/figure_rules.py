"""Rules that hold for every figure; each is a fault that a figure of the docs once had."""

import re
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from multitask.reporting.figures import style

PAGE = 830  # pixels across on a page of the docs
SMALLEST = 8.5  # pixels of a letter there
MOST_PANELS = 16
LEAST_ACROSS = 0.4  # of a panel, for a curve
FULL = 100  # a score in percent


def faults(figure: Figure) -> list[str]:
    """Return a line for each rule that the figure breaks."""
    figure.draw_without_rendering()
    found = [f"text too small: {text.get_text()}" for text in _texts(figure) if _small(text)]
    found += [f"texts overlap: {one!r}, {other!r}" for one, other in _overlaps(figure)]
    found += [f"a negative zero: {text.get_text()}" for text in _texts(figure)
              if re.fullmatch(r"[-\u2212]0(\.0*)?", text.get_text())]  # fmt: skip
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    if len(panels) > MOST_PANELS:
        found.append(f"{len(panels)} panels")
    for axes in panels:
        if axes.spines["top"].get_visible() or axes.spines["right"].get_visible():
            found.append("a panel has a whole frame")
        scores = np.concatenate([[0.0], *(np.ravel(line.get_ydata()) for line in axes.lines)])
        if FULL / 2 < np.nanmax(scores) <= FULL < axes.get_ylim()[1]:
            found.append("an axis passes a full score")
        low, high = axes.get_xlim()
        for line in axes.lines:
            across = np.ptp(line.get_xdata()) / (high - low) if _is_curve(line) else 1
            if across < LEAST_ACROSS:
                found.append(f"a curve in {100 * across:.0f} % of its panel: {line.get_label()}")
    drawn = {line.get_label() for axes in panels for line in axes.lines if _seen(line)}
    drawn |= {one.get_label() for axes in panels for one in (*axes.collections, *axes.patches)}
    drawn |= {one.get_label() for axes in panels for one in axes.containers}
    for name in (text.get_text() for legend in figure.legends for text in legend.get_texts()):
        if name not in drawn:
            found.append(f"a legend entry without a mark: {name}")
        if re.search(r"\w/\w", name):
            found.append(f"a path in the legend: {name}")
    return found


def _texts(figure: Figure) -> list[Text]:
    hidden = {id(text) for axes in figure.axes for text in _outside(axes)}
    shown = [text for text in figure.findobj(Text) if id(text) not in hidden]
    return [text for text in shown if text.get_visible() and text.get_text().strip()]


def _outside(axes: Axes) -> list[Text]:
    """Return the labels of ticks beyond the axis."""
    found = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = (*axis.get_major_ticks(), *axis.get_minor_ticks())
        found += [tick.label1 for tick in ticks if not low <= tick.get_loc() <= high]
    return found


def _small(text: Text) -> bool:
    shown = min(style.DPI, PAGE / text.figure.get_figwidth())
    return bool(text.get_fontsize() / 72 * shown < SMALLEST)


def _overlaps(figure: Figure) -> list[tuple[str, str]]:
    # the box of a slanted label is wider than its letters
    level = [text for text in _texts(figure) if text.get_rotation() % 90 == 0]
    boxes = [(text.get_text(), text.get_window_extent()) for text in level]
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def _is_curve(line: Line2D) -> bool:
    named = not str(line.get_label()).startswith("_")
    return named and line.get_linestyle() != "None" and len(np.unique(line.get_xdata())) > 2


def _seen(line: Line2D) -> bool:
    """Return True for a line with points, and for the key of a look, which has no colour."""
    key = line.get_color() in (style.DARK, style.PALE)
    return key or bool(np.isfinite(np.asarray(line.get_ydata(), float)).any())
