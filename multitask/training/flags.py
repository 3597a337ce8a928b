"""Flags of a task in the report: what is wrong with its scores, and what to try next."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multitask.store.saved import Baselines


def flags(metric: str, dev: Mapping[str, Any], baselines: Baselines) -> list[str]:
    """Return a remark if the score is undefined, and for each baseline that is not beaten."""
    remarks = []
    if math.isnan(dev[metric]):
        return [f"{metric} is undefined: all scores, or all labels, are alike"]
    for words, floors in (("frozen-encoder", baselines.frozen), ("trivial", baselines.trivial)):
        floor = (floors or {}).get(metric)
        if floor is None:
            continue
        if not dev[metric] >= floor:
            remarks.append(f"below the {words} baseline ({dev[metric]:.3f} < {floor:.3f})")
        elif words == "trivial" and dev[metric] == floor:
            remarks.append(f"not above the {words} baseline ({floor:.3f})")
    return remarks


def next_steps(task: str, head: Any, dev: Mapping[str, Any], classes: Sequence[str]) -> list[str]:
    """Return a remark for each weakness of a trained task that names what to try.

    Args:
        task: its name.
        head: its head; ``Head.advice`` names what its options leave out.
        dev: its entry ``dev`` in report.json.
        classes: the names of its classes.
    """
    remarks = []
    average_precision, counts = dev.get("average_precision"), dev.get("confusion")
    if average_precision is not None and counts:
        columns = zip(*counts, strict=True)  # the rows that are predicted as each class
        predicted = [name for name, column in zip(classes, columns, strict=True) if any(column)]
        share = sum(counts[1]) / dev["rows"]
        if len(predicted) == 1 and average_precision > share:
            remarks.append(
                f"predicts only {predicted[0]!r}, though average precision {average_precision:.3f} "
                f"is above the share of positives {share:.3f}: its scores rank the rows, so choose "
                f"another threshold than 0.5, or raise `tasks.{task}.head_lr`"
            )
    if flips := dev.get("flip_rate"):
        remarks.append(
            f"swapping the two texts changes {flips:.1%} of the predictions: if their order has no "
            f"meaning, try `tasks.{task}.head.features=[sum,abs_diff]`"
        )
    if head.advice:
        remarks.append(head.advice.format(task=task))
    return remarks


def still_improving(best_step: int | None, last_step: int | None, evaluations: int) -> list[str]:
    """Return a remark if the last step is the task's best one, of several evaluations.

    None: the step is unknown.
    """
    if best_step is None or best_step != last_step or evaluations < 2:
        return []
    return ["the last step is the best one: try more epochs (`training.epochs`)"]
