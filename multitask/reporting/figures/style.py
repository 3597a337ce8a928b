"""The style of all figures: colours, frames, labels, readable text, and saving.

The colours are from the Okabe-Ito palette; they stay readable for the colour-blind and in grey
print.
"""

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multitask.reporting.figures.fonts import missing_characters_are_said, use_fonts
from multitask.store.files import replacing, write_text
from multitask.store.run_directory import open_run
from multitask.utils.errors import UserError, check_regular

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

DPI = 150
LONGEST = 90  # characters of a text of several lines
# a panel is at least so high, in pixels of the saved file
LEAST_HEIGHT = 200
MAX_LEGEND_COLUMNS = 6

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
DARK, GREY = "#333333", "#8C8C8C"
NO_SCORE, NO_STATE = "0.88", "0.93"  # cells without a number
ONE_HUE, TWO_HUES, SCORES = "Blues", "RdBu", "cividis"  # colour maps

# sizes of text: a panel's title, a small panel's, and labels
TITLE, HEADING, LABEL, SMALL, TINY = 11, 10, 9, 8, 7

# the lines of one panel vary in colour first, then in dashes or markers
LINES = (BLUE, ORANGE, GREEN, VERMILLION, DARK, GREY)
DASHES = ("-", "--", ":")
GROUPS = (BLUE, VERMILLION, GREEN, ORANGE, "#56B4E9", "#CC79A7", DARK)
GROUP_DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^vP*X"  # of groups of runs the first five

OUTLINED = {"linestyle": "none", "markeredgecolor": "white"}
# how each kind of mark looks: keyword arguments of matplotlib's functions, each of another type
LOOKS: dict[str, dict[str, Any]] = {
    "selected step": {"marker": "*", "markersize": 17, "color": VERMILLION, **OUTLINED},
    "frozen": {"color": ORANGE, "linestyle": (0, (6, 2)), "linewidth": 1.8},
    "trivial": {"color": GREY, "linestyle": (0, (2, 2)), "linewidth": 1.8},
    "raw loss": {"color": "0.85", "linewidth": 0.7},
    "dots": {"s": 14, "color": BLUE, "alpha": 0.35, "linewidths": 0},
    "diagonal": {"color": ORANGE, "linestyle": (0, (6, 2))},
    "row": {"color": "0.8", "linewidth": 0.8},
    "trained": {"fill": True, "color": BLUE},
    "skipped": {"fill": True, "color": "0.82"},
    "stopped": {"colors": VERMILLION, "linewidth": 2.5},
    "zero": {"color": DARK, "linewidth": 0.8},
    "stage": {"color": "0.6", "linewidth": 0.8, "zorder": 0},
    "grid": {"color": "0.9", "linewidth": 0.8},
    "cell borders": {"color": "white", "linewidth": 2},
    "cell edges": {"edgecolors": "white", "linewidth": 0.5},
    "heading": {"facecolor": "white", "linewidth": 0},
    "end of text": {"color": VERMILLION, "linewidth": 1.2},
    "equal weights": {"color": "black", "linewidth": 1.2},
    "curve": {"markersize": 4},
    "average": {"linestyle": "--", "linewidth": 1.2},
    "seeds": {"alpha": 0.18, "linewidth": 0},
    "key": {"color": "0.8"},
    "domain": {"s": 26},
    "baseline": {"color": GREY, "linestyle": (0, (5, 3)), "linewidth": 1.2, "zorder": 1},
    "interval": {"color": DARK, "linewidth": 1.4, "zorder": 2},
    "seed": {
        "linestyle": "none",
        "marker": "o",
        "markersize": 5,
        "color": BLUE,
        "alpha": 0.45,
        "markeredgewidth": 0,
        "zorder": 3,
    },
    "mean": {"marker": "D", "markersize": 5, "color": DARK, "zorder": 4, **OUTLINED},
    "pruned": {"linestyle": "none", "marker": "x", "markersize": 5, "color": GREY},
    "our seed": {"linestyle": "none", "marker": "o", "markersize": 3, "color": GREY},
    "ours": {"color": DARK, "marker": "D", "markersize": 5, "capsize": 3, "linewidth": 1.2},
    "printed": {"color": VERMILLION, "marker": "x", "markersize": 6},
    "gain": {"capsize": 2, "linewidth": 1},
    "printed gain": {"linestyle": "none", "markerfacecolor": "none", "markersize": 6},
    "no gain": {"color": GREY, "linewidth": 1},
}
LOOKS["best mean"] = LOOKS["mean"] | {"color": VERMILLION}


def new_figure(width: float, height: float) -> "Figure":
    """Make an empty figure of this size in inches, outside pyplot's global state."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))


def new_panel(width: float, height: float) -> "tuple[Figure, Axes]":
    """Make a figure of one panel."""
    figure = new_figure(width, height)
    return figure, figure.subplots()


def panels(
    count: int, in_a_row: int, size: Callable[[int, int], tuple[float, float]], **shared: Any
) -> "tuple[Figure, list[Axes]]":
    """Make a figure of ``count`` panels in rows of at most ``in_a_row``; surplus panels are hidden.

    ``size`` maps the numbers of columns and rows to inches; ``shared`` goes to ``subplots``.
    """
    columns = max(1, min(in_a_row, count))
    rows = max(1, math.ceil(count / columns))
    figure = new_figure(*size(columns, rows))
    places = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for place in places[count:]:
        place.set_visible(False)
    return figure, places


@missing_characters_are_said()
def save_figure(figure: "Figure", file: Path | BytesIO) -> None:
    """Write the figure; the file's ending chooses the format (a BytesIO gets PNG)."""
    target = nullcontext(file) if isinstance(file, BytesIO) else replacing(file)
    use_fonts(figure)
    with target as opened:
        figure.savefig(opened, dpi=DPI)


def write_pictures(output: Path, name: str, pictures: "Mapping[str, Figure]", numbers: str) -> None:
    """Write figures as PNG and SVG and their numbers as JSON, and print each file's name.

    Args:
        output: the files' name, whose ending is ignored; or a directory for them.
        name: the files' name in a directory.
        pictures: figures by the suffix of their name.
        numbers: the text of the JSON file.
    """
    if output.is_dir():
        output = output / name
    elif output.suffix in (".png", ".svg", ".json"):
        output = output.with_suffix("")
    file, run = output.with_name(f"{output.name}.json"), open_run(output.parent)
    if run.holds_run and file in (run.marker, run.best, run.report, run.baselines):
        raise UserError(f"{file} is a file of the run: choose another --output NAME")
    files = {
        output.with_name(f"{output.name}{part}.{ending}"): figure
        for part, figure in pictures.items()
        for ending in ("png", "svg")
    }
    if not _is_like(file, numbers):
        for other in (file, *files):
            if other.exists() and not other.is_symlink():
                what = "holds other values" if other == file else f"belongs to no {file.name}"
                raise UserError(f"{other} exists and {what}: choose another --output NAME")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, numbers)  # first: it says that the pictures are of this command
    for picture, figure in files.items():
        save_figure(figure, picture)
    for written in (*files, file):
        print(f"written: {written}")


def _is_like(file: Path, numbers: str) -> bool:
    """Return True if a JSON file has the keys of ``numbers``, or some of them and no others."""

    def keys(text: str) -> set[str]:
        value = json.loads(text)
        return set(value[0] if isinstance(value, list) else value)

    try:
        check_regular(file)
        return set() < keys(file.read_text(encoding="utf-8")) <= keys(numbers)
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        return False


def label(text: str, width: int = 24) -> str:
    """Shorten a text for a label and escape dollar signs, which would start mathematics."""
    short = text if len(text) <= width else text[: width - 1] + "…"
    drawn = (letter for letter in short if letter.isprintable() or letter == "\n")
    return "".join(drawn).replace("$", r"\$")


def labels(texts: Iterable[str], width: int = 24) -> list[str]:
    """Shorten names that must be told apart; where two would be equal, their numbers come first."""
    short = [label(text, width) for text in texts]
    return [f"{i}: {name}" if short.count(name) > 1 else name for i, name in enumerate(short)]


def wrapped(text: str, width: int) -> str:
    """Wrap a text into lines; it is shortened to ``LONGEST`` characters."""
    return textwrap.fill(label(text, width=LONGEST), width)


def metric_title(task: str, metric: str) -> str:
    """Return a panel's title, such as ``sst: macro f1``."""
    return f"{label(task)}: {metric.replace('_', ' ')}"


def numbers(values: Iterable[float | None]) -> np.ndarray:
    """Return floats, with NaN for None, which is a gap in a line."""
    return np.array(list(values), dtype=float)


def line_style(place: int) -> dict[str, Any]:
    """Return the style of line number ``place``, as in ``LOOKS``; colours vary first."""
    dashes = DASHES[place // len(LINES) % len(DASHES)]
    return {"color": LINES[place % len(LINES)], "linestyle": dashes, "marker": "."}


def group_style(place: int) -> dict[str, Any]:
    """Return the style of curve number ``place``, as in ``LOOKS``.

    No curve hides an equal one: gaps are above solid lines, and of equal dashes the first is wider.
    """
    turn, dashes = divmod(place, len(GROUP_DASHES))
    return {
        "color": GROUPS[place % len(GROUPS)],
        "linestyle": GROUP_DASHES[dashes],
        "marker": MARKERS[place % 5],
        "linewidth": 1.8 / (1 + turn),
        "zorder": 2 + dashes / 10,
    }


def quiet_frame(axes: "Axes", across: bool = False) -> None:
    """Remove the frame's top and right, and put a faint grid behind the data.

    ``across``: scores are read along x, so that is where the grid is.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x" if across else "y", **LOOKS["grid"])
    axes.set_axisbelow(True)


def step_axis(axes: "Axes", stages: Iterable[tuple[int, str]] = ()) -> None:
    """Label the x-axis with integer steps, even if there is only one, and mark the stages."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    mark_stages(axes, stages)


def mark_stages(axes: "Axes", begins: Iterable[tuple[int, str]]) -> None:
    """Draw a thin line at each step after which a stage begins, with the stage's name."""
    for step, name in begins:
        axes.axvline(step, **LOOKS["stage"])
        axes.annotate(
            label(name, width=14),
            (step, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(2, -2),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=TINY,
            color=DARK,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
        )


@missing_characters_are_said()
def legend_below(figure: "Figure", first: Sequence[str] = ()) -> None:
    """Add one legend below all panels: each label once, the labels of ``first`` in front.

    It has as many columns as fit.
    """
    labelled: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    handles = {
        label: labelled[label] for label in dict.fromkeys((*first, *labelled)) if label in labelled
    }
    for columns in range(min(len(handles), MAX_LEGEND_COLUMNS), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
        )
        use_fonts(figure)
        fits = legend.get_window_extent().width <= figure.bbox.width
        if fits or columns == 1:
            return
        legend.remove()


def equal_spans(panels: "Sequence[Axes]", axis: Literal["x", "y"], from_zero: bool = False) -> None:
    """Give the axis of each panel the same span, around its own data or from zero."""
    limits = [np.sort(getattr(axes, f"get_{axis}lim")()) for axes in panels]
    span = max(high - low * (not from_zero) for low, high in limits)
    for axes, (low, high) in zip(panels, limits, strict=True):
        start = 0.0 if from_zero else (low + high - span) / 2
        getattr(axes, f"set_{axis}lim")(start, start + span)


@missing_characters_are_said()
def make_room(figure: "Figure") -> None:
    """Enlarge a figure until its texts are inside and its panels are ``LEAST_HEIGHT`` px high.

    The layout gives way to long labels: without this they are cut, or panels become stripes.
    """
    use_fonts(figure)
    for _ in range(5):
        figure.draw_without_rendering()
        size, box = figure.get_size_inches(), figure.get_tightbbox()
        over = np.maximum(0, -np.array(box.min)) + np.maximum(0, box.max - size)
        shown = [axes for axes in figure.axes if axes.get_visible()]
        lowest = min(axes.get_position().height for axes in shown) * size[1]
        lines = len({round(axes.get_position().y0, 3) for axes in shown})
        over[1] = max(over[1], lines * (LEAST_HEIGHT / DPI - lowest))
        if over.max() < 0.01:
            return
        figure.set_size_inches(size + np.maximum(0, over) + 0.02)


def readable_on(colour: np.ndarray) -> str:
    """Return white or black, whichever has more contrast to the sRGB colour [3] (WCAG 2.2)."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def write_in_cells(
    axes: "Axes", texts: Any, shades: np.ndarray, size: int, offset: float = 0.0
) -> None:
    """Write texts [rows, columns] into the cells of a map, in black or white.

    ``shades`` are the cells' colours, RGBA [rows, columns, 4]; ``offset`` is the centre of the
    first cell. An empty text leaves its cell empty.
    """
    for (row, column), text in np.ndenumerate(np.array(texts, dtype=object)):
        if text:
            colour = readable_on(shades[row, column, :3])
            place = (column + offset, row + offset)
            axes.text(*place, text, ha="center", va="center", color=colour, fontsize=size)


def cell_map(
    axes: "Axes", values: np.ndarray, rows: Sequence[str], columns: Sequence[str], **shades: Any
) -> Any:
    """Draw values [rows, columns] as cells of one hue, the first row on top, without a frame."""
    mesh = axes.pcolormesh(values, cmap=ONE_HUE, **LOOKS["cell edges"], **shades)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.tick_params(length=0, labelsize=SMALL)
    axes.spines[:].set_visible(False)
    return mesh


def separate_rows(axes: "Axes", count: int) -> None:
    """Remove the frame's top and right, and draw faint lines between rows 0 to ``count`` - 1."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_yticks(np.arange(count - 1) + 0.5, minor=True)
    axes.tick_params(axis="y", which="minor", length=0)
    axes.grid(axis="y", which="minor", **LOOKS["grid"])
    axes.set_axisbelow(True)


def separate_cells(axes: "Axes", rows: int, columns: int) -> None:
    """Draw white lines between the cells of a map, and remove the ticks."""
    axes.set_xticks(np.arange(columns - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(rows - 1) + 0.5, minor=True)
    axes.grid(which="minor", **LOOKS["cell borders"])
    axes.tick_params(which="both", length=0)


def tilt(axes: "Axes", degrees: float) -> None:
    """Turn the labels along x, so that long ones do not overlap."""
    for label in axes.get_xticklabels():
        label.set(rotation=degrees, ha="right", rotation_mode="anchor")


def colour_bar(
    figure: "Figure", mesh: Any, label: str, size: float | None = None, **options: Any
) -> "Colorbar":
    """Add a frameless colour bar with a label; ``size`` is the font size."""
    bar = figure.colorbar(mesh, **options)
    bar.outline.set_visible(False)
    bar.set_label(label)
    if size is not None:
        bar.set_label(label, fontsize=size)
        bar.ax.tick_params(labelsize=size)
    return bar
