"""What every figure shares: colours, frames, labels, readable text, and how it is saved.

The colours are of the Okabe-Ito palette: they survive colour blindness and grey printing.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.utils.errors import UserError
from multitask.utils.files import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
DARK, GREY = "#333333", "#8C8C8C"
LINES = (BLUE, ORANGE, GREEN, VERMILLION, DARK, GREY)
DASHES = ("-", "--", ":")
DPI = 150
MAX_LEGEND_COLUMNS = 6


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of that many inches, outside pyplot's global state."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))


@contextmanager
def boxes_for_glyphs() -> Iterator[None]:
    """A character that the font lacks, such as an emoji, is a box and no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def save_figure(figure: "Figure", file: Path | BytesIO) -> None:
    """Write the picture: PNG, or what else the file's ending says."""
    if isinstance(file, BytesIO):
        with boxes_for_glyphs():
            figure.savefig(file, dpi=DPI)
        return
    with replacing(file) as scratch, boxes_for_glyphs():
        figure.savefig(scratch, dpi=DPI)


def write_pictures(output: Path, name: str, pictures: "Mapping[str, Figure]", numbers: str) -> None:
    """Write figures as PNG and SVG, their numbers as JSON, and tell each file's name.

    Args:
        output: the files' name, its ending left out of account; or a directory for them.
        name: the files' name in a directory.
        pictures: figures by what is added to the name.
        numbers: the text of the JSON file.
    """
    if output.is_dir():
        output = output / name
    elif output.suffix in (".png", ".svg", ".json"):
        output = output.with_suffix("")
    if output.name in ("best", "report", "run") and (output.parent / "config.yaml").exists():
        raise UserError(f"{output}.json is a run's own file: choose another --output NAME")
    output.parent.mkdir(parents=True, exist_ok=True)
    for part, figure in pictures.items():
        for ending in ("png", "svg"):
            file = output.with_name(f"{output.name}{part}.{ending}")
            save_figure(figure, file)
            print(f"written: {file}")
    file = output.with_name(f"{output.name}.json")
    write_text(file, numbers)
    print(f"written: {file}")


def label_text(text: str, width: int = 24) -> str:
    """Text for a label: short, and no dollar sign starts mathematics."""
    short = text if len(text) <= width else text[: width - 1] + "…"
    return short.replace("$", r"\$")


def numbers(values: Iterable[float | None]) -> np.ndarray:
    """Floats, with null as NaN: a gap in a line."""
    return np.array([math.nan if value is None else value for value in values], dtype=float)


def line_style(place: int) -> dict[str, Any]:
    """How the line number ``place`` of many is drawn: other colours first, then other dashes."""
    dashes = DASHES[place // len(LINES) % len(DASHES)]
    return {"color": LINES[place % len(LINES)], "linestyle": dashes, "marker": "."}


def quiet_frame(axes: "Axes") -> None:
    """Drop the frame's top and right, and put a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def step_axis(axes: "Axes") -> None:
    """Whole steps along x, be it one alone."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def mark_stages(axes: "Axes", begins: Iterable[tuple[int, str]]) -> None:
    """A thin line at each step after which a stage begins, with the stage's name."""
    for step, name in begins:
        axes.axvline(step, color="0.6", linewidth=0.8, zorder=0)
        axes.annotate(
            label_text(name, width=14),
            (step, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(2, -2),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=7,
            color=DARK,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
        )


def legend_below(figure: "Figure", first: Sequence[str] = ()) -> None:
    """One legend under all panels, each label once, those of ``first`` at the front.

    It has as many columns as the figure has room for.
    """
    found: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    handles = {label: found[label] for label in dict.fromkeys((*first, *found)) if label in found}
    for columns in range(min(len(handles), MAX_LEGEND_COLUMNS), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
        )
        with boxes_for_glyphs():
            fits = legend.get_window_extent().width <= figure.bbox.width
        if fits or columns == 1:
            return
        legend.remove()


def readable_on(colour: np.ndarray) -> str:
    """White or black, whichever has more contrast to the sRGB colour [3] (WCAG 2.2)."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"
