# Tested by tests/commands/test_train.py
"""One run from start to end: config, data, model, sampler, trainer, evaluation, report."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import torch

from multitask.config import Config
from multitask.reporting.model_card import complete_pages
from multitask.reporting.run_report import terminal_table
from multitask.store.files import replacing
from multitask.store.prepare_run import (
    as_started,
    check_directory,
    discard_weights,
    own,
    save_config,
    start_directory,
    train_on,
)
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.training.build_trainer import build_trainer
from multitask.training.callbacks import Callback
from multitask.training.checkpoint_repair import mend
from multitask.training.describe_plan import describe_data, export_remarks
from multitask.training.frozen_baselines import run_baselines
from multitask.training.metric_log import divergence_logged
from multitask.training.report_json import save_results
from multitask.training.resuming import Left, checksums, examine, is_intact, write_encoder
from multitask.training.setup import Plan, set_up
from multitask.training.trainer import Trainer
from multitask.utils import distributed
from multitask.utils.device import pick_device
from multitask.utils.errors import warn
from multitask.utils.heartbeat import talking, working
from multitask.utils.signals import interrupt, on_signal
from multitask.utils.terminal import say as say_now
from multitask.utils.terminal import silent
from multitask.utils.versions import git_revision


def train(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    discard: bool = False,
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] = say_now,
    began: float | None = None,
) -> Path:
    """Train, evaluate and report one run; return its directory, which this process owns meanwhile.

    ``discard`` removes the weights at the end. ``callbacks`` are called before checkpoints are
    saved. ``wall_time_s`` counts from ``began`` on the clock `time.perf_counter`; None: now.

    Raises:
        Busy: another process trains in the directory.
        UserError: bad input, or a loss that is not finite.
        Interrupted: a signal stopped the run; it can be resumed.
    """
    began = time.perf_counter() if began is None else began
    with config.errors_at(("device",)):
        device = pick_device(config.device)
    run = RunDirectory(Path(config.output_dir))
    with (
        distributed.processes(device),
        talking(say),
        ExitStack() as held,
        divergence_logged(run.metrics),
    ):
        say = say if distributed.rank() == 0 else silent  # only the first rank prints
        check = partial(check_directory, run.path, resume=resume, overwrite=overwrite)
        distributed.on_first(check)
        distributed.on_first(lambda: held.enter_context(own(run)))
        plan = set_up(as_started(config, run) if resume else config, device, say)
        check_kernels(plan)
        resolved = plan.config.with_labels(plan.data.label_values())
        resolved = resolved.with_kernels(plan.model.encoder.kernels)

        def start() -> Left:
            check()  # again: loading takes a while
            left = examine(resolved, plan, run, say) if resume else Left()
            if left.finished:
                complete_pages(run)
                return left
            start_directory(
                resolved, resume=resume, overwrite=overwrite, held=held, started=checksums(plan)
            )
            mend(run, left.checkpoint)
            return left

        left = distributed.on_first(start)
        if left.finished:
            say(f"{run.path} is finished: nothing is left to do; {train_on(run, config)}")
        else:
            held.enter_context(on_signal(partial(interrupt, begun=True)))
            report = _train(
                plan, resolved, left, resume=resume, callbacks=callbacks, say=say, began=began
            )
            say(terminal_table(report))
        if discard:
            distributed.on_first(partial(discard_weights, run))
        say(f"for the browser: {run.html_page}")
        say(f"report: {run.markdown_page}")
    return run.path


def _train(
    plan: Plan,
    config: Config,
    left: Left,
    *,
    resume: bool,
    callbacks: Sequence[Callback],
    say: Callable[[str], None],
    began: float,
) -> RunReport:
    """Train from the first step or a checkpoint, save the results and return report.json.

    ``config`` is the plan's config with the labels of the data.
    """
    run, checkpoint = RunDirectory(Path(config.output_dir)), left.checkpoint.path
    distributed.check_seen(run.path)
    for line in describe_data(plan):
        say(line)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    for remark in export_remarks(plan):
        say(remark)
    if not left.encoder:
        distributed.on_first(lambda: save_encoder(plan, run))
    with working("measuring the baselines"):
        baselines = run_baselines(plan, run, resume, say)
    distributed.on_first(run.unseal_log)
    trainer = build_trainer(plan, run.path, say, callbacks)
    trainer.progress.began = began
    revision = git_revision()  # now: the working tree may change while the run trains
    with closing(trainer.log):
        torch.manual_seed(config.seed + distributed.rank())  # each rank: other dropout masks
        if checkpoint is not None:
            trainer.checkpoints.restore(checkpoint)
            say(f"resuming {run.path} at step {trainer.step} of {trainer.stages.total_steps}")
        else:
            trainer.log.truncate(0)
            if resume:
                say(f"{run.path} has no checkpoint yet: starting from the first step")
        distributed.on_first(lambda: save_config(config, run))  # data_dir may have moved
        with working("training"):
            trainer.run()
    keep = partial(keep_loadable, plan, config, trainer)
    distributed.on_first(keep)
    with working("scoring the selected weights"):
        report = save_results(plan, trainer, baselines, revision)
    distributed.on_first(keep)  # again: scoring takes a while
    for callback in trainer.callbacks:
        callback.on_report(trainer, report)
    return report


def check_kernels(plan: Plan) -> None:
    """Raise UserError if the processes of a run have different kernels, such as on two machines."""
    kinds = sorted(set(distributed.gather(plan.model.encoder.kernels)))
    if len(kinds) > 1:
        message = f"some processes have {kinds[0]} kernels, others {kinds[1]}: set it to torch"
        raise plan.config.error(("encoder", "kernels"), message)


def keep_loadable(plan: Plan, config: Config, trainer: Trainer) -> None:
    """Write what loading a run needs again, if it was deleted or damaged while the run trained."""
    run = trainer.checkpoints.run
    trainer.checkpoints.keep_marker()
    if not run.config.is_file():
        save_config(config, run)
    if not run.best.is_file():
        run.write_json(run.best, trainer.selection.best_steps())
    if not is_intact(run.encoder):
        warn(f"{run.encoder} was changed while the run trained: it is written again")
        save_encoder(plan, run)


def save_encoder(plan: Plan, run: RunDirectory) -> None:
    """Save the encoder's architecture and tokenizer, so that the run loads without the original."""
    run.check_folder(run.encoder)
    try:
        with replacing(run.encoder) as made:
            write_encoder(plan, made)
    except Exception as error:  # the Rust tokenizer raises a bare Exception on a full disk
        raise OSError(f"{run.encoder}: {error}") from error
