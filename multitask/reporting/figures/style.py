# Long: every rule that makes figures look alike, in one place.
"""The style of all figures: colours, frames, labels, readable text, fonts, and saving.

The colours are from the Okabe-Ito palette; they stay readable for the colour-blind and in grey
print.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.store.files import read_json, replacing, write_text
from multitask.utils.errors import UserError, warn

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
LONGEST = 90  # characters of a text of several lines
LEAST_WIDTH = 5.0  # inches of a figure
MAX_LEGEND_COLUMNS = 6
LONG = 1.5  # an interval that reaches so many times as far as the others may run out of a panel

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
DARK, GREY, PALE = "#333333", "#8C8C8C", "0.8"
NO_VALUE = "0.9"  # a cell without a number
ONE_HUE, TWO_HUES, SCORES = "Blues", "RdBu", "cividis"  # colour maps

# sizes of text: a panel's title, labels, small labels, and texts in small cells
TITLE, LABEL, SMALL, TINY = 11, 9, 8, 7

# the lines of one panel vary in colour, dashes and markers
GROUPS = (BLUE, VERMILLION, GREEN, ORANGE, "#56B4E9", "#CC79A7", DARK)
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^v"

Look = dict[str, Any]  # keyword arguments of a function of matplotlib

# the marks that several figures have
OUTLINED: Look = {"linestyle": "none", "markeredgecolor": "white"}
LOOKS: dict[str, Look] = {
    "level": {"color": GREY, "linestyle": (0, (5, 3)), "linewidth": 1.2, "zorder": 1},
    "zero": {"color": DARK, "linewidth": 0.8},
    "curve": {"markersize": 4},
    "average": {"linestyle": "--", "linewidth": 1.2},
    "seed": {"linestyle": "none", "marker": "o", "markersize": 5, "color": BLUE, "alpha": 0.45,
             "markeredgewidth": 0, "zorder": 3},
    "interval": {"color": DARK, "linewidth": 1.4, "zorder": 2},
    "mean": {"color": DARK, "marker": "D", "markersize": 5, "zorder": 4, **OUTLINED},
    "best": {"color": VERMILLION, "marker": "D", "markersize": 5, "zorder": 4, **OUTLINED},
    "selected": {"color": VERMILLION, "marker": "*", "markersize": 17, "zorder": 3, **OUTLINED},
    "printed": {"color": VERMILLION, "marker": "x", "markersize": 6, "zorder": 5},
    "significant": {"linestyle": "none", "marker": "D", "markersize": 6, "zorder": 4,
                    "color": BLUE, "markeredgecolor": BLUE},
    "not_significant": {"linestyle": "none", "marker": "D", "markersize": 5, "zorder": 4,
                        "color": "white", "markeredgecolor": GREY},
    "beyond": {"linestyle": "none", "markersize": 5, "color": GREY, "zorder": 6, "clip_on": False},
}  # fmt: skip

# fonts with many characters, as Debian, Windows and macOS name them
FALLBACKS = (
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Devanagari",
    "Symbola",
    "Segoe UI Symbol",
)


@cache
def fonts() -> list[str]:
    """List the default font and the installed ones of ``FALLBACKS``.

    Matplotlib takes each character from the first font of the list that has it.
    """
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return ["sans-serif", *(name for name in FALLBACKS if name in installed)]


@contextmanager
def all_fonts(figure: "Figure") -> Iterator[None]:
    """Measure or save a figure with characters from ``fonts``; warn once if some are missing."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontfamily(fonts())
    with warnings.catch_warnings(record=True) as raised:
        warnings.filterwarnings("always", "Glyph .* missing from")
        yield
    if any("missing from" in str(each.message) for each in raised):
        warn(
            "no installed font has some characters, which figures show as boxes: install fonts "
            "such as the packages fonts-noto-cjk, fonts-noto-core and fonts-symbola, and remove "
            "matplotlib's font cache (~/.cache/matplotlib)"
        )


def new_figure(width: float, height: float) -> "Figure":
    """Make an empty figure of this size in inches, outside pyplot's global state."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))


def panels(
    titles: Sequence[str],
    panel: tuple[float, float],
    edge: tuple[float, float] = (0, 0),
    in_a_row: int = 1,
    **shared: Any,
) -> "tuple[Figure, list[Axes]]":
    """Make a figure with a panel per title.

    Args:
        titles: the titles of the panels, escaped; "" for none.
        panel: width and height of a panel in inches, its labels included.
        edge: width and height of what is around all panels.
        in_a_row: panels in a row, at most.
        shared: arguments of ``subplots``.
    """
    columns = max(1, min(in_a_row, len(titles)))
    rows = max(1, math.ceil(len(titles) / columns))
    width = max(LEAST_WIDTH, edge[0] + columns * panel[0])
    figure = new_figure(width, edge[1] + rows * panel[1])
    places = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axes, title in zip(places, titles, strict=False):
        axes.set_title(title, fontsize=TITLE)
        quiet_frame(axes)
    for surplus in places[max(1, len(titles)) :]:
        surplus.remove()
    return figure, places[: max(1, len(titles))]


def save_figure(figure: "Figure", file: Path | BytesIO) -> None:
    """Write the figure; the file's ending chooses the format (a BytesIO gets PNG)."""
    target = nullcontext(file) if isinstance(file, BytesIO) else replacing(file)
    with target as opened, all_fonts(figure):
        figure.savefig(opened, dpi=DPI, bbox_inches="tight")  # long labels are not cut


def save_figures(figures: "Mapping[Path, Figure]") -> list[Path]:
    """Write each figure to its file, and return the files."""
    for file, figure in figures.items():
        save_figure(figure, file)
    return list(figures)


def write_pictures(output: Path, name: str, pictures: "Mapping[str, Figure]", numbers: str) -> None:
    """Write figures as PNG and SVG and their numbers as JSON, and print each file's name.

    Args:
        output: the files' name, whose ending is ignored; or a directory for them.
        name: the files' name in a directory.
        pictures: figures by the suffix of their name.
        numbers: the text of the JSON file: an object with the key ``task``, or a list of them.

    Raises UserError if one of the files exists and was not written in this way.
    """
    if output.is_dir():
        output = output / name
    elif output.suffix in (".png", ".svg", ".json"):
        output = output.with_suffix("")
    file = output.with_name(f"{output.name}.json")
    files = {
        output.with_name(f"{output.name}{part}.{ending}"): figure
        for part, figure in pictures.items()
        for ending in ("png", "svg")
    }
    try:
        saved = read_json(file)
        ours = "task" in (saved[0] if isinstance(saved, list) else saved)
    except (OSError, ValueError, TypeError, IndexError, UserError):
        ours = False
    for other in () if ours else (file, *files):
        if other.exists() and not other.is_symlink():
            raise UserError(f"{other} was not written by this command: choose another --output")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, numbers)  # first: it says that the pictures are of this command
    for written in (*save_figures(files), file):
        print(f"written: {written}")


def label(text: str, width: int = 24) -> str:
    """Shorten a text for a label and escape dollar signs, which would start mathematics."""
    short = text if len(text) <= width else text[: width - 1] + "…"
    drawn = (letter for letter in short if letter.isprintable() or letter == "\n")
    return "".join(drawn).replace("$", r"\$")


def labels(texts: Iterable[str], width: int = 24) -> list[str]:
    """Shorten names that must be told apart; where two would be equal, their numbers come first."""
    short = [label(text, width) for text in texts]
    return [f"{i}: {name}" if short.count(name) > 1 else name for i, name in enumerate(short)]


def end_of(text: str, width: int) -> str:
    """Shorten a text whose end says more, such as a path or a config key."""
    return label(text if len(text) <= width else f"…{text[1 - width :]}", width)


def end_of_path(text: str, width: int) -> str:
    """Shorten the name of a run: a figure's reader needs no directories."""
    return label(re.sub(r"\S*/(?=\S)", "", text), width)


def wrapped(text: str, width: int, longest: int = LONGEST) -> str:
    """Wrap a text into lines; it is shortened to ``longest`` characters."""
    return textwrap.fill(label(text, width=longest), width)


def metric_title(task: str, metric: str) -> str:
    """Return a panel's title, such as ``sst: macro f1``."""
    return f"{label(task)}: {metric.replace('_', ' ')}"


def numbers(values: Iterable[float | None]) -> np.ndarray:
    """Return floats, with NaN for None, which is a gap in a line."""
    return np.array(list(values), dtype=float)


def group_style(place: int) -> Look:
    """Return the look of curve number ``place``.

    No curve hides an equal one: gaps are above solid lines, and of equal dashes the first is wider.
    """
    turn, dashes = divmod(place, len(DASHES))
    return {
        "color": GROUPS[place % len(GROUPS)],
        "linestyle": DASHES[dashes],
        "marker": MARKERS[place % len(MARKERS)],
        "linewidth": 1.8 / (1 + turn),
        "zorder": 2 + dashes / 10,
    }


def aside(number: int, count: int) -> float:
    """Return how far mark ``number`` of ``count`` is from the middle, so that none hides another.

    The marks of a place fill 0.8 of the distance to the next place.
    """
    return 0.8 * ((number + 0.5) / count - 0.5)


def span_alike(places: "Sequence[Axes]", *, upright: bool, start: float | None, end: float) -> None:
    """Let the scores of all panels span as many points; no axis passes ``end``, a full score.

    The axes begin at ``start`` if it is given.
    """
    limits = [axes.get_ylim() if upright else axes.get_xlim() for axes in places]
    span = max(high - (low if start is None else start) for low, high in limits)
    for axes, (low, high) in zip(places, limits, strict=True):
        begin = min((low + high - span) / 2, end - span) if start is None else start
        (axes.set_ylim if upright else axes.set_xlim)(begin, begin + span)


def limit_intervals(
    places: "Sequence[Axes]", rows: Sequence[Sequence[Mapping[str, Any] | None]]
) -> None:
    """Give all panels of differences one scale on which a few long intervals squeeze no other.

    ``rows`` are those of each panel, from the top, with "mean", "low", "high" and "printed" (or
    None). Every mark is inside. An interval that reaches over ``LONG`` times as far from 0 as all
    marks and four of five ends do runs out of the panel, and an arrow says so.
    """
    known = [row for of_panel in rows for row in of_panel if row]
    ends = numbers(row[key] for row in known for key in ("low", "high"))
    marks = numbers(row[key] for row in known for key in ("mean", "printed"))
    marks = marks[np.isfinite(marks)]
    reach = max(np.quantile(np.abs(ends), 0.8), np.abs(marks).max())
    reach = max(reach, np.abs(ends)[np.abs(ends) <= LONG * reach].max())
    every = np.clip([0.0, *ends, *marks], -reach, reach)
    room = 0.05 * np.ptp(every) or 1.0
    left, right = float(every.min() - room), float(every.max() + room)
    for axes, of_panel in zip(places, rows, strict=False):
        axes.set_xlim(left, right)
        for place, row in enumerate(of_panel):
            look: Look = LOOKS["beyond"] | {"label": "the interval goes on"}
            if row and row["low"] < left:
                axes.plot([left], [place], **look | {"marker": "<"})
            if row and row["high"] > right:
                axes.plot([right], [place], **look | {"marker": ">"})


def quiet_frame(axes: "Axes", across: bool = False) -> None:
    """Remove the frame's top and right, and put a faint grid behind the data.

    ``across``: scores are read along x, so that is where the grid is.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=False)
    axes.grid(axis="x" if across else "y", color="0.9", linewidth=0.8)
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
        axes.axvline(step, color="0.6", linewidth=0.8, zorder=0)
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


def legend_below(figure: "Figure", first: Sequence[str] = ()) -> None:
    """Add one legend below all panels: each label once, the labels of ``first`` in front.

    It has as many columns as fit, and the figure becomes higher by its height.
    """
    labelled: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    names = [name for name in dict.fromkeys((*first, *labelled)) if name in labelled]
    look: Look = {"loc": "outside lower center", "frameon": False}
    for columns in range(min(len(names), MAX_LEGEND_COLUMNS), 0, -1):
        legend = figure.legend([labelled[n] for n in names], names, ncols=columns, **look)
        with all_fonts(figure):
            box = legend.get_window_extent()
        if box.width <= figure.bbox.width or columns == 1:
            figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)
            return
        legend.remove()


def readable_on(colour: np.ndarray) -> str:
    """Return white or black, whichever has more contrast to the sRGB colour [3] (WCAG 2.2)."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def cell_map(
    axes: "Axes",
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    texts: Sequence[Sequence[str]] = (),
    size: int = LABEL,
    **shades: Any,
) -> Any:
    """Draw a map of cells without a frame, the first row on top.

    Args:
        axes: the panel.
        values: numbers [rows, columns], which are the colours; a cell with NaN is grey.
        rows, columns: the labels; there may be none.
        texts: what is written into the cells, or nothing.
        size: size of these texts.
        shades: arguments of ``pcolormesh``, such as the colour map.

    Returns:
        The mesh, for ``colour_bar``.
    """
    look: Look = {"cmap": ONE_HUE, "edgecolors": "white", "linewidth": 1}
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), **look | shades)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.tick_params(length=0, labelsize=SMALL)
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    axes.set_facecolor(NO_VALUE)
    if max(map(len, columns), default=0) > 4:
        for name in axes.get_xticklabels():
            name.set(rotation=45, ha="right", rotation_mode="anchor")
    colours = mesh.to_rgba(values)
    for (row, column), text in np.ndenumerate(np.array(texts, dtype=object)):
        if text:
            known = np.isfinite(values[row, column])
            colour = readable_on(colours[row, column, :3]) if known else DARK
            place = (column + 0.5, row + 0.5)
            axes.text(*place, text, ha="center", va="center", color=colour, fontsize=size)
    return mesh


def colour_bar(figure: "Figure", mesh: Any, label: str, **options: Any) -> "Axes":
    """Add a frameless colour bar with a label and return its axes."""
    bar = figure.colorbar(mesh, **options)
    bar.outline.set_visible(False)
    bar.minorticks_off()
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    return bar.ax
