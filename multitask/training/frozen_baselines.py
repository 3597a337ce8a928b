"""The baselines of a run: a trivial predictor, and heads trained on the frozen encoder."""

import time
from collections.abc import Callable, Mapping

from multitask.inference.scoring import measure
from multitask.inference.trivial_scores import trivial_scores
from multitask.reporting.table_formats import duration
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import Baselines, Score
from multitask.tasks.base import RowLabels
from multitask.training.frozen_probe import Probing, frozen_head_scores
from multitask.training.setup import Plan
from multitask.utils import distributed
from multitask.utils.errors import warn


def run_baselines(
    plan: Plan, run: RunDirectory, resume: bool, say: Callable[[str], None]
) -> dict[str, Baselines]:
    """Compute the trivial and frozen-encoder scores of each task, once per run; save them."""
    if resume:
        saved = distributed.on_first(lambda: _saved(plan, run))
        if saved is not None:
            return saved
    baselines: dict[str, Baselines] = {}
    say("measuring the baselines")
    began = time.perf_counter()
    for name in _measured(plan):
        trivial = _trivial(plan, name)
        baselines[name] = Baselines(trivial=trivial, frozen=_frozen(plan, name, say)).defined()
    say(f"baselines measured in {duration(time.perf_counter() - began)}")
    contents = {name: each.content() for name, each in baselines.items()}
    distributed.on_first(lambda: run.write_json(run.baselines, contents))
    return baselines


def _frozen(plan: Plan, name: str, say: Callable[[str], None]) -> Mapping[str, Score] | None:
    """Score a task's head on the frozen encoder; None if the config or the task asks for none."""
    config, splits, reader = plan.config, plan.data.splits[name], plan.data.readers[name]
    task = config.tasks[name]
    if not config.training.frozen_baseline:
        return None
    if task.share_pooling and name not in config.trained_tasks():  # its score before training
        return measure(plan.scorer.score(name, splits["dev"]), splits["dev"].rows, reader)
    is_this_run = config.encoder.freeze is True and task.adapter is None  # the baseline
    if task.only_scored or not isinstance(reader.task_type, RowLabels) or is_this_run:
        return None
    say(f"baseline: {name}'s head on the frozen encoder")
    how = Probing(task.head_lr or config.training.head_lr, plan.metrics[name], config.seed)
    return frozen_head_scores(plan.scorer, name, splits, reader, how=how)


def _measured(plan: Plan) -> list[str]:
    """Return the tasks that have baselines."""
    return [
        name
        for name, task in plan.config.tasks.items()
        if task.evaluate_only or not task.only_scored or "dev" in plan.data.splits[name]
    ]


def _saved(plan: Plan, run: RunDirectory) -> dict[str, Baselines] | None:
    """Read the saved baselines; None if there are none, or, with a warning, if damaged."""
    saved = run.load_baselines()
    if saved is not None and list(saved) == _measured(plan):
        return saved
    if run.baselines.exists():
        warn(f"{run.baselines} is damaged: the baselines are measured again")
    return None


def _trivial(plan: Plan, task: str) -> Mapping[str, Score]:
    """Score a predictor that ignores the texts on dev; all None for an evaluate-only task."""
    entry, reader, splits = plan.config.tasks[task], plan.data.readers[task], plan.data.splits
    if entry.evaluate_only:
        return dict.fromkeys(reader.task_type.metrics)
    train, dev = splits[plan.config.selecting_tasks()[task]]["train"], splits[task]["dev"]
    masking = plan.data.maskings.get(task)
    return trivial_scores(plan.model.head(task), train, dev, reader, masking=masking)
