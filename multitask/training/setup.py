"""Set up a run in four calls: check the config, load the data, build the model, plan the steps."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import nn

from multitask.config import Config
from multitask.data.classes import label_readers
from multitask.data.dataloader import MultiTaskLoader, TrainRows, train_loaders
from multitask.data.inputs.base import input_of
from multitask.data.label_shift import label_warnings, padding_warnings
from multitask.data.splits import Data, load_splits, tokenize_splits
from multitask.data.summary import data_warnings, glue_remarks
from multitask.inference.scoring import Scorer, task_maskings
from multitask.models.build import initial_model
from multitask.models.encoders.hf_layout import has_dropout, layout_of
from multitask.models.head_checks import (
    check_evaluate_only,
    check_head,
    check_lengths,
    check_processes,
    check_readers,
)
from multitask.models.init_from import find_start, start_encoder, start_tasks, start_warnings
from multitask.models.mlm_generator import load_generators
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import (
    check_vocabulary,
    load_pretrained,
    pretrained_tokenizer,
    use_kernels,
)
from multitask.reporting.table_formats import duration
from multitask.store.saved import StartedFrom
from multitask.training.distillation import teacher_warnings
from multitask.training.gradient_surgery import Surgery, build_surgery
from multitask.training.loss import loss_weights
from multitask.training.stages import Stage, encoder_parts, plan_stages
from multitask.training.trackers.base import check_installed
from multitask.utils import distributed
from multitask.utils.device import emulates_bf16
from multitask.utils.errors import UserError
from multitask.utils.heartbeat import working
from multitask.utils.names import EMBEDDED

# environment variables of `accelerate launch`, what they ask for, and the flag that sets them
OTHERS = (
    ("ACCELERATE_USE_FSDP", "divides the model among the processes", "--use_fsdp"),
    ("ACCELERATE_USE_DEEPSPEED", "asks for DeepSpeed", "--use_deepspeed"),
    ("ACCELERATE_DYNAMO_BACKEND", "asks for torch.compile", "--dynamo_backend"),
)
NOT_SET = ("", "no", "none", "false", "0")


@dataclass(frozen=True)
class Plan:
    """A run that is ready to train: everything is loaded and checked, nothing is written yet.

    Attributes:
        config: the run's config, with the labels of the data and the kernels of this machine.
        device: the device that the run computes on.
        data: every task's rows.
        model: the model, before the first step.
        loaders: the training rows that batches are drawn from, by training set.
        stages: the stages of the training, in order.
        loss_weights: the factor on each task's loss.
        surgery: the method that combines the tasks' gradients; None: they are summed.
        metrics: the metric that selects each task's weights.
        init_from: the run whose weights the model starts from, as in report.json.
        warnings: lines that the user should read before training.
    """

    config: Config
    device: torch.device
    data: Data
    model: MultiTaskModel
    loaders: dict[str, TrainRows]
    stages: list[Stage]
    loss_weights: dict[str, float]
    surgery: Surgery | None
    metrics: dict[str, str]
    init_from: StartedFrom | None
    warnings: list[str]

    @property
    def total_steps(self) -> int:
        """Planned optimizer steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def loader(self) -> MultiTaskLoader:
        """The training batches of all tasks."""
        return MultiTaskLoader(self.loaders, self.data.tokenizer.pad_token_id, self.device)

    @property
    def scorer(self) -> Scorer:
        """A scorer of the model with its current weights."""
        batch_size = self.config.training.eval_batch_size
        return Scorer(self.model, self.data.tokenizer, batch_size, self.device)

    @property
    def selection_split(self) -> str:
        """The split whose scores select the weights."""
        return "holdout" if self.config.training.holdout else "dev"


def set_up(config: Config, device: torch.device, say: Callable[[str], None] = print) -> Plan:
    """Check, load, build and plan a run on ``device``; ``say`` prints lines for the user.

    Raises UserError if the config does not fit the data, the encoder or the device.
    """
    check(config)
    with working("reading the data"):
        data = distributed.first_alone(partial(load_data, config, say))
    with working(f"loading {config.encoder.name}"):
        model = build_model(config, data, device, say)
    kinds = sorted(set(distributed.gather(model.encoder.kernels)))  # such as on two machines
    if len(kinds) > 1:
        message = f"some processes have {kinds[0]} kernels, others {kinds[1]}: set it to torch"
        raise config.error(("encoder", "kernels"), message)
    with working("planning the run"):
        return plan(config, model, data, device)


def check(config: Config) -> None:
    """Check the config without reading data. Raises UserError for the first mistake."""
    check_installed(config)
    for task in config.tasks:
        check_head(config, task)
    files = [task.data for task in config.tasks.values() if not task.data.texts_of]
    local = any(data.format != "hub" for data in files)
    if local and config.data_dir != EMBEDDED and not Path(config.data_dir).is_dir():
        wanted = "set data_dir=DIR to the directory of the data files"
        raise config.error(("data_dir",), f"no such directory: {config.data_dir}: {wanted}")
    check_processes(config)
    check_launcher(config)


def check_launcher(config: Config) -> None:
    """Raise UserError for a setting of `accelerate launch` that contradicts the config."""
    asked = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if asked not in (*NOT_SET, config.training.precision):
        remedy = f"set `training.precision={asked}` or " if asked in ("bf16", "fp16") else ""
        message = f"accelerate was told {asked}: {remedy}launch with `--mixed_precision no`"
        raise config.error(("training", "precision"), message)
    for variable, what, flag in OTHERS:
        value = os.environ.get(variable, "")
        if value.lower() not in NOT_SET:
            raise UserError(
                f"{variable}={value} {what}, which this program does not do (every process has the "
                f"whole model): launch without `{flag}`"
            )


def load_data(config: Config, say: Callable[[str], None] = print) -> Data:
    """Read and tokenize every task's rows. This loads the encoder's tokenizer, not its weights."""
    say("reading the data")
    readers = label_readers(config)
    check_readers(config, readers)
    tokenizer = cache(partial(pretrained_tokenizer, config))  # not before the data is read
    rows, shared = load_splits(config, readers, tokenizer)
    say(f"tokenizing {sum(len(part) for parts in rows.values() for part in parts.values()):,} rows")
    began = time.perf_counter()
    data = tokenize_splits(config, rows, shared, readers=readers, tokenizer=tokenizer())
    say(f"tokenized in {duration(time.perf_counter() - began)}")
    return data


def build_model(
    config: Config, data: Data, device: torch.device, say: Callable[[str], None] = print
) -> MultiTaskModel:
    """Load the encoder, build the tasks' modules, and load the weights of ``init_from``."""
    say(f"encoder: {config.encoder.name}")
    encoder = load_pretrained(config, say)
    with config.errors_at(("encoder", "name")):
        check_vocabulary(encoder, data.tokenizer, config.encoder.name)
    use_kernels(config, encoder, device, say)
    if config.training.precision == "bf16" and emulates_bf16(device):
        slow = f"{device} computes bf16 in fp32, which is slow: use `fp16`"
        say(f"warning: training.precision: {slow}")
    start = find_start(config)
    if start is not None:
        start_encoder(config, start, encoder, data.tokenizer)
        source = start.described
        say(f"started from: {source.run}, {source.task}, step {source.step} ({source.take})")
    check_lengths(config, encoder)
    model = initial_model(config, encoder, data, device, say=say)
    if start is not None:
        start_tasks(config, start, model, data.readers)
    check_evaluate_only(config, model)
    load_generators(config, model, data.tokenizer, device)
    return model


def plan(config: Config, model: MultiTaskModel, data: Data, device: torch.device) -> Plan:
    """Plan the run: training rows, stages, loss weights, gradient surgery and warnings."""
    tokenizer = data.tokenizer
    data = data.masked(task_maskings(model, tokenizer, config.tasks))
    filled_in = task_maskings(model, tokenizer, config.tasks, filled_in=True)
    loaders = train_loaders(config, data, filled_in)
    stages = plan_stages(config, model, loaders)
    trained = {task for stage in stages for task in stage.tasks}
    start = find_start(config)
    return Plan(
        config=config.with_labels(data.label_values()).with_kernels(model.encoder.kernels),
        device=device,
        data=data,
        model=model,
        loaders=loaders,
        stages=stages,
        loss_weights=loss_weights(config, model, data, device),
        surgery=build_surgery(config),
        metrics={
            name: task.metric or data.readers[name].task_type.selects[0]
            for name, task in config.tasks.items()
        },
        init_from=start.described if start else None,
        warnings=[
            *data_warnings(config, data.summary, trained),
            *label_warnings(config, data.splits, data.readers),
            *padding_warnings(config, data.splits, data.readers),
            *glue_remarks(config, data.splits),
            *dropout_warnings(config, model, data, stages),
            *teacher_warnings(config, data.splits),
            *start_warnings(config, start),
        ],
    )


def dropout_warnings(
    config: Config, model: MultiTaskModel, data: Data, stages: Sequence[Stage]
) -> list[str]:
    """Warn of tasks that compare two passes of a text under dropout, where there is none.

    A frozen encoder is in evaluation mode, so its dropout does nothing.
    """
    architecture, shared = model.encoder.config, encoder_parts(model)
    frozen = {task for stage in stages if shared <= stage.frozen for task in stage.tasks}
    kind, sets = architecture.model_type, layout_of(architecture.model_type).dropout
    warnings = []
    for task, entry in config.tasks.items():
        if has_dropout(architecture) and task not in frozen:
            continue
        views = data.readers[task].task_type.compares_rows and input_of(entry).texts == 1
        parts = nn.ModuleList([model.module(task), model.adapter(task) or nn.Identity()])
        if (views or entry.r_drop) and not any(map(_is_random, parts.modules())):
            why, encoder = "the frozen encoder has no dropout", ""
            if task not in frozen:
                why, encoder = f"{kind} has no dropout", "`encoder.dropout` or " if sets else ""
            what = f"{task}: two views of a text are equal, as {why}"
            warnings.append(f"{what}: set {encoder}`tasks.{task}.dropout`")
    return warnings


def _is_random(module: nn.Module) -> bool:
    """Return True for random slopes and for dropout, which GRUs and attention have as a number."""
    rate = module.p if isinstance(module, nn.Dropout) else getattr(module, "dropout", 0.0)
    return isinstance(module, nn.RReLU) or (isinstance(rate, float) and rate > 0)
