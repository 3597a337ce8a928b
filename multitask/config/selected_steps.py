# Tested by tests/training/test_weight_selection.py
"""The steps whose weights a run's tasks use, as ``training.select`` says."""

from collections.abc import Mapping

JOINT = "joint"  # the name of the joint mean among the tasks' best steps


def selected_steps(
    best: Mapping[str, int], tasks: Mapping[str, str], select: str
) -> dict[str, int]:
    """Return for each task the step whose weights it uses, as ``training.select`` says.

    ``tasks`` maps each task to the task whose evaluations select its weights: itself, if it trains.
    """
    return {
        task: best[selecting if select == "per_task" else select]
        for task, selecting in tasks.items()
    }
