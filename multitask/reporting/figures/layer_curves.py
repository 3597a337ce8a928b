"""Draw the STS scores of layers: curves by layer, and the poolings per domain."""

from collections.abc import Mapping
from typing import Any

from multitask.reporting.figures import style
from multitask.reporting.sts_json import LayerScores, SuiteLayers

# colour, marker and name of each pooling, in the order of the legend
STYLES = {
    "cls": (style.BLUE, "o", "[CLS]"),
    "mean": (style.ORANGE, "s", "mean of tokens"),
    "max": (style.GREEN, "^", "maximum over tokens"),
    "first-last mean": (style.VERMILLION, "D", "mean of first and last layer"),
}
BY_LAYER = ("cls", "mean", "max")  # poolings of one layer
AVERAGE = "first-last mean"  # one number per encoder, drawn as a horizontal line
COLUMNS = 4
NAME = 70  # characters of an encoder's name
TITLE = "Agreement of the sentence vectors with human scores"

Encoders = Mapping[str, Mapping[str, SuiteLayers]]


def draw_layers(encoders: Encoders) -> "style.Figure":
    """Draw Spearman by layer, where layer 0 is the embeddings.

    One encoder has a panel per suite with a curve per pooling. Several encoders have a row of
    panels per suite, one panel per pooling, with a curve per encoder; the suites are those of the
    first encoder.
    """
    if len(encoders) == 1:
        ((name, suites),) = encoders.items()
        figure = _one_encoder(suites)
        title = f"{TITLE}, by layer\n{style.label(name, width=NAME)}"
    else:
        figure = _several_encoders(encoders)
        title = f"{TITLE}, by layer"
    figure.supylabel("Spearman x 100, all pairs", fontsize=style.LABEL)
    figure.suptitle(title, fontsize=style.HEADING)
    style.legend_below(figure)
    style.make_room(figure)
    return figure


def _one_encoder(suites: Mapping[str, SuiteLayers]) -> "style.Figure":
    figure, places = style.panels(
        len(suites),
        COLUMNS,
        lambda columns, rows: (1.0 + 2.6 * columns, 1.2 + 2.3 * rows),
        sharex=True,
        sharey=True,
    )
    for axes, (suite, entry) in zip(places, suites.items(), strict=False):
        for name, (colour, marker, title) in STYLES.items():
            look = {"color": colour, "marker": marker}
            _draw(axes, entry["all"][name], title, look)
        _finish(axes, suite)
    return figure


def _several_encoders(encoders: Encoders) -> "style.Figure":
    suites = next(iter(encoders.values()))
    figure, places = style.panels(
        len(BY_LAYER) * len(suites),
        len(BY_LAYER),
        lambda columns, rows: (1.0 + 2.9 * columns, 1.2 + 2.3 * rows + 0.2 * len(encoders)),
        sharex=True,
        sharey=True,
    )
    panels = iter(places)
    for suite in suites:
        for pooling in BY_LAYER:
            axes = next(panels)
            for number, (label, of) in enumerate(
                zip(style.labels(encoders, width=NAME), encoders.values(), strict=True)
            ):
                if suite not in of:
                    continue
                scores, look = of[suite]["all"], style.group_style(number)
                _draw(axes, scores[pooling], label, look)
                if pooling == "mean":
                    _draw(axes, scores[AVERAGE], "", look)
            _finish(axes, f"{suite}, {STYLES[pooling][2]}")
    axes.plot([], [], **style.LOOKS["average"], color=style.DARK, label=STYLES[AVERAGE][2])
    return figure


def _draw(axes: "style.Axes", values: Any, label: str, look: Mapping[str, Any]) -> None:
    """Draw a curve over the layers; an average over layers is a horizontal line."""
    if isinstance(values, list):
        axes.plot(100 * style.numbers(values), **style.LOOKS["curve"], **look, label=label)
    elif values is not None:
        line = style.LOOKS["average"] | {"color": look["color"]}
        axes.axhline(100 * values, **line, label=label)


def _finish(axes: "style.Axes", title: str) -> None:
    axes.set_title(title, fontsize=style.HEADING)
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("layer (0: embeddings)", fontsize=style.SMALL)
    style.quiet_frame(axes)


def draw_domains(suites: Mapping[str, SuiteLayers], source: str) -> "style.Figure":
    """Draw a row per subset: Spearman of the last layer under each pooling.

    The poolings of a row are below one another, so that equal scores do not hide one.
    """
    rows = [
        (f"{suite} {subset}" if subset not in ("test", suite) else suite, values)
        for suite, entry in suites.items()
        for subset, values in entry["subsets"].items()
    ]
    figure, axes = style.new_panel(7.0, 1.6 + 0.3 * len(rows))
    for number, (name, (colour, marker, title)) in enumerate(STYLES.items()):
        last = style.numbers(_last(values, name) for _, values in rows)
        places = [row + 0.8 * ((number + 0.5) / len(STYLES) - 0.5) for row in range(len(rows))]
        look = {"color": colour, "marker": marker, **style.LOOKS["domain"]}
        axes.scatter(100 * last, places, **look, label=title)
    axes.set_yticks(range(len(rows)), style.labels([label for label, _ in rows], width=32))
    axes.tick_params(axis="y", labelsize=style.SMALL)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    style.separate_rows(axes, len(rows))
    axes.set_xlabel("Spearman x 100, pooling of the last layer or of the first and the last")
    title = f"{TITLE}, by subset\n{style.label(source, width=NAME)}"
    figure.suptitle(title, fontsize=style.HEADING)
    style.legend_below(figure)
    style.make_room(figure)
    return figure


def _last(values: LayerScores, pooling: str) -> float | None:
    score = values[pooling]
    return score[-1] if isinstance(score, list) else score
