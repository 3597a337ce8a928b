"""The gain of training tasks together, in a comparison that has single-task groups too."""

import math
import statistics
from itertools import permutations

from multitask.reporting.comparison.comparison_json import Added, Comparison, Gain, Transfer


def transfer(comparison: Comparison) -> Transfer:
    """Compute the gains of multi-task over single-task groups; empty if one kind is missing.

    Delta m of a group over T tasks is 100 / T sum_t (M_t - B_t) / B_t, with B_t the mean score of
    task t trained alone (Maninis, Radosavovic and Kokkinos, "Attentive Single-Tasking of Multiple
    Tasks", CVPR 2019; all metrics here are better when higher). It is undefined (None)
    where a single-task score is not above zero, or a score is missing.

    If several groups have the same one or two tasks, the first one counts.

    Returns:
        ``singles``: the group of each task trained alone. ``gains``: by group, ``delta_m`` and the
        relative gain of each of its ``tasks``, in percent. ``matrix[A][B]``: what adding task A to
        the training of B changes B's score by (``change``, and the ``group`` of A and B).
    """
    scores: dict[str, dict[str, float | None]] = {
        group["name"]: {task: entry["mean"] for task, entry in group["tasks"].items()}
        for group in comparison["groups"]
    }
    singles: dict[str, str] = {}
    for name, by_task in scores.items():
        if len(by_task) == 1:
            singles.setdefault(next(iter(by_task)), name)
    alone = {task: scores[name][task] for task, name in singles.items()}
    several = {
        name: by_task
        for name, by_task in scores.items()
        if len(by_task) > 1 and by_task.keys() <= alone.keys()
    }
    if not several:
        return {}
    gains: dict[str, Gain] = {}
    matrix: dict[str, dict[str, Added]] = {}
    for name, by_task in several.items():
        changes = {task: _gain(score, alone[task]) for task, score in by_task.items()}
        relative = {task: percent for task, (_, percent) in changes.items()}
        defined = [percent for percent in relative.values() if percent is not None]
        delta = statistics.fmean(defined) if len(defined) == len(relative) else None
        gains[name] = {"delta_m": delta, "tasks": relative}
        if len(by_task) == 2:
            for task, added in permutations(by_task):
                entry: Added = {"change": changes[task][0], "group": name}
                matrix.setdefault(added, {}).setdefault(task, entry)
    return {"singles": singles, "gains": gains, "matrix": matrix}


def _gain(score: float | None, base: float | None) -> tuple[float | None, float | None]:
    """Return the gain over ``base``, and in percent of it; this one only if ``base`` is above 0."""
    if score is None or base is None or not math.isfinite(score - base):
        return None, None
    gain = score - base
    return gain, 100 * gain / base if base > 0 else None
