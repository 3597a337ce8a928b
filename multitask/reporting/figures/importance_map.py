"""Draw how much each hidden state counts, by task, length of text and example.

One hue, from white to dark, stays readable for the colour-blind and in grey print.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from multitask.config.run_directory import RunDirectory
from multitask.reporting.figures import style
from multitask.utils.errors import UserError

# inches per hidden state (across) and per row (down)
CELL, ROW = 0.52, 0.32
# characters of a task's name next to its row
NAME = 38
# characters of an example, and of each of its lines
TEXT, LINE = 300, 80
# inches per line of an example
LINE_HEIGHT = 0.16
# the attributes that a run logs at every evaluation
LOGGED = ("task", "split", "layers", "states", "rows", "mean", "above_0")


@dataclass(frozen=True)
class Importance:
    """Importance scores S of a task's hidden states over a split.

    Attributes:
        task: its name.
        split: the rows that were scored, such as "dev".
        layers: layers L of the encoder.
        states: numbers of the n weighted states; 0 is the embeddings.
        rows: the number of distinct inputs that the mean is over.
        mean: mean of S [n]; sums to 1.
        above_0: share of the scores above 0 under HIRE's ReLU; None for other poolers.
        median: median length in tokens, special tokens included; None if all inputs have the same
            length or the lengths are unknown.
        short_rows: the number of rows with at most ``median`` tokens.
        short: mean of S over these rows [n]; empty without a median.
        long: mean of S over the other rows [n]; empty without a median.
        texts: the E examples.
        weights: S of the examples [E][n].
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

    def placed(self, values: Sequence[Sequence[float]], states: int) -> np.ndarray:
        """Spread rows [m][n] over all hidden states [m, states]; NaN for one without a weight."""
        spread = np.full((len(values), states), np.nan)
        spread[:, self.states] = values
        return spread


class ByLength(TypedDict, total=False):
    """The attributes of ``Importance`` that compare short with long texts; all or none."""

    median: float
    short_rows: int
    short: list[float]
    long: list[float]


def by_length(weights: np.ndarray, lengths: np.ndarray) -> ByLength:
    """Compare the weights of short texts with those of long ones.

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


def read_log(run_dir: Path, steps: Mapping[str, int | None]) -> list[Importance]:
    """Read what a run logged for each task at the evaluation of step ``steps[task]``.

    There are no examples in the log, and tasks without an entry are left out. Raises UserError for
    a damaged log.
    """
    run = RunDirectory(run_dir)
    entries = {}
    try:
        for line in run.load_events():
            if line["event"] == "importance" and steps.get(line["task"]) == line["step"]:
                entry = Importance(**{name: line[name] for name in LOGGED})
                entry.placed([entry.mean], entry.layers + 1)  # as it is drawn
                entries[line["task"]] = entry
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(
            f"{run.metrics}: damaged ({error}): restore it, or train the run again"
        ) from error
    return [entries[task] for task in steps if task in entries]


def draw_tasks(
    importances: Sequence[Importance], labels: Sequence[str], groups: Sequence[str] = ()
) -> "style.Figure":
    """Draw the mean scores: a row per task, a column per hidden state (HIRE, figure 2).

    ``groups`` has the name of each task's group, which is drawn above its tasks, or nothing.
    """
    states = max(entry.layers for entry in importances) + 1
    values = np.vstack([entry.placed([entry.mean], states) for entry in importances])
    rows = style.labels(labels, width=NAME)
    title = f"Mean importance score of each hidden state ({_splits(importances)})"
    return _map(values, rows, title, groups)


def draw_lengths(
    importances: Sequence[Importance], labels: Sequence[str], groups: Sequence[str] = ()
) -> "style.Figure":
    """Draw the mean scores of short and long texts, a row each (layer-wise attention, figure 3).

    Every entry of ``importances`` has a ``median``; ``groups`` is as in ``draw_tasks``.
    """
    states = max(entry.layers for entry in importances) + 1
    values = np.vstack([entry.placed([entry.short, entry.long], states) for entry in importances])
    rows = []
    for entry, name in zip(importances, style.labels(labels, width=NAME), strict=True):
        for sign, count in (("≤", entry.short_rows), (">", entry.rows - entry.short_rows)):
            rows.append(f"{name}, {sign} {entry.median:g} tokens ({count:,})")
    title = f"Mean importance score by length of text ({_splits(importances)})"
    return _map(values, rows, title, np.repeat(groups, 2).tolist())


def draw_examples(importance: Importance, label: str) -> "style.Figure":
    """Draw the scores of the examples: a row per text, a column per state (HIRE, figure 3).

    A text has several lines if it is long; after ``TEXT`` characters it is cut.
    """
    values = importance.placed(importance.weights, importance.layers + 1)
    rows = [
        textwrap.fill(f"{n}  {style.label(text, width=TEXT)}", LINE)
        for n, text in enumerate(importance.texts, 1)
    ]
    title = (
        f"Importance scores of {len(rows)} examples of {style.label(label)} ({importance.split})"
    )
    return _map(values, rows, title)


def _splits(importances: Sequence[Importance]) -> str:
    return ", ".join(dict.fromkeys(entry.split for entry in importances))


def _map(
    values: np.ndarray, rows: Sequence[str], title: str, groups: Sequence[str] = ()
) -> "style.Figure":
    """Draw weights [m, states], each cell with its number; states without a weight are grey."""
    shown, labels, headings = _with_headings(values, rows, groups)
    count, states = shown.shape
    lines = [label.splitlines() for label in labels]
    longest = max(len(line) for label in lines for line in label)
    row = max(ROW, LINE_HEIGHT * max(map(len, lines)) + 0.1)
    width = max(5.0, 1.6 + 0.075 * longest + CELL * states)
    figure, axes = style.new_panel(width, 1.7 + row * max(count, 4))
    axes.set_facecolor(style.NO_STATE)
    names = ["embeddings", *(f"layer {number}" for number in range(1, states))]
    low, high = shown.min(), shown.max()  # from 0, small differences would have one colour
    mesh = style.cell_map(axes, shown, labels, names, vmin=low if low < high else 0, vmax=high)
    style.tilt(axes, 45)
    texts = [[f"{100 * cell:.1f}" if np.isfinite(cell) else "" for cell in line] for line in shown]
    style.write_in_cells(axes, texts, mesh.to_rgba(shown), style.TINY, offset=0.5)
    for heading in headings:
        axes.axhspan(heading, heading + 1, **style.LOOKS["heading"])
        axes.get_yticklabels()[heading].set_fontweight("bold")
    figure.suptitle(f"{title}, in %", fontsize=style.HEADING)
    _scale(figure, axes, mesh, values)
    style.make_room(figure)
    return figure


def _with_headings(
    values: np.ndarray, rows: Sequence[str], groups: Sequence[str]
) -> tuple[np.ma.MaskedArray, list[str], list[int]]:
    """Insert an empty row with the name of the group above the rows of each group.

    Args:
        values: weights [m, states], NaN for a state without a weight.
        rows: the label of each row.
        groups: the name of each row's group, or nothing.

    Returns:
        All rows, their labels, and the places of the inserted rows.
    """
    starts = [n for n, group in enumerate(groups) if n == 0 or group != groups[n - 1]]
    names = style.labels([groups[start] for start in starts], width=NAME)
    labels = np.insert(np.array(rows, dtype=object), starts, names).tolist()
    shown = np.ma.masked_invalid(np.insert(values, starts, np.nan, axis=0))
    return shown, labels, [start + above for above, start in enumerate(starts)]


def _scale(figure: "style.Figure", axes: "style.Axes", mesh: Any, values: np.ndarray) -> None:
    """Add the colour bar, with a mark at 1 / n, the value of equal weights."""
    counts = {int(np.isfinite(row).sum()) for row in values}
    label = "a row sums to 100 %" + "; black line: all alike" * (len(counts) == 1)
    shape = {"pad": 0.02, "format": lambda weight, _: f"{100 * weight:.3g} %"}
    bar = style.colour_bar(figure, mesh, label, style.SMALL, ax=axes, **shape)
    if len(counts) == 1:
        bar.ax.axhline(1 / counts.pop(), **style.LOOKS["equal weights"])
