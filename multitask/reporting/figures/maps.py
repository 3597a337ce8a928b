# Long: all maps of cells, so that they look alike.
"""Maps: scores of a grid, confusion, importance of layers, and attention.

One hue or cividis stays readable for the colour-blind and in grey print.
"""

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from pydantic import Field, ValidationError

from multitask.config import Strict, explain
from multitask.config.registry import task_type
from multitask.config.yaml_merge import load_extended
from multitask.reporting.figures import style
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import TaskReport
from multitask.utils.errors import UserError

MAX_COLUMNS = 3
# With more cells in a row, a figure would be too wide to read.
MAX_CELLS_ACROSS = 12


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
    import matplotlib
    from matplotlib.colors import Normalize

    height, width = (max(each.values.shape[axis] for each in maps) for axis in (0, 1))
    columns = min(MAX_COLUMNS, len(maps), max(1, MAX_CELLS_ACROSS // width))
    figure, places = style.panels(
        len(maps),
        columns,
        lambda across, down: (
            max(4.2, 1.2 + (1.6 + 0.85 * width) * across),
            0.6 + (1.2 + 0.5 * height) * down,
        ),
    )
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in maps])
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    colours = matplotlib.colormaps[style.SCORES].with_extremes(bad=style.NO_SCORE)
    scale = matplotlib.cm.ScalarMappable(Normalize(low, high), colours)
    for axes, each in zip(places, maps, strict=False):
        _heatmap(axes, each, scale)
    if low < high:
        style.colour_bar(figure, scale, style.label(measure, width=40), ax=places, shrink=0.85)
    return figure


def _heatmap(axes: "style.Axes", heatmap: Heatmap, scale: Any) -> None:
    cells = np.ma.masked_invalid(heatmap.values)
    rows, columns = cells.shape
    shades = scale.to_rgba(cells)
    axes.imshow(shades, aspect="auto")
    axes.set(xlabel=_key_text(heatmap.columns), ylabel=_key_text(heatmap.rows))
    across = style.labels(heatmap.column_labels)
    axes.set_xticks(range(columns), across)
    axes.set_yticks(range(rows), style.labels(heatmap.row_labels))
    if max(map(len, across), default=0) > 7:
        style.tilt(axes, 35)
    style.separate_cells(axes, rows, columns)
    axes.spines[:].set_visible(False)
    texts = [
        [f"{value:.3f}" if math.isfinite(value) else "-" for value in row] for row in heatmap.values
    ]
    style.write_in_cells(axes, texts, shades, style.LABEL)


def _key_text(key: str) -> str:
    """Shorten a config key for an axis; the end of a long one says more."""
    return style.label(key if len(key) <= 28 else f"…{key[-27:]}", width=28)


# With more classes there is no room for counts in the cells, or for names on the axes.
MAX_CLASSES_WITH_COUNTS = 12
MAX_CLASSES_WITH_NAMES = 30


def confusion(task: str, result: TaskReport, predictions: Path) -> "style.Figure":
    """Draw counts of gold (rows) and predicted (columns); the colour is the share of the row."""
    counts = np.array(result.dev["confusion"])
    size = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = style.labels(map(str, result.classes or range(size)), width=18)

    side = min(max(0.85 * size, 2.4), 9.0)
    figure, axes = style.new_panel(side + 2.6, side + 1.5)
    image = axes.imshow(shares, cmap=style.ONE_HUE, vmin=0, vmax=1)
    label = "share of the gold class"
    style.colour_bar(figure, image, label, ax=axes, shrink=0.85, format=_percent)
    axes.set(xlabel="predicted", ylabel="gold")
    what = task_type(result.label_type).counted
    axes.set_title(
        f"{style.label(task)}: {counts.trace():,} of {counts.sum():,} {what} right",
        fontsize=style.TITLE,
    )
    axes.spines[:].set_visible(False)
    if size <= MAX_CLASSES_WITH_NAMES:
        axes.set_xticks(range(size), names)
        axes.set_yticks(range(size), names)
        if max(map(len, names)) > 4:
            style.tilt(axes, 35)
    if size <= MAX_CLASSES_WITH_COUNTS:
        style.separate_cells(axes, size, size)
        texts = [
            [f"{count:,}\n{_percent(share)}" for count, share in zip(*row, strict=True)]
            for row in zip(counts, shares, strict=True)
        ]
        style.write_in_cells(axes, texts, image.to_rgba(shares), style.LABEL)
    return figure


def _percent(share: float, _: object = None) -> str:
    """Write a share as text; matplotlib also passes the position of a tick."""
    return f"{100 * share:.0f} %"


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


# More tokens than MAX_ACROSS continue in a panel below, as a text continues in its next line.
MAX_ACROSS, MAX_TOKENS = 64, 1024
# With more tokens, a figure of a panel per head would be too large to read.
MAX_TOKENS_OF_HEADS = 128
# With more tokens, cells have no room for their numbers.
MAX_WITH_NUMBERS = 20
# Smaller weights have the lightest colour.
LEAST_SHOWN = 0.001
# Inches.
CELL_ATTENTION_MAP, CELL_WITH_NUMBER = 0.24, 0.46
PAGE = 15.0
BAR = 3.0


class AttentionKeys(TypedDict):
    """The keys of attention.json: weights per layer and token, and per layer, head and token."""

    tokens: list[str]
    separators: list[int]
    mean: list[list[float]]
    heads: NotRequired[list[list[list[float]]]]


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

    def to_json(self, heads: bool) -> AttentionKeys:
        """Return ``tokens``, ``separators``, ``mean`` [L][T]; with ``heads`` also [L][h][T]."""
        values: AttentionKeys = {
            "tokens": self.tokens,
            "separators": self.separators,
            "mean": self.mean.tolist(),
        }
        if heads:
            values["heads"] = self.weights.tolist()
        return values


def draw_mean(attention: ClsAttention, source: str) -> "style.Figure":
    """Draw the mean over heads; a long text continues in panels below.

    ``source`` names the model in the title.

    Raises:
        UserError: more than ``MAX_TOKENS`` tokens.
    """
    layers, total = attention.mean.shape
    if total > MAX_TOKENS:
        raise UserError(f"the text has {total} tokens, the picture room for {MAX_TOKENS}: cut it")
    width = math.ceil(total / math.ceil(total / MAX_ACROSS))
    starts = range(0, total, width)
    strips = len(starts)
    numbers = total <= MAX_WITH_NUMBERS
    cell = CELL_WITH_NUMBER if numbers else CELL_ATTENTION_MAP
    height = 0.9 + strips * (0.9 + 0.3 * max(layers, 5))  # the colour bar needs room for its labels
    figure, places = style.panels(strips, 1, lambda *_: (max(5.0, 1.9 + cell * width), height))
    names = [f"layer {number}" for number in range(1, layers + 1)]
    for place, start in zip(places, starts, strict=True):
        part = slice(start, min(start + width, total))
        mesh = _panel(place, attention, attention.mean, names, part=part)
        place.set_xlim(0, width)
        if numbers:
            texts = [[_in_percent(weight) for weight in row] for row in attention.mean]
            style.write_in_cells(
                place, texts, mesh.to_rgba(attention.mean), style.SMALL, offset=0.5
            )
    heads = attention.weights.shape[1]
    _finish(figure, mesh, attention, which=f"mean over {heads} heads", source=source)
    return figure


def _in_percent(weight: float) -> str:
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
    wide = 0.5 + CELL_ATTENTION_MAP * total
    columns = max(1, min(math.ceil(math.sqrt(heads)), int(PAGE / wide)))
    figure, places = style.panels(
        heads,
        columns,
        lambda across, down: (max(5.0, 1.6 + wide * across), 0.9 + down * (1.2 + 0.16 * layers)),
    )
    for head, place in enumerate(places[:heads]):
        names = [*map(str, range(1, layers + 1))]
        mesh = _panel(place, attention, attention.weights[:, head], names, part=slice(0, total))
        place.set_title(f"head {head + 1}", fontsize=style.LABEL)
    for place in places[::columns]:
        place.set_ylabel("layer", fontsize=style.LABEL)
    _finish(figure, mesh, attention, which=f"each of {heads} heads", source=source)
    return figure


def _panel(
    axes: "style.Axes",
    attention: ClsAttention,
    weights: np.ndarray,
    layers: Sequence[str],
    part: slice,
) -> Any:
    """Draw weights [L, T] of the tokens of ``part``: layer 1 on top, the end of each text marked.

    All pictures have the same colour scale, so that runs and texts can be compared. It is
    logarithmic, because [CLS] and [SEP] often get nearly all the weight and the words would be
    blank.
    """
    from matplotlib.colors import LogNorm

    labels = [style.label(token) for token in attention.tokens[part]]
    scale = LogNorm(LEAST_SHOWN, 1, clip=True)
    mesh = style.cell_map(axes, weights[:, part], layers, labels, norm=scale)
    if len(attention.tokens) > MAX_WITH_NUMBERS:
        axes.tick_params(axis="x", rotation=90)
    else:
        style.tilt(axes, 45)
    for place, label in enumerate(axes.get_xticklabels(), part.start):
        if place in attention.separators:
            label.set(fontweight="bold", color=style.VERMILLION)
    for place in attention.separators:
        if part.start <= place < part.stop and place + 1 < len(attention.tokens):
            axes.axvline(place + 1 - part.start, **style.LOOKS["end of text"])
    return mesh


def _finish(
    figure: "style.Figure", mesh: Any, attention: ClsAttention, which: str, source: str
) -> None:
    """Add the title, which names the model, and the colour bar of all panels."""
    title = f"Attention from {style.label(attention.tokens[0])}, {which}"
    whose = source if len(source) <= 56 else f"…{source[-55:]}"  # of a path, the end says more
    figure.suptitle(f"{title}\n{style.label(whose, width=56)}", fontsize=style.HEADING)
    label, shrink = "weight (a row sums to 100 %)", min(0.9, BAR / figure.get_figheight())
    bar = style.colour_bar(
        figure, mesh, label, style.SMALL, ax=figure.axes, shrink=shrink, anchor=(0, 1)
    )
    bar.set_ticks([LEAST_SHOWN, 0.01, 0.1, 1], labels=["≤ 0.1 %", "1 %", "10 %", "100 %"])
    bar.minorticks_off()


OTHERS = "other tasks"


class TaskGroups(Strict):
    """The keys of the file.

    Attributes:
        groups: the tasks of each group; groups and tasks are in the order of the figure.
    """

    groups: dict[str, list[str]] = Field(min_length=1)


def load_groups(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the tasks of each group from a file.

    Raises UserError: one line with file, line and key path.
    """
    tree = load_extended(Path(path))
    try:
        groups = TaskGroups.model_validate(tree.value).groups
    except ValidationError as error:
        raise explain(error, tree, TaskGroups) from error
    group_of: dict[str, str] = {}
    for group, tasks in groups.items():
        for place, task in enumerate(tasks):
            if task in group_of:
                message = f"{task} is already in {group_of[task]!r}: name it once"
                raise tree.error(("groups", group, place), message)
            group_of[task] = group
    return groups


def in_groups(
    tasks: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[list[int], list[str]]:
    """Order tasks by group; tasks of one name keep their order, tasks without a group come last.

    Returns:
        The places of the tasks in the new order, and for each of them the name of its group.

    Raises:
        UserError: none of the tasks is in a group.
    """
    listed = [(task, group) for group, members in groups.items() for task in members]
    rank = {task: place for place, (task, _) in enumerate(listed)}
    if not set(tasks) & set(rank):
        names = ", ".join(dict.fromkeys(tasks))
        raise UserError(f"--groups: no group has a task of the runs ({names}): add them to one")
    order = sorted(range(len(tasks)), key=lambda place: rank.get(tasks[place], len(rank)))
    group_of = dict(listed)
    return order, [group_of.get(tasks[place], OTHERS) for place in order]
