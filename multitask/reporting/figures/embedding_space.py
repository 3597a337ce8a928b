"""Draw alignment, uniformity and mean cosine of sentence vectors over the training."""

from multitask.config.run_log import Event
from multitask.reporting.figures import style

PANELS = {
    "alignment": "alignment of similar pairs",
    "uniformity": "uniformity of all sentences",
    "mean_cosine": "mean cosine of any two",
}


def draw_space(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw a panel per measure and a line per task that is only evaluated; None without one.

    Lines start before the first step. Lower is better in all panels (Wang & Isola 2020).
    """
    evaluations = [event for event in events if event["event"] in ("space", "eval")]
    tasks = [
        task
        for task, scores in (evaluations[0]["tasks"] if evaluations else {}).items()
        if "uniformity" in scores
    ]
    if not tasks:
        return None
    figure = style.new_figure(11.0, 3.4)
    steps = [event["step"] for event in evaluations]
    for axes, (measure, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for place, (task, name) in enumerate(zip(tasks, style.labels(tasks), strict=True)):
            values = style.numbers(
                event["tasks"].get(task, {}).get(measure) for event in evaluations
            )
            axes.plot(steps, values, label=name, **style.line_style(place))
        axes.set_title(title, fontsize=style.HEADING)
        style.quiet_frame(axes)
        style.step_axis(axes, stages)
    style.legend_below(figure)
    return figure
