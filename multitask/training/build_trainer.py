# Tested by tests/training/test_callbacks.py
"""Build the trainer of a run: the parts whose state is saved, and the callbacks."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.amp import GradScaler

from multitask.config import Config
from multitask.data.dataloader import MultiTaskLoader
from multitask.data.splits import fingerprint
from multitask.models.multitask_model import MultiTaskModel
from multitask.store.run_directory import RunDirectory
from multitask.training.callbacks import (
    BitLinearStrength,
    Callback,
    GradientConflict,
    MomentumTeacher,
    ProgressBar,
    ProgressLines,
)
from multitask.training.checkpoint_save_restore import Checkpoints, Stateful
from multitask.training.early_stopping import EarlyStopping
from multitask.training.loss import Objective
from multitask.training.metric_log import MetricLog
from multitask.training.progress import Progress, Stages
from multitask.training.resuming import SameData
from multitask.training.setup import Plan
from multitask.training.trackers.base import Tracking, tracker_names
from multitask.training.trainer import Trainer
from multitask.training.turns import Turns
from multitask.training.validation import Monitor
from multitask.training.weight_selection import Selection
from multitask.utils.rng import RandomState
from multitask.utils.terminal import say as say_now
from smart.teacher import teacher_of


def build_trainer(
    plan: Plan,
    run_dir: Path,
    say: Callable[[str], None] = say_now,
    more: Sequence[Callback] = (),
) -> Trainer:
    """Build the trainer of a plan, at step 0; ``more`` are the user's callbacks."""
    config, model, device, run = plan.config, plan.model, plan.device, RunDirectory(run_dir)
    loader = plan.loader
    stages, measures = Stages(plan.stages, model), Monitor(plan)
    turns = Turns(loader.members, measures.train_score)
    objective, selection = objective_of(plan), _selection(config)
    progress, log = Progress(device), MetricLog(run.metrics)

    # the parts whose state changes; a resume restores them in this order, so the checks come first
    parts: dict[str, Stateful] = {
        "data": SameData(fingerprint(config, plan.data.splits)),
        "log": log,
        "progress": progress,
        "optimizer": stages,  # also the current stage and the learning-rate schedule
        "model": model,
        "streams": loader,
        "turns": turns,
        "selection": selection,
        "rng": RandomState(),
    }
    if objective.teacher is not None:
        parts["teacher"] = objective.teacher
    if plan.surgery is not None:
        parts["surgery"] = plan.surgery

    if objective.scaler is not None:
        parts["scaler"] = objective.scaler

    settings = config.training
    keep, every = settings.keep_checkpoints, settings.checkpoint_steps
    checkpoints = Checkpoints(run, parts, selection, keep, every, say)
    callbacks = [ProgressBar(say), ProgressLines(say), *_callbacks(plan, loader, objective.teacher)]
    if tracker_names(config):
        callbacks.append(Tracking(config, run))
    # to add a callback, add it here

    return Trainer(
        plan=plan,
        loader=loader,
        turns=turns,
        stages=stages,
        objective=objective,
        measures=measures,
        selection=selection,
        progress=progress,
        log=log,
        checkpoints=checkpoints,
        others=[*callbacks, *more],
        say=say,
    )


def _callbacks(
    plan: Plan, loader: MultiTaskLoader, teacher: MultiTaskModel | None
) -> list[Callback]:
    """Build the callbacks that the config asks for: teacher, BitLinear, gradient conflict."""
    config = plan.config
    callbacks: list[Callback] = [] if teacher is None else [MomentumTeacher(teacher)]
    if config.encoder.bitlinear is not None:
        encoders = [model.encoder for model in (plan.model, teacher) if model is not None]
        callbacks.append(BitLinearStrength(encoders, config.encoder.bitlinear.gradual))
    if config.training.conflict_steps:
        readers = plan.data.readers
        comparable = [task for task in readers if not readers[task].task_type.compares_rows]
        every, seed = config.training.conflict_steps, config.seed
        callbacks.append(GradientConflict(loader, comparable, seed=seed, every=every))
    return callbacks


def objective_of(plan: Plan) -> Objective:
    """Build the loss: weights, SMART terms, a teacher for Bregman terms, and a scale in fp16."""
    tasks = plan.config.tasks
    smart = {name: task.smart for name, task in tasks.items() if task.smart is not None}
    bregman = any(settings.bregman for settings in smart.values())
    teacher = teacher_of(plan.model) if bregman else None
    fp16 = plan.model.autocast is torch.float16
    scaler = GradScaler(plan.device.type) if fp16 else None
    return Objective(plan.loss_weights, smart, teacher, scaler)


def _selection(config: Config) -> Selection:
    """Build it for the tasks that train and for the task in ``training.select``."""
    select = config.training.select
    selecting = {n: t for n, t in config.tasks.items() if not t.evaluate_only or n == select}
    settings = {name: task.early_stopping for name, task in selecting.items()}
    patience = {name: setting.patience for name, setting in settings.items()}
    min_delta = {name: setting.min_delta for name, setting in settings.items()}
    return Selection(EarlyStopping(patience, min_delta))
