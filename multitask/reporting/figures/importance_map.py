"""Pictures of how much each hidden state counts, by task, length and example; no torch here.

One hue, from white to dark: it survives colour blindness and grey printing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.config.run_directory import RunDirectory
from multitask.reporting.figures import style
from multitask.utils.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches a state across, a row down.
CELL, ROW = 0.52, 0.32
# Characters of a text beside its row.
TEXT = 38
# What a run logs of them at every evaluation.
LOGGED = ("task", "split", "layers", "states", "rows", "mean", "above_0")


@dataclass(frozen=True)
class Importance:
    """Importance scores S of a task's hidden states over a split.

    Attributes:
        task: its name.
        split: what the scores are of, such as "dev".
        layers: layers L of the encoder.
        states: numbers of the n states that are weighed; 0 is the embeddings.
        rows: distinct sentences, or inputs of one or two texts, that the mean is over.
        mean: mean of S [n]; sums to 1.
        above_0: share of the scores that HIRE's ReLU lets through; None where there is none.
        median: tokens of the middle one of the ``rows``, special tokens included; None where all
            are equally long, or where the lengths are not known.
        short_rows: how many of the rows have at most ``median`` tokens.
        short: mean of S of those [n]; empty without a median.
        long: mean of S of the others [n]; empty without a median.
        texts: the E examples.
        weights: their S, [E][n].
    """

    task: str
    split: str
    layers: int
    states: list[int]
    rows: int
    mean: list[float]
    above_0: float | None
    median: float | None = None
    short_rows: int = 0
    short: list[float] = field(default_factory=list)
    long: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Its attributes by name."""
        return asdict(self)

    def placed(self, values: Sequence[Sequence[float]], states: int) -> np.ndarray:
        """Rows [m][n] over all ``states``, [m, states]; NaN for a state that is not weighed."""
        found = np.full((len(values), states), np.nan)
        found[:, self.states] = values
        return found


def by_length(weights: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """The attributes of ``Importance`` that compare short with long texts.

    Args:
        weights: S of every row [rows, n].
        lengths: tokens of every row [rows].
    """
    median = float(np.median(lengths))
    short = lengths <= median
    if short.all():
        return {}
    return {
        "median": median,
        "short_rows": int(short.sum()),
        "short": weights[short].mean(0, dtype=np.float64).tolist(),
        "long": weights[~short].mean(0, dtype=np.float64).tolist(),
    }


def read_log(run_dir: Path, steps: Mapping[str, int]) -> list[Importance]:
    """What a run logged of each task at its evaluation of ``steps``; it holds no examples.

    Tasks of which it logged nothing then are left out. Raises UserError for a damaged log.
    """
    run = RunDirectory(run_dir)
    found = {}
    try:
        for line in run.load_events():
            if line["event"] == "importance" and steps.get(line["task"]) == line["step"]:
                one = Importance(**{name: line[name] for name in LOGGED})
                one.placed([one.mean], one.layers + 1)  # as it is drawn
                found[line["task"]] = one
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(
            f"{run.metrics}: damaged ({error}): restore it, or train the run again"
        ) from error
    return [found[task] for task in steps if task in found]


def draw_tasks(found: Sequence[Importance], labels: Sequence[str]) -> "Figure":
    """The mean scores: a row a task, as labelled; a column a hidden state (HIRE, figure 2)."""
    states = max(one.layers for one in found) + 1
    values = np.vstack([one.placed([one.mean], states) for one in found])
    rows = [style.label(label, width=TEXT) for label in labels]
    return _map(values, rows, f"Mean importance score of each hidden state ({_splits(found)})")


def draw_lengths(found: Sequence[Importance], labels: Sequence[str]) -> "Figure":
    """The mean scores of short and of long texts, a row each (layer-wise attention, figure 3).

    Every one of ``found`` has a ``median``.
    """
    states = max(one.layers for one in found) + 1
    values = np.vstack([one.placed([one.short, one.long], states) for one in found])
    rows = []
    for one, label in zip(found, labels, strict=True):
        for sign, count in (("≤", one.short_rows), (">", one.rows - one.short_rows)):
            name = style.label(label, width=TEXT)
            rows.append(f"{name}, {sign} {one.median:g} tokens ({count:,})")
    return _map(values, rows, f"Mean importance score by length of text ({_splits(found)})")


def draw_examples(found: Importance, label: str) -> "Figure":
    """The scores of each example: a row a text, a column a hidden state (HIRE, figure 3)."""
    values = found.placed(found.weights, found.layers + 1)
    rows = [f"{n}  {style.label(text, width=TEXT)}" for n, text in enumerate(found.texts, 1)]
    title = f"Importance scores of {len(rows)} examples of {style.label(label)} ({found.split})"
    return _map(values, rows, title)


def _splits(found: Sequence[Importance]) -> str:
    return ", ".join(dict.fromkeys(one.split for one in found))


def _map(values: np.ndarray, rows: Sequence[str], title: str) -> "Figure":
    """Weights [m, states], each cell with its number; states that are not weighed stay grey."""
    count, states = values.shape
    longest = max(len(row) for row in rows)
    width = max(5.0, 1.6 + 0.075 * longest + CELL * states)
    figure = style.new_figure(width, 1.7 + ROW * max(count, 4))
    axes = figure.subplots()
    axes.set_facecolor(style.NO_STATE)
    shown = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(
        shown, cmap=style.ONE_HUE, vmin=0, vmax=shown.max(), **style.LOOKS["cell edges"]
    )
    axes.invert_yaxis()
    names = ["embeddings", *(f"layer {number}" for number in range(1, states))]
    axes.set_xticks(np.arange(states) + 0.5, names)
    style.tilt(axes, 45)
    axes.set_yticks(np.arange(count) + 0.5, rows)
    axes.tick_params(length=0, labelsize=style.SMALL)
    axes.spines[:].set_visible(False)
    texts = [[f"{100 * one:.1f}" if np.isfinite(one) else "" for one in row] for row in values]
    style.write_in_cells(axes, texts, mesh.to_rgba(shown), style.TINY, offset=0.5)
    figure.suptitle(f"{title}, in %", fontsize=style.HEADING)
    _scale(figure, axes, mesh, values)
    return figure


def _scale(figure: "Figure", axes: "Axes", mesh: Any, values: np.ndarray) -> None:
    """The colour bar, with a mark at 1 / n: what equal weights would be."""
    counts = {int(np.isfinite(row).sum()) for row in values}
    label = "a row sums to 100 %" + "; black line: all alike" * (len(counts) == 1)
    shape = {"pad": 0.02, "format": lambda weight, _: f"{100 * weight:.0f} %"}
    bar = style.colour_bar(figure, mesh, label, style.SMALL, ax=axes, **shape)
    if len(counts) == 1:
        bar.ax.axhline(1 / counts.pop(), **style.LOOKS["equal weights"])
