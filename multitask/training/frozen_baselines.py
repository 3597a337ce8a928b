"""The baselines of a run: a trivial predictor, and heads trained on the frozen encoder."""

from collections.abc import Callable
from typing import Any

from multitask.config.run_directory import RunDirectory
from multitask.inference.scoring import measure
from multitask.inference.trivial_scores import trivial_scores
from multitask.training.frozen_probe import Probing, frozen_head_scores
from multitask.training.setup import Plan
from multitask.utils import distributed
from multitask.utils.errors import warn
from multitask.utils.files import without_nan


def run_baselines(
    plan: Plan, run: RunDirectory, resume: bool, say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Compute the trivial and frozen-encoder scores of each task, once per run; save them."""
    config = plan.config
    if resume:
        saved = distributed.on_first(lambda: _saved(plan, run))
        if saved is not None:
            return saved
    baselines: dict[str, dict[str, Any]] = {}
    for name in _measured(plan):
        task, splits, reader = config.tasks[name], plan.data.splits[name], plan.data.readers[name]
        baselines[name] = {"trivial": _trivial(plan, name), "frozen": None}
        if task.share_pooling and name not in config.trained_tasks():
            if config.training.frozen_baseline:  # its score before training
                before = measure(plan.scorer.score(name, splits["dev"]), splits["dev"].rows, reader)
                baselines[name]["frozen"] = before
            continue
        if task.only_scored or not reader.task_type.probes:
            continue
        is_this_run = config.encoder.freeze is True and task.adapter is None  # the baseline
        if config.training.frozen_baseline and not is_this_run:
            say(f"baseline: {name}'s head on the frozen encoder")
            lr = task.head_lr or config.training.head_lr
            how = Probing(lr, plan.metrics[name], config.seed)
            scores = frozen_head_scores(plan.scorer, name, splits, reader, how=how)
            baselines[name]["frozen"] = scores
    baselines = without_nan(baselines)
    distributed.on_first(lambda: run.write_json(run.baselines, baselines))
    return baselines


def _measured(plan: Plan) -> list[str]:
    """Return the tasks that have baselines."""
    return [
        name
        for name, task in plan.config.tasks.items()
        if task.evaluate_only or not task.only_scored or "dev" in plan.data.splits[name]
    ]


def _saved(plan: Plan, run: RunDirectory) -> dict[str, dict[str, Any]] | None:
    """Read the saved baselines; None if there are none, or, with a warning, if damaged."""
    saved = run.load_baselines()
    if saved is not None and list(saved) == _measured(plan):
        return saved
    if run.baselines.exists():
        warn(f"{run.baselines} is damaged: the baselines are measured again")
    return None


def _trivial(plan: Plan, task: str) -> dict[str, Any]:
    """Score a predictor that ignores the texts on dev; all None for an evaluate-only task."""
    entry, reader, splits = plan.config.tasks[task], plan.data.readers[task], plan.data.splits
    if entry.evaluate_only:
        return dict.fromkeys(reader.task_type.metrics)
    train, dev = splits[plan.config.selecting_tasks()[task]]["train"], splits[task]["dev"]
    masking = plan.data.maskings.get(task)
    return trivial_scores(plan.model.head(task), train, dev, reader, masking=masking)
