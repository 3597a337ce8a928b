"""Draw the STS scores of layers: curves by layer, and the poolings per domain."""

from collections.abc import Mapping
from typing import Any

from multitask.reporting.figures import style
from multitask.reporting.sts_json import SuiteLayers

# colour, marker and name of each pooling, in the order of the legend
STYLES = {
    "cls": (style.BLUE, "o", "[CLS]"),
    "mean": (style.ORANGE, "s", "mean of tokens"),
    "max": (style.GREEN, "^", "maximum over tokens"),
    "first-last mean": (style.VERMILLION, "D", "mean of first and last layer"),
}
COLUMNS = 4


def draw_layers(encoders: Mapping[str, Mapping[str, SuiteLayers]]) -> "style.Figure":
    """Draw a panel per suite: Spearman by layer; layer 0 is the embeddings.

    ``encoders`` has the suites of each encoder; a pooling has one colour, an encoder one dash. The
    panels are the suites of the first encoder.
    """
    first = next(iter(encoders.values()))
    figure, places = style.panels(
        len(first),
        COLUMNS,
        lambda columns, rows: (1.0 + 2.6 * columns, 1.0 + 2.3 * rows),
        sharex=True,
        sharey=True,
    )
    names = dict(zip(encoders, style.labels(encoders, width=40), strict=True))
    for axes, suite in zip(places, first, strict=False):
        for number, (encoder, suites) in enumerate(encoders.items()):
            if suite in suites:
                whose = f", {names[encoder]}" if len(encoders) > 1 else ""
                _curves(axes, suites[suite], style.DASHES[number % len(style.DASHES)], whose)
        axes.set_title(suite, fontsize=style.HEADING)
        axes.locator_params(axis="x", integer=True)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("layer (0: embeddings)", fontsize=style.SMALL)
        style.quiet_frame(axes)
    figure.supylabel("Spearman x 100, all pairs", fontsize=style.LABEL)
    figure.suptitle(style.label(" and ".join(encoders), width=70), fontsize=style.HEADING)
    style.legend_below(figure)
    return figure


def _curves(axes: "style.Axes", entry: SuiteLayers, dash: str, whose: str) -> None:
    """Draw a curve per pooling; an average over layers is a horizontal line."""
    for name, (colour, marker, title) in STYLES.items():
        values = entry["all"][name]
        look: dict[str, Any] = {"color": colour, "linestyle": dash}
        if isinstance(values, list):
            shown = 100 * style.numbers(values)
            axes.plot(shown, marker=marker, **look, **style.LOOKS["curve"], label=title + whose)
        elif values is not None:
            look["linestyle"] = dash if whose else "--"
            axes.axhline(100 * values, **look, label=title + whose)


def draw_domains(suites: Mapping[str, SuiteLayers], source: str) -> "style.Figure":
    """Draw a row per subset: Spearman of the last layer under each pooling."""
    rows = [
        (f"{suite} {subset}" if subset not in ("test", suite) else suite, values)
        for suite, entry in suites.items()
        for subset, values in entry["subsets"].items()
    ]
    figure, axes = style.new_panel(7.0, 1.4 + 0.26 * len(rows))
    for name, (colour, marker, title) in STYLES.items():
        scores = [values[name] for _, values in rows]
        last = [score[-1] if isinstance(score, list) else score for score in scores]
        look = {"color": colour, "marker": marker, **style.LOOKS["domain"]}
        axes.scatter(100 * style.numbers(last), range(len(rows)), **look, label=title)
    axes.set_yticks(range(len(rows)), style.labels([label for label, _ in rows], width=32))
    axes.tick_params(axis="y", labelsize=style.SMALL)
    axes.invert_yaxis()
    style.quiet_frame(axes)
    axes.set_xlabel("Spearman x 100 (pooling of the last layer)")
    axes.set_title(style.label(source, width=60), fontsize=style.HEADING)
    style.legend_below(figure)
    return figure
