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
from multitask.store.prepare_run import (
    check_directory,
    discard_weights,
    own,
    start_directory,
    train_on,
)
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.training.callbacks import Callback
from multitask.training.describe_plan import describe_data, export_remarks
from multitask.training.distillation import check_teachers
from multitask.training.frozen_probe import run_baselines
from multitask.training.metric_log import divergence_logged
from multitask.training.report_json import save_results
from multitask.training.resume import examine, keep_encoder, started_with
from multitask.training.setup import Plan, set_up
from multitask.training.trainer import Trainer
from multitask.utils import distributed
from multitask.utils.device import pick_device
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
) -> None:
    """Train, evaluate and report one run in its directory, which this process owns meanwhile.

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
        distributed.on_first(lambda: held.enter_context(own(run)))
        if resume and run.holds_run:  # `auto` means the kernels that the run was started with
            config = config.with_kernels(run.load_config().encoder.kernels)
        plan = set_up(config, device, say)

        def start() -> tuple[bool, Path | None]:
            check_directory(run.path, resume=resume, overwrite=overwrite)
            complete, checkpoint = examine(plan, run, say) if resume else (False, None)
            if complete:
                complete_pages(run)
            else:
                if checkpoint is None:  # a resumed run has its teachers' scores
                    check_teachers(plan.config, plan.data.readers)
                options = {"resume": resume, "overwrite": overwrite}
                start_directory(plan.config, started_with(plan), held=held, **options)
            return complete, checkpoint

        complete, checkpoint = distributed.on_first(start)
        if complete:
            say(f"{run.path} is finished: nothing is left to do; {train_on(run, config)}")
        else:
            held.enter_context(on_signal(partial(interrupt, begun=True)))
            distributed.check_seen(run.path)
            warnings = [f"warning: {warning}" for warning in plan.warnings]
            for line in [*describe_data(plan), *warnings, *export_remarks(plan)]:
                say(line)
            if resume and checkpoint is None:
                say(f"{run.path} has no checkpoint yet: starting from the first step")
            say(terminal_table(fit(plan, checkpoint, callbacks=callbacks, say=say, began=began)))
        if discard:
            distributed.on_first(partial(discard_weights, run))
        say(f"for the browser: {run.html_page}")
        say(f"report: {run.markdown_page}")


def fit(
    plan: Plan,
    checkpoint: Path | None,
    *,
    callbacks: Sequence[Callback],
    say: Callable[[str], None],
    began: float,
) -> RunReport:
    """Train from the first step or a checkpoint, save the results and return report.json."""
    run = RunDirectory(Path(plan.config.output_dir))
    distributed.on_first(partial(keep_encoder, plan, run))
    with working("measuring the baselines"):
        baselines = run_baselines(plan, run, say)
    distributed.on_first(partial(run.seal, finished=False))
    trainer = Trainer(plan, run.path, say, callbacks)
    trainer.progress.began = began
    if trainer.distillation is not None and checkpoint is None:
        trainer.distillation.ask(say)
    revision = git_revision()  # now: the working tree may change while the run trains
    with closing(trainer.log), working("training"):
        torch.manual_seed(distributed.own_seed(plan.config.seed))
        if checkpoint is None:
            trainer.log.truncate(0)
        else:
            trainer.checkpoints.restore(checkpoint)
            say(f"resuming {run.path} at step {trainer.step} of {trainer.stages.total_steps}")
        trainer.run()

    # a run that is resumed after its last step may lack the file
    distributed.on_first(lambda: run.write_json(run.best, trainer.selection.best_steps()))
    with working("scoring the selected weights"):
        report = save_results(plan, trainer, baselines, revision)
    distributed.on_first(partial(run.seal, finished=True))
    for callback in trainer.callbacks:
        callback.on_report(trainer, report)
    return report
