"""Draw a hyperparameter search: the scores of its trials, and how much each parameter counts."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from multitask.reporting.figures import style

PANELS_IN_A_ROW = 3


def draw_history(
    scores: Mapping[str, Mapping[int, float]], pruned: Sequence[int]
) -> "style.Figure":
    """Draw a panel per objective: the score of each finished trial, and the best so far.

    ``scores`` are by objective and number of the trial; ``pruned`` are the numbers of the trials
    that were stopped early, which are marked below.
    """
    figure, places = style.panels(
        len(scores), PANELS_IN_A_ROW, lambda columns, rows: (1.0 + 4.2 * columns, 3.6 * rows)
    )
    for axes, (name, by_number) in zip(places, scores.items(), strict=False):
        numbers = sorted(by_number)
        values = [by_number[number] for number in numbers]
        best = list(accumulate(values, max))
        axes.step(numbers, best, where="post", color=style.ORANGE, label="best so far")
        axes.plot(numbers, values, **style.LOOKS["seed"], label="a finished trial")
        if by_number:
            first = max(by_number, key=lambda number: by_number[number])
            axes.plot(first, by_number[first], **style.LOOKS["best mean"], label="best trial")
        if pruned:
            low = [0.03] * len(pruned)
            where = axes.get_xaxis_transform()
            look = style.LOOKS["pruned"]
            axes.plot(pruned, low, **look, transform=where, label="pruned (no score)")
        axes.set(xlabel="trial", ylabel=f"holdout: {style.label(name)}")
        axes.locator_params(axis="x", integer=True)
        style.quiet_frame(axes)
    style.legend_below(figure)
    return figure


def draw_importance(importance: Mapping[str, Mapping[str, float]]) -> "style.Figure":
    """Draw a panel per objective: the share of the score's variance that each key explains."""
    keys = list(dict.fromkeys(key for shares in importance.values() for key in shares))
    figure, places = style.panels(
        len(importance),
        PANELS_IN_A_ROW,
        lambda columns, rows: (2.4 + 3.2 * columns, rows * (1.2 + 0.35 * len(keys))),
        sharey=True,
    )
    for axes, (name, shares) in zip(places, importance.items(), strict=False):
        axes.barh(range(len(keys)), [shares.get(key, 0.0) for key in keys], color=style.BLUE)
        axes.set_title(f"holdout: {style.label(name)}", fontsize=style.TITLE)
        axes.set(xlabel="importance", xlim=(0, 1))
        style.quiet_frame(axes)
        axes.grid(axis="y", visible=False)
    places[0].set_yticks(range(len(keys)), style.labels(keys, width=40))
    places[0].invert_yaxis()
    return figure
