"""Distillation: a task also learns the averaged scores of finished runs (Hinton et al. 2015)."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from multitask.config import Config, DistillConfig
from multitask.data.classes import label_readers
from multitask.data.dataloader import Teacher
from multitask.data.overlap import row_key
from multitask.data.splits import Split
from multitask.inference.ensemble import check_same_labels
from multitask.inference.load_run import TrainedRun
from multitask.models.weights import intact_weights
from multitask.reporting.gains import average
from multitask.reporting.read_runs import load_split
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.store.saved import selected_steps
from multitask.tasks.label_reader import LabelReader
from multitask.training.callbacks import Callback
from multitask.training.step import Stepped
from multitask.utils.errors import UserError, suggest
from multitask.utils.heartbeat import working

if TYPE_CHECKING:
    from multitask.training.setup import Plan
    from multitask.training.trainer import Trainer


def distilled(config: Config) -> dict[str, DistillConfig]:
    """Return the settings of each task with teachers."""
    trained = config.trained_tasks()
    return {n: task.distill for n, task in config.tasks.items() if n in trained and task.distill}


def check_teachers(config: Config, readers: Mapping[str, LabelReader]) -> None:
    """Raise UserError for the first teacher that does not fit its student.

    It is not finished, lacks the task or the weights, has other labels, or has a smaller holdout:
    then it has trained on rows that are held out here. (``held_out`` does not depend on the seed,
    and a smaller share is a part of a larger one.)
    """
    for task, settings in distilled(config).items():
        for number, name in enumerate(settings.from_):
            with config.errors_at(("tasks", task, "distill", "from", number)):
                _check_teacher(config, task, Path(name), readers[task])


def teacher_warnings(config: Config, splits: Mapping[str, Mapping[str, Split]]) -> list[str]:
    """Warn of teachers that hold out other rows: they may have trained on rows held out here.

    Equal shares hold out other rows where the training rows differ, such as under another `where`.
    """
    warnings = []
    for task, settings in distilled(config).items():
        if (held := splits[task].get("holdout")) is None:
            continue
        ours = {row_key(texts) for texts in held.rows.texts}
        for number, name in enumerate(settings.from_):
            run = RunDirectory(Path(name))
            if not run.predictions_of(task, "holdout").is_file():
                continue  # a resumed run needs no teacher
            with config.errors_at(("tasks", task, "distill", "from", number)):
                scored = load_split(run.path, task, "holdout", run.load_report().tasks[task])
            theirs = {row_key(texts) for texts in scored.rows.texts}
            if apart := len(ours - theirs):
                what = f"{apart} of {len(ours)} rows that are held out here are not held out there"
                warnings.append(f"{task}: {what}, so {name} may have trained on them")
    return warnings


def _check_teacher(config: Config, task: str, directory: Path, reader: LabelReader) -> None:
    source, run = load_run_config(directory), RunDirectory(directory)
    if not run.finished:
        raise UserError(f"{directory} is not finished: train it to its end with --resume first")
    if task not in source.tasks:
        raise UserError(f"{directory} has no task {task!r}{suggest(task, list(source.tasks))}")
    theirs = label_readers(source)[task]
    check_same_labels(task, [(Path(config.output_dir), reader), (directory, theirs)])
    shares = source.training.holdout, config.training.holdout
    if shares[0] < shares[1]:
        raise UserError(
            f"{directory} has trained on rows that are held out here: its training.holdout is "
            f"{shares[0]:g}, here it is {shares[1]:g}"
        )
    steps = selected_steps(run.best_steps(), source.selecting_tasks(), source.training.select)
    intact_weights(run, steps[task])


@dataclass
class Distillation(Callback):
    """The teachers' scores on the training rows, and their weight in each step.

    The scores are a part of each checkpoint, so a resumed run needs no teacher.

    Attributes:
        plan: the run.
        settings: the settings of each task with teachers.
        scores: by task, float32 [N, K] over its training rows; 0 for rows without a label.
    """

    plan: "Plan"
    settings: Mapping[str, DistillConfig]
    scores: dict[str, Tensor] = field(default_factory=dict)

    def ask(self, say: Callable[[str], None]) -> None:
        """Let the teachers score the training rows, and average their scores."""
        for task, settings in self.settings.items():
            with working(f"scoring {task} with {len(settings.from_)} teachers"):
                self.scores[task] = self._averaged(task, settings)
            say(f"{task}: learns the scores of {', '.join(settings.from_)}")
        self._give()

    def _averaged(self, task: str, settings: DistillConfig) -> Tensor:
        config, data = self.plan.config, self.plan.data
        rows, kind = data.splits[task]["train"].rows, data.readers[task].task_type
        members = []
        for name in settings.from_:
            overrides = [f"device={config.device}", "encoder.kernels=auto"]
            source = load_run_config(Path(name), overrides)
            trained: Any = TrainedRun(Path(name), source, every_process=True)
            members.append(trained.score(task, rows).scores)
            del trained
            gc.collect()  # one teacher in memory at a time
        _, scores = average(kind, members)
        host = next(host for host, loader in self.plan.loaders.items() if task in loader.labels)
        loader = self.plan.loaders[host]
        labelled = ~loader.missing(task, np.arange(len(loader.tokens)))
        every = np.zeros((len(labelled), scores.shape[1]), np.float32)
        every[labelled] = scores
        return torch.from_numpy(every)

    def _give(self) -> None:
        """Put the scores next to the labels of the training rows."""
        for task, settings in self.settings.items():
            for loader in self.plan.loaders.values():
                if task in loader.labels:
                    scores = self.scores[task].cpu().numpy()
                    loader.teachers[task] = Teacher(scores, settings.temperature)

    def on_start(self, trainer: "Trainer") -> None:
        """Set the teachers' weights for the next step."""
        done = trainer.step / trainer.stages.total_steps
        for loader in self.plan.loaders.values():
            for task, teacher in loader.teachers.items():
                weight = self.settings[task].weight
                teacher.weight = 1 - done if weight == "anneal" else float(weight)

    def on_step(self, trainer: "Trainer", tasks: object, result: Stepped) -> None:
        self.on_start(trainer)

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.scores)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.scores = dict(state)
        self._give()
