"""Pictures of the layers' scores: curves by layer, and the poolings of each domain; no torch."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from multitask.reporting.figures.style import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILLION,
    label_text,
    legend_below,
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# colour, marker and name of each pooling, in the order of the legend
STYLES = {
    "cls": (BLUE, "o", "[CLS]"),
    "mean": (ORANGE, "s", "mean of tokens"),
    "max": (GREEN, "^", "maximum over tokens"),
    "first-last mean": (VERMILLION, "D", "mean of first and last layer"),
}
COLUMNS = 4


def draw_layers(found: Mapping[str, Any], source: str) -> "Figure":
    """A panel a suite: Spearman over the layers, 0 being the embeddings."""
    columns = min(COLUMNS, len(found))
    rows = math.ceil(len(found) / columns)
    figure = new_figure(1.0 + 2.6 * columns, 1.0 + 2.3 * rows)
    places = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for axes, (suite, entry) in zip(places, found.items(), strict=False):
        for name, (colour, marker, title) in STYLES.items():
            values = entry["all"][name]
            if isinstance(values, list):
                shown = [math.nan if value is None else 100 * value for value in values]
                axes.plot(shown, color=colour, marker=marker, markersize=4, label=title)
            elif values is not None:
                axes.axhline(100 * values, color=colour, linestyle="--", label=title)
        axes.set_title(suite, fontsize=10)
        axes.locator_params(axis="x", integer=True)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("layer (0: embeddings)", fontsize=8)
        quiet_frame(axes)
    for axes in places[len(found) :]:
        axes.set_visible(False)
    figure.supylabel("Spearman x 100, all pairs", fontsize=9)
    figure.suptitle(label_text(source, width=70), fontsize=10)
    legend_below(figure)
    return figure


def draw_domains(found: Mapping[str, Any], source: str) -> "Figure":
    """A row a subset: Spearman of the last layer under each pooling."""
    rows = [
        (f"{suite} {subset}" if subset not in ("test", suite) else suite, values)
        for suite, entry in found.items()
        for subset, values in entry["subsets"].items()
    ]
    figure = new_figure(7.0, 1.4 + 0.26 * len(rows))
    axes = figure.subplots()
    for name, (colour, marker, title) in STYLES.items():
        last = [v[name][-1] if isinstance(v[name], list) else v[name] for _, v in rows]
        shown = [math.nan if value is None else 100 * value for value in last]
        axes.scatter(shown, range(len(rows)), color=colour, marker=marker, s=26, label=title)
    axes.set_yticks(range(len(rows)), [label_text(label, width=32) for label, _ in rows])
    axes.tick_params(axis="y", labelsize=8)
    axes.invert_yaxis()
    quiet_frame(axes)
    axes.set_xlabel("Spearman x 100 (pooling of the last layer)")
    axes.set_title(label_text(source, width=60), fontsize=10)
    legend_below(figure)
    return figure
