"""The picture of what [CLS] attends to: tokens across, layers down; no torch here.

One hue, from white to dark: it survives colour blindness and grey printing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.reporting.figures.style import VERMILLION, label_text, new_figure, readable_on
from multitask.utils.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

# Tokens side by side: more of them go on in a panel below, as a text goes on in its next line.
MAX_ACROSS, MAX_TOKENS = 64, 1024
# Of more tokens a panel a head is a poster that nobody reads.
MAX_TOKENS_OF_HEADS = 128
# Up to so many tokens the cells have room for their numbers.
MAX_WITH_NUMBERS = 20
# Smaller weights have the lightest colour.
LEAST_SHOWN = 0.001
# Inches.
CELL, CELL_WITH_NUMBER = 0.24, 0.46
PAGE = 15.0
BAR = 3.0


@dataclass(frozen=True)
class ClsAttention:
    """What [CLS] attends to in one input.

    Attributes:
        tokens: T texts, special tokens included; the first is [CLS] (<s> in RoBERTa).
        separators: places of [SEP] in ``tokens``.
        weights: float32 [L, h, T], layer by layer and head by head; each row sums to 1.
    """

    tokens: list[str]
    separators: list[int]
    weights: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean over heads [L, T]."""
        found: np.ndarray = self.weights.mean(axis=1)
        return found

    def to_json(self, heads: bool) -> dict[str, Any]:
        """``tokens``, ``separators``, ``mean`` [L][T] and, if wanted, ``heads`` [L][h][T]."""
        found: dict[str, Any] = {"tokens": self.tokens, "separators": self.separators}
        found["mean"] = self.mean.tolist()
        return found | ({"heads": self.weights.tolist()} if heads else {})


def draw_mean(found: ClsAttention, source: str) -> "Figure":
    """The mean over heads; a long text goes on in panels below. ``source`` says whose it is.

    Raises:
        UserError: more than ``MAX_TOKENS``.
    """
    layers, total = found.mean.shape
    if total > MAX_TOKENS:
        raise UserError(f"the text has {total} tokens, the picture room for {MAX_TOKENS}: cut it")
    width = math.ceil(total / math.ceil(total / MAX_ACROSS))
    starts = range(0, total, width)
    strips = len(starts)
    numbers = total <= MAX_WITH_NUMBERS
    cell = CELL_WITH_NUMBER if numbers else CELL
    height = 0.9 + strips * (0.9 + 0.3 * max(layers, 5))  # the colour bar has words beside it
    figure = new_figure(max(5.0, 1.9 + cell * width), height)
    places = list(figure.subplots(strips, 1, squeeze=False).flat)
    for place, start in zip(places, starts, strict=True):
        mesh = _panel(place, found, found.mean, slice(start, min(start + width, total)))
        place.set_xlim(0, width)
        place.set_yticks(np.arange(layers) + 0.5, [f"layer {n}" for n in range(1, layers + 1)])
        if numbers:
            _numbers(place, found.mean, mesh)
    heads = found.weights.shape[1]
    _finish(figure, places, mesh, found, f"mean over {heads} heads", source)
    return figure


def draw_heads(found: ClsAttention, source: str) -> "Figure":
    """A panel for each head, all in one scale of colours.

    Raises:
        UserError: more than ``MAX_TOKENS_OF_HEADS`` tokens.
    """
    layers, heads, total = found.weights.shape
    if total > MAX_TOKENS_OF_HEADS:
        raise UserError(
            f"--heads: the text has {total} tokens, and a panel a head can be read up to "
            f"{MAX_TOKENS_OF_HEADS}: shorten the text, or leave --heads out"
        )
    wide = 0.5 + CELL * total
    columns = max(1, min(math.ceil(math.sqrt(heads)), int(PAGE / wide)))
    rows = math.ceil(heads / columns)
    figure = new_figure(max(5.0, 1.6 + wide * columns), 0.9 + rows * (1.2 + 0.16 * layers))
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for head, place in enumerate(places[:heads]):
        mesh = _panel(place, found, found.weights[:, head], slice(0, total))
        place.set_title(f"head {head + 1}", fontsize=9)
        place.set_yticks(np.arange(layers) + 0.5, range(1, layers + 1))
    for place in places[heads:]:
        place.set_visible(False)
    for place in places[::columns]:
        place.set_ylabel("layer", fontsize=9)
    _finish(figure, places, mesh, found, f"each of {heads} heads", source)
    return figure


def _panel(axes: "Axes", found: ClsAttention, weights: np.ndarray, part: slice) -> "QuadMesh":
    """Weights [L, T] on the tokens of ``part``: layer 1 on top, the end of each text marked.

    All pictures have one scale of colours, so that runs and texts can be compared by eye. It is
    logarithmic: [CLS] and [SEP] often draw nearly all weight, and the words would be blank.
    """
    from matplotlib.colors import LogNorm

    mesh = axes.pcolormesh(
        weights[:, part],
        cmap="Blues",
        norm=LogNorm(LEAST_SHOWN, 1, clip=True),
        edgecolors="white",
        linewidth=0.5,
    )
    axes.invert_yaxis()
    labels = [label_text(token) for token in found.tokens[part]]
    axes.set_xticks(np.arange(len(labels)) + 0.5, labels)
    steep = len(found.tokens) > MAX_WITH_NUMBERS
    for place, label in enumerate(axes.get_xticklabels(), part.start):
        label.set(rotation=90 if steep else 45, ha="center" if steep else "right")
        label.set_rotation_mode("default" if steep else "anchor")
        if place in found.separators:
            label.set(fontweight="bold", color=VERMILLION)
    for place in found.separators:
        if part.start <= place < part.stop and place + 1 < len(found.tokens):
            axes.axvline(place + 1 - part.start, color=VERMILLION, linewidth=1.2)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    return mesh


def _numbers(axes: "Axes", weights: np.ndarray, mesh: "QuadMesh") -> None:
    """Each weight in its cell, in percent."""
    shades = mesh.to_rgba(weights)
    for (layer, place), weight in np.ndenumerate(weights):
        colour = readable_on(shades[layer, place, :3])
        middle = (place + 0.5, layer + 0.5)
        axes.text(*middle, f"{100 * weight:.0f}", ha="center", va="center", color=colour, size=8)


def _finish(
    figure: "Figure",
    places: "Sequence[Axes]",
    mesh: "QuadMesh",
    found: ClsAttention,
    which: str,
    source: str,
) -> None:
    title = f"Attention from {label_text(found.tokens[0])}, {which}"
    whose = source if len(source) <= 56 else f"…{source[-55:]}"  # of a path, the end says more
    figure.suptitle(f"{title}\n{label_text(whose, width=56)}", fontsize=10)
    bar = figure.colorbar(
        mesh,
        ax=list(places),
        shrink=min(0.9, BAR / figure.get_figheight()),
        anchor=(0, 1),
    )
    bar.set_ticks([LEAST_SHOWN, 0.01, 0.1, 1], labels=["≤ 0.1 %", "1 %", "10 %", "100 %"])
    bar.minorticks_off()
    bar.set_label("weight (a row sums to 100 %)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
