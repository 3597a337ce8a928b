"""Write report.json at the end of a run, and the predictions, pages and model card with it."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from multitask.config.config import seen_corpora
from multitask.inference.scoring import Scores
from multitask.inference.write_predictions import write_predictions
from multitask.models.multitask_model import parameter_counts
from multitask.models.weights import intact_weights, read_checked
from multitask.reporting.model_card import write_card
from multitask.reporting.run_report import write_reports
from multitask.store.files import without_nan
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import Baselines, RunReport, Score, TaskReport, Turns, selected_steps
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.confusion import confusion
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import file_records
from multitask.tasks.rows import Rows
from multitask.training.gradient_conflict import conflict_summary
from multitask.training.setup import Plan
from multitask.training.stages import trained_parameters
from multitask.training.trainer import Trainer
from multitask.utils import distributed
from multitask.utils.device import gpu_facts, precision_name
from multitask.utils.versions import command_line, versions


def save_results(
    plan: Plan, trainer: Trainer, baselines: Mapping[str, Baselines], revision: str | None
) -> RunReport:
    """Score every split with the selected weights, and save predictions and reports.

    All ranks score; the first one writes. Returns the content of report.json.
    """
    run, progress, config = trainer.checkpoints.run, trainer.progress, plan.config
    best = trainer.selection.best_steps()
    steps = selected_steps(best, config.selecting_tasks(), config.training.select)
    events = run.load_events()
    evaluations = [event["tasks"] for event in events if event["event"] == "eval"]
    tasks: dict[str, TaskReport] = {}
    predictions: dict[str, list[dict[str, Any]]] = {}
    seconds: dict[str, float] = {}
    loaded = None
    distributed.on_first(lambda: None)  # wait until the first rank has written the weights
    for task, step in steps.items():
        if step != loaded:
            loaded = step
            plan.model.load_state_dict(read_checked(intact_weights(run, step)))
        dev = save_task_predictions(plan, task, run)
        if dev is None:
            continue
        scores, seconds[task] = dev
        rows, reader = plan.data.splits[task]["dev"].rows, plan.data.readers[task]
        predictions[task] = [*file_records(rows, reader, scores.predictions, scores.scores)]
        own = trainer.selection.best[task].step if task in best else None
        tasks[task] = task_result(
            plan,
            task,
            scores,
            baselines[task],
            selected_step=step,
            turns=Turns(trained=progress.trained[task], skipped=progress.skipped[task]),
            stopped_at_step=trainer.selection.early_stopping.last_stops.get(task),
            remarks=still_improving(own, trainer.step, len(evaluations)),
        )
    training = {
        "git_revision": revision,
        "wall_time_s": progress.wall_seconds(),
        "train_sentences_per_s": progress.all_sentences() / max(progress.seconds, 1e-9),
        "epoch_seconds": progress.seconds / max(trainer.epoch, 1e-9),
        "dev_seconds": seconds,
        "steps": {"planned": trainer.stages.total_steps, "done": trainer.step},
        "trained_parameters": trained_parameters(plan.model, plan.stages),
        "select": config.training.select,
        "conflict": conflict_summary(events),
    }
    warnings = [*plan.warnings, *undefined_scores(plan, evaluations)]
    report = run_result(plan, tasks, training, warnings)
    if distributed.rank() == 0:
        run.write_json(run.report, report.content())  # a run that has this file is finished
        write_reports(run, report, events, config, predictions=predictions)
        write_card(run, report, config)
    return report


def save_task_predictions(plan: Plan, task: str, run: RunDirectory) -> tuple[Scores, float] | None:
    """Score all splits of a task except train, and write their predictions.

    Returns the scores on dev and the seconds that they took; None if the task has no dev rows.
    """
    dev = None
    for name, split in plan.data.splits[task].items():
        if name == "train":
            continue
        began = time.perf_counter()
        scores = plan.scorer.score(task, split)
        if name == "dev":
            dev = scores, time.perf_counter() - began
        if distributed.rank() == 0:
            reader, entry = plan.data.readers[task], plan.config.tasks[task]
            write_predictions(
                run, task, name, rows=split.rows, scores=scores, reader=reader, entry=entry
            )
    return dev


def task_result(
    plan: Plan,
    task: str,
    scores: Scores,
    baselines: Baselines,
    *,
    selected_step: int,
    turns: Turns,
    stopped_at_step: int | None = None,
    remarks: Sequence[str] = (),
) -> TaskReport:
    """Build a task's entry in report.json from its dev ``scores``.

    ``selected_step`` is the step of its weights; ``remarks`` are about its training.
    """
    config = plan.config
    entry, reader = config.tasks[task], plan.data.readers[task]
    metric = plan.metrics[task]
    rows = plan.data.splits[task]["dev"].rows
    dev, intervals = dev_results(scores, rows, reader)
    unseen, flagged = None, flags(metric, dev, baselines)
    if task in config.trained_tasks():
        flagged += [*next_steps(task, plan.model.head(task), dev, reader.names), *remarks]
        flagged += ["no step trained it"] * (not turns.trained)
    if entry.evaluate_only and plan.data.summary[task]["dev"].in_train:
        seen = plan.data.seen[task]["dev"].own
        unseen = unseen_results(scores, rows, reader, seen)
        left = f"without the {int(seen.sum()):,} rows in train"
        flagged.append(f"{left}: {metric} {unseen[metric]:.3f}")
    numbers = reader.task_type.described_by == "label_range"
    return TaskReport(
        label_type=reader.task_type.name,
        classes=list(reader.names) or None,
        label_range=[reader.low, reader.high] if numbers else None,
        metric=metric,
        evaluate_only=entry.evaluate_only,
        input=entry.input,
        pooling=entry.pooling.name,
        head=entry.head.name,
        dev=dev,
        dev_intervals=intervals,
        unseen=unseen,
        baselines=baselines,
        flags=flagged,
        data=plan.data.summary[task],
        selected_step=selected_step,
        turns=turns,
        stopped_at_step=stopped_at_step,
    )


def undefined_scores(plan: Plan, evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a warning for each task whose score was undefined in an evaluation of the run."""
    warnings = []
    for task in plan.config.trained_tasks():
        metric = plan.metrics[task]
        scores = [scores[task][metric] for scores in evaluations if task in scores]
        if None in scores:
            count = f"{scores.count(None)} of {len(scores)} evaluations"
            split = plan.selection_split
            warnings.append(
                f"{task}: {metric} was undefined on {split} in {count}: the mean left it out"
            )
    return warnings


def run_result(
    plan: Plan,
    tasks: Mapping[str, TaskReport],
    training: Mapping[str, object],
    warnings: Sequence[str],
) -> RunReport:
    """Build report.json from the tasks' entries and the keys about the training."""
    config = plan.config
    counted = metrics.joint_tasks(
        {n: plan.data.readers[n].task_type for n in tasks if not tasks[n].evaluate_only}
    )
    dev = {name: entry.dev for name, entry in tasks.items()}
    headline = {name: dev[name][tasks[name].metric] for name in counted}
    content = {
        "format": 1,
        "command": command_line(),
        "seed": config.seed,
        "versions": versions("torch", "transformers", "datasets", "scikit-learn"),
        "device": str(plan.device),
        **({} if (gpu := gpu_facts(plan.device)) is None else {"gpu": gpu}),
        "precision": precision_name(plan.model.autocast),
        "kernels": plan.model.encoder.kernels,
        **({"trial": True} if config.trial else {}),
        "processes": distributed.world(),
        "threads": torch.get_num_threads(),
        **training,
        "selection_split": plan.selection_split,
        "init_from": plan.init_from and plan.init_from.content(),
        "encoder": {
            "name": config.encoder.name,
            "parameters": parameter_counts(plan.model)["encoder"],
            "seen_corpora": list(seen_corpora(config)),
            "from_scratch": config.encoder.from_scratch,
        },
        "overall": {
            "mean": metrics.mean_of_defined(headline),
            "cs224n": metrics.overall_cs224n(dev),
        },
        "tasks": {name: entry.content() for name, entry in tasks.items()},
        "warnings": warnings,
    }
    return RunReport.model_validate(without_nan(content))


def dev_results(
    scores: Scores, rows: Rows, reader: LabelReader
) -> tuple[dict[str, Any], dict[str, list[Score]]]:
    """Build the ``dev`` and ``dev_intervals`` entries of a task's report.

    ``dev`` has a number per metric, and a matrix: see ``TaskReport.dev``.
    """
    kind = reader.task_type
    columns = kind.columns(rows, reader, scores.predictions, scores.scores)
    points = metrics.compute(kind, columns, reader.metrics)
    dev: dict[str, Any] = {"rows": len(rows), **points, "loss": scores.loss}
    pairs = kind.confusion_columns(rows, reader, scores.predictions)
    if pairs is not None:
        dev["confusion"] = confusion(*pairs, len(reader.names))
    if scores.flip_rate is not None:
        dev["flip_rate"] = scores.flip_rate
    spans = intervals(kind, columns, reader.metrics)
    return dev, {name: list(span) for name, span in spans.items()}


def unseen_results(
    scores: Scores, rows: Rows, reader: LabelReader, seen: np.ndarray
) -> dict[str, Score]:
    """Compute the metrics over the dev rows that are not ``seen`` in training, bool [N]."""
    columns = reader.task_type.columns(rows, reader, scores.predictions, scores.scores)
    labels, predictions, shown = (column[~seen] for column in columns)
    points = metrics.compute(reader.task_type, (labels, predictions, shown), reader.metrics)
    return {"rows": int((~seen).sum()), **points}


# --- flags: what is wrong with the scores, and what to try next ---


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
