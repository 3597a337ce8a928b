"""The training loop: steps, evaluations, stages; and the parts and callbacks of a run."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.amp import GradScaler

from multitask.config import Config
from multitask.models.multitask_model import MultiTaskModel
from multitask.store.run_directory import RunDirectory
from multitask.tasks.metrics import mean_of_defined
from multitask.training.callbacks import (
    BitLinearStrength,
    Callback,
    Evaluation,
    GradientConflict,
    MomentumTeacher,
    ProgressBar,
)
from multitask.training.checkpoints import Checkpoints, Stateful
from multitask.training.distillation import Distillation, distilled
from multitask.training.loss import Objective
from multitask.training.metric_log import MetricLog
from multitask.training.next_task import Turns
from multitask.training.setup import Plan
from multitask.training.stages import Progress, Stages
from multitask.training.step import Stepped, train_step
from multitask.training.trackers.base import Tracking, tracker_names
from multitask.training.validation import Monitor
from multitask.training.weight_selection import EarlyStopping, Selection
from multitask.utils import distributed
from multitask.utils.errors import NotFinite, UserError
from multitask.utils.rng import RandomState
from multitask.utils.signals import Interrupted, on_signal
from multitask.utils.terminal import say as say_now
from smart.teacher import teacher_of


class Trainer:
    """Trains the model of a plan, stage by stage, from step 0.

    Attributes:
        plan: the run, with the model to train.
        loader: draws the batches.
        turns: decides which tasks train in each step.
        stages: the stages; the current one has an optimizer and a learning-rate schedule.
        objective: the loss that a step minimises.
        measures: evaluates the tasks.
        selection: remembers the best steps; its early stopping stops tasks.
        distillation: the scores of finished runs that tasks learn; None without.
        progress: counts steps, turns, sentences and seconds.
        log: ``metrics.jsonl``.
        checkpoints: saves and restores all parts.
        callbacks: all callbacks in the order of their calls: the log first, as others write to it;
            the checkpoints last, as they save what the others have done.
        say: prints a line on the terminal.
        interrupted: True after Ctrl-C or SIGTERM; the loop stops at the next safe point.
        finished: True after all stages; False after an error or interruption.
    """

    def __init__(
        self,
        plan: Plan,
        run_dir: Path,
        say: Callable[[str], None] = say_now,
        more: Sequence[Callback] = (),
    ) -> None:
        """Build the parts of a plan; ``more`` are the user's callbacks."""
        config, run, settings = plan.config, RunDirectory(run_dir), plan.config.training
        self.plan, self.say = plan, say
        self.interrupted = self.finished = False
        self.loader = plan.loader
        self.stages = Stages(plan.stages, plan.model)
        self.measures = Monitor(plan)
        self.turns = Turns(self.loader.members, self.measures.train_score)
        self.objective = objective_of(plan)
        self.selection = _selection(config)
        self.progress = Progress(plan.device)
        taught = distilled(config)
        self.distillation = Distillation(plan, taught) if taught else None
        self.log = MetricLog(run.metrics)

        # the parts whose state changes; a resume restores them in this order
        parts: dict[str, Stateful | None] = {
            "log": self.log,
            "progress": self.progress,
            "optimizer": self.stages,  # also the current stage and the learning-rate schedule
            "model": plan.model,
            "streams": self.loader,
            "turns": self.turns,
            "selection": self.selection,
            "rng": RandomState(),
            "teacher": self.objective.teacher,
            "distillation": self.distillation,
            "surgery": plan.surgery,
            "scaler": self.objective.scaler,
        }
        self.checkpoints = Checkpoints(
            run,
            {name: part for name, part in parts.items() if part is not None},
            self.selection,
            keep=settings.keep_checkpoints,
            every=settings.checkpoint_steps,
        )
        callbacks: list[Callback] = [self.log, ProgressBar(say)]
        if (teacher := self.objective.teacher) is not None:
            callbacks.append(MomentumTeacher(teacher))
        if self.distillation is not None:
            callbacks.append(self.distillation)
        if config.encoder.bitlinear is not None:
            models = [each for each in (plan.model, teacher) if each is not None]
            callbacks.append(BitLinearStrength(models, config.encoder.bitlinear.gradual))
        if every := settings.conflict_steps:
            readers = plan.data.readers
            comparable = [task for task in readers if not readers[task].task_type.compares_rows]
            callbacks.append(GradientConflict(self.loader, comparable, config.seed, every))
        if tracker_names(config):
            callbacks.append(Tracking(config, run))
        # to add a callback, add it here
        self.callbacks = [*callbacks, *more, self.checkpoints]

    def run(self) -> None:
        """Train from the current step to the end, or until every task has stopped.

        Raises:
            Interrupted: Ctrl-C or SIGTERM, after the state was saved.
            UserError: a loss or score is not finite; the last checkpoint is intact.
        """

        def interrupt() -> None:
            self.interrupted = True

        self.model.train()
        with on_signal(interrupt):
            try:
                for callback in self.callbacks:
                    callback.on_start(self)
                if self.step == 0:
                    self.measures.at_start(self.log.write)
                self._train()
                self.finished = True
            except NotFinite as problem:
                self.log.write("diverged", step=self.step, reason=str(problem))
                saved = self.checkpoints.run.saved_checkpoints()
                last = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint yet"
                raise UserError(
                    f"step {self.step + 1}, {problem}; the run stops, {last}. Start a new run "
                    "(another output_dir=DIR) with a lower `training.lr` or `training.head_lr`, or "
                    "with `training.precision=fp32`"
                ) from problem
            finally:
                for callback in self.callbacks:
                    callback.on_end(self)

    def _train(self) -> None:
        while True:
            if self._evaluation_due():
                self.evaluate()
            if self.in_stage >= self.stages.now.steps or not self.active_tasks:
                if self.stages.is_last:
                    break
                self._next_stage()
            if self.take_step():
                self._stop_interrupted()

    def take_step(self) -> bool:
        """Take one optimizer step, without tasks that have stopped or that the sampler skips.

        Returns True if a process of this run has had a signal to stop.
        """
        turns = self.turns.next(self.stages.now, self.in_stage, self._write)
        began = time.perf_counter()
        tasks = [task for task, taken in turns.items() if taken and task in self.active_tasks]
        micro_batches = self.loader.next(tasks)
        result = Stepped()
        if micro_batches:
            for callback in self.callbacks:
                callback.before_step(self)
            surgery, frozen = self.plan.surgery, self.stages.now.frozen
            due = surgery and surgery.due(self.in_stage) and not frozen >= set(self.model.shared())
            result = train_step(
                self.model,
                micro_batches,
                self.stages.optimizer,
                self.objective.due(self.progress.trained),
                clip_norm=self.plan.config.training.clip_norm,
                surgery=surgery if due else None,
                watch=self.turns.watch if self.stages.now.sampler.needs_scores else None,
                interrupted=self.interrupted,
            )
        elif distributed.total([float(self.interrupted)], self.plan.device)[0]:
            result.interrupted = True
        self.stages.scheduler.step()  # also in a skipped step: the schedule stays as planned
        self.progress.count(turns, result)
        self.progress.seconds += time.perf_counter() - began
        for callback in self.callbacks:
            callback.on_step(self, list(turns), result)
        # several processes stop together; one may stop at once
        return result.interrupted if distributed.world() > 1 else self.interrupted

    def evaluate(self) -> None:
        """Evaluate every task, record new best steps, stop tasks that are out of patience."""

        def between_batches() -> None:
            if self.interrupted and distributed.world() == 1:  # several ranks stop together, later
                self._stop_interrupted()

        scores = self.measures.evaluate(between_batches, self._write)
        values = {task: scores[task][self.measures.metrics[task]] for task in scores}
        together = {task: values[task] for task in self.measures.joint_tasks}
        stopping = self.selection.early_stopping
        counted = {task: v for task, v in values.items() if task in stopping.patience}
        self.selection.update(self.step, counted, together)
        stopped = stopping.update(self.step, counted, self.stages.now.tasks)
        self.progress.evaluated_at = self.step
        evaluation = Evaluation(scores, values, mean_of_defined(together), stopped)
        for callback in self.callbacks:
            callback.on_evaluation(self, evaluation)

    def _next_stage(self) -> None:
        """Start the next stage; patience, turns and surgery start again."""
        self.stages.next(self.step)
        stage = self.stages.now
        self.selection.early_stopping.begin_stage(stage.tasks)
        self.turns.begin_stage()
        if self.plan.surgery is not None:
            self.plan.surgery.begin_anew()
        self._write("stage", stage=stage.name, tasks=stage.tasks)
        self.say(f"stage {stage.name}: {', '.join(stage.tasks)}")

    @property
    def model(self) -> MultiTaskModel:
        """The model that is trained."""
        return self.plan.model

    @property
    def step(self) -> int:
        """Optimizer steps taken."""
        return self.progress.step

    @property
    def in_stage(self) -> int:
        """Optimizer steps that the current stage has taken."""
        return self.stages.steps_done(self.step)

    @property
    def epoch(self) -> float:
        """Epochs done, including a fraction of the current one."""
        return self.stages.epoch(self.step)

    @property
    def active_tasks(self) -> list[str]:
        """The tasks of the current stage that have not stopped."""
        stopped = self.selection.early_stopping.stopped
        return [task for task in self.stages.now.tasks if task not in stopped]

    @property
    def _write(self) -> Callable[..., None]:
        return partial(self.log.write, step=self.step)

    def _evaluation_due(self) -> bool:
        if self.step == self.progress.evaluated_at:
            return False
        stage, config = self.stages.now, self.plan.config
        every = config.training.eval_steps or stage.sampler.steps_per_epoch
        if config.trial and config.training.eval_steps is None:
            every = math.ceil(stage.steps / 2)
        return self.in_stage % every == 0 or self.in_stage >= stage.steps

    def _stop_interrupted(self) -> None:
        self.checkpoints.save(self.step)
        raise Interrupted


def objective_of(plan: Plan) -> Objective:
    """Build the loss: weights, terms of SMART and R-Drop, a teacher, and a scale in fp16."""
    tasks = plan.config.tasks
    smart = {name: task.smart for name, task in tasks.items() if task.smart is not None}
    r_drop = {name: task.r_drop for name, task in tasks.items() if task.r_drop is not None}
    bregman = any(settings.bregman for settings in smart.values())
    teacher = teacher_of(plan.model) if bregman else None
    scaler = GradScaler(plan.device.type) if plan.model.autocast is torch.float16 else None
    return Objective(plan.loss_weights, smart, teacher, scaler, r_drop)


def _selection(config: Config) -> Selection:
    """Build it for the tasks that train and for the task in ``training.select``."""
    select = config.training.select
    settings = {
        name: task.early_stopping
        for name, task in config.tasks.items()
        if not task.evaluate_only or name == select
    }
    patience = {name: setting.patience for name, setting in settings.items()}
    return Selection(
        EarlyStopping(patience, {name: setting.min_delta for name, setting in settings.items()}),
        select,
    )
