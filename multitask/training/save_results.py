"""What report.json holds: each task's scores and baselines, and what it takes to repeat the run."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from multitask.config import Config
from multitask.config.config import seen_corpora
from multitask.data.summary import seen_rows, text_sets, training_rows
from multitask.inference.scoring import Scores
from multitask.models.multitask_model import parameter_counts
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.confusion import confusion
from multitask.tasks.examples import LabelReader, Rows
from multitask.training.setup import Plan
from multitask.utils import distributed
from multitask.utils.files import without_nan
from multitask.utils.versions import versions


def task_result(
    plan: Plan,
    config: Config,
    task: str,
    scores: Scores,
    baselines: Mapping[str, Any],
) -> dict[str, Any]:
    """A task's entry in report.json, but for how it was trained, from its dev ``scores``."""
    entry, reader = config.tasks[task], plan.data.readers[task]
    metric = plan.metrics[task]
    rows = plan.data.splits[task]["dev"].rows
    measured = dev_results(scores, rows, reader)
    unseen, found_flags = None, flags(metric, measured["dev"], baselines)
    if entry.evaluate_only and plan.data.summary[task]["dev"]["in_train"]:
        training = training_rows(config, task, plan.data.splits)
        unseen = unseen_results(scores, rows, reader, training)
        left = f"without the {len(rows) - unseen['rows']:,} rows in train"
        found_flags.append(f"{left}: {metric} {unseen[metric]:.3f}")
    return {
        "label_type": reader.task_type.name,
        "classes": list(reader.names) or None,
        "label_range": [reader.low, reader.high] if reader.task_type.has_range else None,
        "metric": metric,
        "evaluate_only": entry.evaluate_only,
        "input": entry.input,
        "pooling": entry.pooling.name,
        "head": entry.head.name,
        **measured,
        "unseen": unseen,
        "baselines": baselines,
        "flags": found_flags,
        "data": plan.data.summary[task],
    }


def run_result(
    plan: Plan,
    config: Config,
    tasks: Mapping[str, Mapping[str, Any]],
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole of report.json: the entries of the tasks, and how they were trained."""
    counted = metrics.joint_tasks(
        {n: plan.data.readers[n].task_type for n in tasks if not tasks[n]["evaluate_only"]}
    )
    headline = {name: tasks[name]["dev"][tasks[name]["metric"]] for name in counted}
    found: dict[str, Any] = without_nan(
        {
            "format": 1,
            "command": shlex.join(["python", *sys.argv]),
            "seed": config.seed,
            "versions": versions("torch", "transformers", "datasets", "scikit-learn"),
            "device": str(plan.device),
            "precision": "bf16" if plan.model.autocast else "fp32",
            "kernels": plan.model.encoder.kernels,
            "processes": distributed.world(),
            "threads": torch.get_num_threads(),
            **training,
            "selection_split": plan.selection_split,
            "init_from": plan.init_from,
            "encoder": {
                "name": config.encoder.name,
                "parameters": parameter_counts(plan.model)["encoder"],
                "seen_corpora": list(seen_corpora(config)),
                "from_scratch": config.encoder.from_scratch,
            },
            "overall": {
                "mean": metrics.joint(headline),
                "cs224n": _course_score(tasks),
            },
            "tasks": tasks,
            "warnings": plan.warnings,
        }
    )
    return found


def _course_score(tasks: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The course's overall score; None unless its three tasks are there, under their names."""
    course = {"sst": "accuracy", "qqp": "accuracy", "sts": "pearson"}
    try:
        values = {task: tasks[task]["dev"][metric] for task, metric in course.items()}
    except KeyError:
        return None
    return metrics.overall_cs224n(values, course)


def dev_results(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, Any]:
    """The ``dev`` and ``dev_intervals`` entries of a task's report."""
    kind = reader.task_type
    columns = kind.columns(rows, reader, scores.predictions, scores.scores)
    points = metrics.compute(kind, columns)
    found: dict[str, Any] = {"rows": len(rows), **points, "loss": scores.loss}
    pairs = kind.confusion_columns(rows, reader, scores.predictions)
    if pairs is not None:
        found["confusion"] = confusion(*pairs, len(reader.names))
    spans = intervals(kind, columns)
    return {"dev": found, "dev_intervals": {name: list(span) for name, span in spans.items()}}


def unseen_results(
    scores: Scores, rows: Rows, reader: LabelReader, training: Sequence[Rows]
) -> dict[str, Any]:
    """The metrics over the dev rows that stand in none of the ``training`` rows, and how many."""
    seen = seen_rows(rows, text_sets(training, len(rows.texts[0])))
    columns = reader.task_type.columns(rows, reader, scores.predictions, scores.scores)
    labels, predictions, shown = (column[~seen] for column in columns)
    points = metrics.compute(reader.task_type, (labels, predictions, shown))
    return {"rows": int((~seen).sum()), **points}


def flags(metric: str, dev: Mapping[str, Any], baselines: Mapping[str, Any]) -> list[str]:
    """A line for each baseline that the trained score does not reach (NaN reaches none)."""
    found = []
    for name, words in (("frozen", "frozen-encoder"), ("trivial", "trivial")):
        floor = (baselines[name] or {}).get(metric)
        if floor is None:
            continue
        if not dev[metric] >= floor:
            found.append(f"below the {words} baseline ({dev[metric]:.3f} < {floor:.3f})")
        elif name == "trivial" and dev[metric] == floor:
            found.append(f"not above the {words} baseline ({floor:.3f})")
    return found
