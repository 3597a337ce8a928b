# Tested by tests/reporting/figures/test_training_curves.py
"""Draw predicted against gold numbers of a task's dev set."""

from pathlib import Path

from multitask.config.registry import task_type
from multitask.config.run_log import load_lines
from multitask.config.saved.report_model import TaskReport
from multitask.reporting.figures import style


def scatter(task: str, result: TaskReport, predictions: Path) -> "style.Figure":
    """Draw one dot per dev row; the title has the first metric of the task type."""
    labelled = [record for record in load_lines(predictions) if record["label"] is not None]
    gold = style.numbers(record["label"] for record in labelled)
    predicted = style.numbers(record["prediction"] for record in labelled)
    figure, axes = style.new_panel(5.4, 5.0)
    axes.scatter(gold, predicted, **style.LOOKS["dots"])
    low, high = result.label_range or (gold.min(initial=0), gold.max(initial=1))
    axes.plot([low, high], [low, high], **style.LOOKS["diagonal"], label="predicted = gold")
    axes.set(xlabel="gold", ylabel="predicted")
    metric = task_type(result.label_type).selects[0]
    value = result.dev[metric]
    score = f"{metric.capitalize()} {'undefined' if value is None else f'{value:.3f}'}"
    axes.set_title(
        f"{style.label(task)}: {score} on {len(labelled):,} dev rows",
        fontsize=style.TITLE,
    )
    style.quiet_frame(axes)
    axes.legend(loc="upper left", frameon=False)
    return figure
