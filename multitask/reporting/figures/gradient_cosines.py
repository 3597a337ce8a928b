"""Draw gradient conflict: cosines between the tasks' gradients over time and by layer."""

import numpy as np

from multitask.config.run_log import Event
from multitask.reporting.figures import style

MAX_PAIRS_WITH_NUMBERS = 12


def draw_conflict(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw each pair's cosine over the encoder (left) and its mean over time per part (right).

    None if the run did not measure it (see `training.conflict_steps`) or never had two tasks.
    """
    measured = [event for event in events if event["event"] == "conflict" and event["cosines"]]
    if not measured:
        return None
    pairs = list(dict.fromkeys(pair for event in measured for pair in event["cosines"]["all"]))
    every = {part for event in measured for part in event["cosines"]}  # a stage may freeze some
    parts = sorted(every - {"all"}, key=lambda part: int(part.partition("_")[2] or 0))
    figure = style.new_figure(11.0, max(3.6, 0.34 * len(parts) + 1.6))
    over_time, by_layer = figure.subplots(1, 2, width_ratios=[3, 2])
    steps = [event["step"] for event in measured]
    names = style.labels(pairs)
    for place, (pair, name) in enumerate(zip(pairs, names, strict=True)):
        values = cosines(measured, "all", pair)
        over_time.plot(steps, values, label=name, **style.line_style(place))
    over_time.axhline(0, **style.LOOKS["zero"])
    over_time.set_ylabel("cosine of the encoder's gradients")
    over_time.set_title("below 0 the tasks pull apart", fontsize=style.HEADING)
    style.quiet_frame(over_time)
    style.step_axis(over_time, stages)
    means = np.array([[_mean(cosines(measured, p, pair)) for pair in pairs] for p in parts])
    widest = max(0.1, float(np.nanmax(np.abs(means))))
    image = by_layer.imshow(means, cmap=style.TWO_HUES, vmin=-widest, vmax=widest, aspect="auto")
    by_layer.set_yticks(range(len(parts)), [part.replace("_", " ") for part in parts])
    by_layer.set_xticks(range(len(pairs)), names, rotation=30, ha="right")
    by_layer.set_title("mean over the training, by layer", fontsize=style.HEADING)
    if len(pairs) <= MAX_PAIRS_WITH_NUMBERS:
        texts = [[f"{value:z.3f}" for value in row] for row in means]
        style.write_in_cells(by_layer, texts, image.to_rgba(means), style.SMALL)
    figure.colorbar(image, ax=by_layer)
    style.legend_below(figure)
    return figure


def _mean(values: np.ndarray) -> float:
    """Average the numbers; NaN if there is none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else np.nan


def cosines(measured: list[Event], part: str, pair: str) -> np.ndarray:
    """Return a pair's cosine per measurement; NaN if it was not measured (a task had stopped)."""
    return style.numbers(event["cosines"].get(part, {}).get(pair) for event in measured)
