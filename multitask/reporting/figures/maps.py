# Long: all maps of cells, so that they look alike.
"""Maps of cells: scores of a grid, confusion, importance of layers, and attention."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from multitask.config import Strict, parsed
from multitask.config.registry import task_type
from multitask.config.yaml_merge import load_extended
from multitask.reporting.figures import style
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import TaskReport
from multitask.utils.errors import UserError, reading

# the lines of a prediction file; their keys depend on the task type
Records = list[dict[str, Any]]

# With more cells in a row, a figure would be too wide to read.
MAX_CELLS_ACROSS = 12
# With more classes there is no room for counts in the cells, or for names on the axes.
MAX_CLASSES_WITH_COUNTS = 12
MAX_CLASSES_WITH_NAMES = 30


@dataclass(frozen=True)
class Heatmap:
    """Scores of one map.

    Attributes:
        values: scores [rows, columns]; NaN for a combination without a score.
        row_labels, column_labels: the labels of the cells.
        rows, columns: the config keys of the two axes.
    """

    values: np.ndarray
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    rows: str = ""
    columns: str = ""


def draw_heatmaps(maps: Sequence[Heatmap], measure: str = "") -> "style.Figure":
    """Draw heat maps next to each other, with the same colour scale.

    Each cell shows its number; without a score it is grey and has a dash. ``measure`` says what the
    numbers are.
    """
    height, width = (max(each.values.shape[axis] for each in maps) for axis in (0, 1))
    size = (1.6 + 0.85 * width, 1.2 + 0.5 * height)
    in_a_row = min(3, max(1, MAX_CELLS_ACROSS // width))
    figure, places = style.panels([""] * len(maps), size, (1.2, 0.6), in_a_row)
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in maps])
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    shades: style.Look = {"cmap": style.SCORES, "vmin": low, "vmax": high}
    for axes, each in zip(places, maps, strict=True):
        names = style.labels(each.row_labels), style.labels(each.column_labels)
        texts = [[f"{x:.3f}" if math.isfinite(x) else "-" for x in row] for row in each.values]
        mesh = style.cell_map(axes, each.values, *names, texts=texts, **shades)
        axes.set(xlabel=style.end_of(each.columns, 28), ylabel=style.end_of(each.rows, 28))
    if low < high:
        style.colour_bar(figure, mesh, style.label(measure, width=40), ax=places, shrink=0.85)
    return figure


def confusion(task: str, result: TaskReport, predictions: Records) -> "style.Figure":
    """Draw counts of gold (rows) and predicted (columns); the colour is the share of the row."""
    counts = np.array(result.dev["confusion"])
    size = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    what = task_type(result.label_type).counted
    title = f"{style.label(task)}: {counts.trace():,} of {counts.sum():,} {what} right"
    side = min(max(0.85 * size, 2.4), 9.0)
    figure, (axes,) = style.panels([title], (side + 2.6, side + 1.5))
    names = style.labels(map(str, result.classes or range(size)), width=18)
    names = names if size <= MAX_CLASSES_WITH_NAMES else []
    cells = zip(counts.tolist(), shares.tolist(), strict=True)
    texts = [
        [f"{count:,}\n{100 * share:.0f} %" for count, share in zip(*row, strict=True)]
        for row in cells
    ]
    texts = texts if size <= MAX_CLASSES_WITH_COUNTS else []
    mesh = style.cell_map(axes, shares, names, names, texts=texts, vmin=0, vmax=1)
    bar = {"shrink": 0.85, "format": lambda share, _: f"{100 * share:.0f} %"}
    style.colour_bar(figure, mesh, "share of the gold class", ax=axes, **bar)
    axes.set(xlabel="predicted", ylabel="gold")
    return figure


# inches per hidden state (across), per row (down), per line of an example, and of the colour bar
CELL, ROW, LINE_HEIGHT, BAR_WIDTH = 0.52, 0.32, 0.16, 0.2
# characters of a task's name next to its row, of an example, and of each of its lines
NAME, TEXT, LINE = 38, 300, 60
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
        predicted: the class that the task predicts for each example [E]; empty for other tasks.
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
    predicted: list[str] = field(default_factory=list)

    def placed(self, values: Sequence[Sequence[float]], states: int) -> np.ndarray:
        """Spread rows [m][n] over all hidden states [m, states]; NaN for one without a weight."""
        spread = np.full((len(values), states), np.nan)
        spread[:, self.states] = values
        return spread


def by_length(weights: np.ndarray, lengths: np.ndarray) -> Mapping[str, Any]:
    """Return the attributes of ``Importance`` that compare short with long texts; all or none.

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
    logged = {}
    with reading(run.metrics):
        for line in run.load_events():
            if line["event"] == "importance" and steps.get(line["task"]) == line["step"]:
                entry = Importance(**{name: line[name] for name in LOGGED})
                entry.placed([entry.mean], entry.layers + 1)  # as it is drawn
                logged[entry.task] = entry
    return [logged[task] for task in steps if task in logged]


def draw_tasks(
    importances: Sequence[Importance], labels: Sequence[str], groups: Sequence[str] = ()
) -> "style.Figure":
    """Draw the mean scores: a row per task, a column per hidden state (HIRE, figure 2).

    ``groups`` has the name of each task's group, which is drawn above its tasks, or nothing.
    """
    states = max(entry.layers for entry in importances) + 1
    values = np.vstack([entry.placed([entry.mean], states) for entry in importances])
    title = f"Mean importance score of each hidden state ({_splits(importances)})"
    return _map(values, style.labels(labels, width=NAME), title, groups)


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

    If the task predicts a class, the examples of a class are below its name. A text has several
    lines if it is long; after ``TEXT`` characters it is cut.
    """
    values = importance.placed(importance.weights, importance.layers + 1)
    texts = enumerate((style.label(text, width=TEXT) for text in importance.texts), 1)
    rows = [textwrap.fill(f"{number}  {text}", LINE) for number, text in texts]
    groups = [f"predicted: {name}" for name in importance.predicted]
    order = sorted(range(len(rows)), key=lambda row: groups[row]) if groups else range(len(rows))
    of = f"{style.label(label)} ({importance.split})"
    title = f"Importance scores of {len(rows)} examples of {of}"
    rows, groups = [rows[row] for row in order], [groups[row] for row in order if groups]
    return _map(values[list(order)], rows, title, groups)


def _splits(importances: Sequence[Importance]) -> str:
    return ", ".join(dict.fromkeys(entry.split for entry in importances))


def _map(
    values: np.ndarray, rows: Sequence[str], title: str, groups: Sequence[str] = ()
) -> "style.Figure":
    """Draw weights [m, states], each cell with its number; states without a weight are grey.

    Above the rows of each group is an empty row with its name.
    """
    starts = [n for n, group in enumerate(groups) if n == 0 or group != groups[n - 1]]
    names = style.labels([groups[start] for start in starts], width=NAME)
    labels = np.insert(np.array(rows, dtype=object), starts, names).tolist()
    shown = np.insert(values, starts, np.nan, axis=0)
    count, states = shown.shape
    lines = [label.splitlines() for label in labels]
    longest = max(len(line) for label in lines for line in label)
    row = max(ROW, LINE_HEIGHT * max(map(len, lines)) + 0.1)
    size = (1.6 + 0.075 * longest + CELL * states, 1.7 + row * max(count, 4))
    figure, (axes,) = style.panels([""], size)
    columns = ["embeddings", *(f"layer {number}" for number in range(1, states))]
    texts = [[f"{100 * cell:.1f}" if np.isfinite(cell) else "" for cell in line] for line in shown]
    low, high = np.nanmin(shown), np.nanmax(shown)
    # from 0, small differences would have one colour
    shades = {"vmin": low if low < high else 0, "vmax": high}
    mesh = style.cell_map(axes, shown, labels, columns, texts=texts, size=style.SMALL, **shades)
    for above, start in enumerate(starts):
        axes.axhspan(start + above, start + above + 1, facecolor="white", linewidth=0)
        axes.get_yticklabels()[start + above].set_fontweight("bold")
    figure.suptitle(f"{title}, in %", fontsize=style.TITLE)
    counts = {int(np.isfinite(line).sum()) for line in values}
    label = "a row sums to 100 %" + "; black line: equal weights" * (len(counts) == 1)
    shape = {"pad": 0.02, "format": lambda weight, _: f"{100 * weight:.3g} %"}
    shape["aspect"] = max(20.0, row * max(count, 4) / BAR_WIDTH)
    bar = style.colour_bar(figure, mesh, label, ax=axes, **shape)
    if len(counts) == 1:
        bar.axhline(1 / counts.pop(), color="black", linewidth=1.2)
    return figure


# More tokens than MAX_ACROSS continue in a panel below, as a text continues in its next line.
MAX_ACROSS, MAX_TOKENS = 64, 1024
# With more tokens, a figure of a panel per head would be too large to read.
MAX_TOKENS_OF_HEADS = 128
# With more tokens, cells have no room for their numbers.
MAX_WITH_NUMBERS = 20
# Smaller weights have the lightest colour.
LEAST_SHOWN = 0.001
# Inches.
TOKEN, WITH_NUMBER, PAGE, BAR = 0.24, 0.46, 15.0, 3.0


@dataclass(frozen=True)
class ClsAttention:
    """The attention of [CLS] to each token of one input.

    Attributes:
        tokens: T texts, special tokens included; the first is [CLS] (<s> in RoBERTa).
        separators: positions of [SEP] in ``tokens``.
        weights: float32 [L, h, T], layer by layer and head by head; each row sums to 1.
    """

    tokens: list[str]
    separators: list[int]
    weights: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Average over heads [L, T]."""
        average: np.ndarray = self.weights.mean(axis=1)
        return average

    def to_json(self, heads: bool) -> dict[str, Any]:
        """Return ``tokens``, ``separators``, ``mean`` [L][T]; with ``heads`` also [L][h][T]."""
        values = {"tokens": self.tokens, "separators": self.separators, "mean": self.mean.tolist()}
        return values | ({"heads": self.weights.tolist()} if heads else {})


def draw_mean(attention: ClsAttention, source: str) -> "style.Figure":
    """Draw the mean over heads; a long text continues in panels below.

    ``source`` names the model in the title.

    Raises:
        UserError: more than ``MAX_TOKENS`` tokens.
    """
    layers, total = attention.mean.shape
    if total > MAX_TOKENS:
        raise UserError(f"the text has {total} tokens, the picture room for {MAX_TOKENS}: cut it")
    strips = math.ceil(total / MAX_ACROSS)
    width = math.ceil(total / strips)
    cell = WITH_NUMBER if total <= MAX_WITH_NUMBERS else TOKEN
    # the colour bar needs room for its labels
    size = (cell * width, 0.9 + 0.3 * max(layers, 5))
    starts = range(0, total, width)
    figure, places = style.panels([""] * len(starts), size, (1.9, 0.9))
    names = [f"layer {number}" for number in range(1, layers + 1)]
    for axes, start in zip(places, starts, strict=True):
        part = slice(start, min(start + width, total))
        mesh = _attention_map(axes, attention, attention.mean, names, part=part)
        axes.set_xlim(0, width)
    heads = attention.weights.shape[1]
    _with_source(figure, mesh, attention, which=f"mean over {heads} heads", source=source)
    return figure


def in_percent(weight: float) -> str:
    """Write a weight in percent; one below 1 % has a digit, or it would read as 0 or 1."""
    return f"{100 * weight:.1f}" if weight < 0.0095 else f"{100 * weight:.0f}"


def draw_heads(attention: ClsAttention, source: str) -> "style.Figure":
    """Draw a panel per head; all have the same colour scale.

    Raises:
        UserError: more than ``MAX_TOKENS_OF_HEADS`` tokens.
    """
    layers, heads, total = attention.weights.shape
    if total > MAX_TOKENS_OF_HEADS:
        raise UserError(
            f"--heads: the text has {total} tokens, and a panel a head can be read up to "
            f"{MAX_TOKENS_OF_HEADS}: shorten the text, or leave --heads out"
        )
    size = (0.5 + TOKEN * total, 1.2 + 0.16 * layers)
    columns = max(1, min(math.ceil(math.sqrt(heads)), int(PAGE / size[0])))
    titles = [f"head {head + 1}" for head in range(heads)]
    figure, places = style.panels(titles, size, (1.6, 0.9), columns)
    names = [*map(str, range(1, layers + 1))]
    for head, axes in enumerate(places):
        weights = attention.weights[:, head]
        mesh = _attention_map(axes, attention, weights, names, part=slice(0, total), numbers=False)
    for axes in places[::columns]:
        axes.set_ylabel("layer", fontsize=style.LABEL)
    _with_source(figure, mesh, attention, which=f"each of {heads} heads", source=source)
    return figure


def _attention_map(
    axes: "style.Axes",
    attention: ClsAttention,
    weights: np.ndarray,
    layers: Sequence[str],
    part: slice,
    numbers: bool = True,
) -> Any:
    """Draw weights [L, T] of the tokens of ``part``: layer 1 on top, the end of each text marked.

    All pictures have the same colour scale, so that runs and texts can be compared. It is
    logarithmic, because [CLS] and [SEP] often get nearly all the weight and the words would be
    blank.
    """
    from matplotlib.colors import LogNorm

    few = len(attention.tokens) <= MAX_WITH_NUMBERS
    shown, tokens = weights[:, part], [style.label(token) for token in attention.tokens[part]]
    texts = [[in_percent(weight) for weight in row] for row in shown] if few and numbers else []
    scale = LogNorm(LEAST_SHOWN, 1, clip=True)
    mesh = style.cell_map(axes, shown, layers, tokens, texts=texts, size=style.SMALL, norm=scale)
    names = axes.get_xticklabels()
    for name in names:
        name.set(rotation=45 if few else 90, ha="right" if few else "center")
        name.set_rotation_mode("anchor" if few else "default")
    for place in attention.separators:
        if part.start <= place < part.stop:
            names[place - part.start].set(fontweight="bold", color=style.VERMILLION)
            if place + 1 < len(attention.tokens):
                axes.axvline(place + 1 - part.start, color=style.VERMILLION, linewidth=1.2)
    return mesh


def _with_source(
    figure: "style.Figure", mesh: Any, attention: ClsAttention, which: str, source: str
) -> None:
    """Add the title, which names the model, and the colour bar of all panels."""
    title = f"Attention from {style.label(attention.tokens[0])}, {which}"
    figure.suptitle(f"{title}\n{style.end_of(source, 56)}", fontsize=style.TITLE)
    shape = {"shrink": min(0.9, BAR / figure.get_figheight()), "anchor": (0, 1)}
    label = "weight (a row sums to 100 %)"
    bar = style.colour_bar(figure, mesh, label, ax=figure.axes, **shape)
    bar.set_yticks([LEAST_SHOWN, 0.01, 0.1, 1], labels=["≤ 0.1 %", "1 %", "10 %", "100 %"])
    bar.minorticks_off()


OTHERS = "other tasks"


class TaskGroups(Strict):
    """The file of ``--groups``: the tasks of each group, both in the order of the figure."""

    groups: dict[str, list[str]] = Field(min_length=1)


def load_groups(path: str | PathLike[str]) -> dict[str, list[str]]:
    """Read the tasks of each group from a file.

    Raises UserError: one line with file, line and key path.
    """
    return parsed(load_extended(Path(path)), TaskGroups).groups


def in_groups(
    tasks: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[list[int], list[str]]:
    """Order tasks by group; tasks of one name keep their order, tasks without a group come last.

    Returns:
        The places of the tasks in the new order, and for each of them the name of its group.

    Raises:
        UserError: none of the tasks is in a group.
    """
    group_of = {task: group for group, members in groups.items() for task in members}
    if group_of.keys().isdisjoint(tasks):
        names = ", ".join(dict.fromkeys(tasks))
        raise UserError(f"--groups: no group has a task of the runs ({names}): add them to one")
    rank = {task: place for place, task in enumerate(group_of)}
    order = sorted(range(len(tasks)), key=lambda place: rank.get(tasks[place], len(rank)))
    return order, [group_of.get(tasks[place], OTHERS) for place in order]
