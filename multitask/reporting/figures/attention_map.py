"""Draw what [CLS] attends to: tokens across, layers down.

One hue, from white to dark, stays readable for the colour-blind and in grey print.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np

from multitask.reporting.figures import style
from multitask.utils.errors import UserError

# More tokens than MAX_ACROSS continue in a panel below, as a text continues in its next line.
MAX_ACROSS, MAX_TOKENS = 64, 1024
# With more tokens, a figure of a panel per head would be too large to read.
MAX_TOKENS_OF_HEADS = 128
# With more tokens, cells have no room for their numbers.
MAX_WITH_NUMBERS = 20
# Smaller weights have the lightest colour.
LEAST_SHOWN = 0.001
# Inches.
CELL, CELL_WITH_NUMBER = 0.24, 0.46
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
    cell = CELL_WITH_NUMBER if numbers else CELL
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
    wide = 0.5 + CELL * total
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
