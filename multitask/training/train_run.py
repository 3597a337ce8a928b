# Tested by tests/commands/test_train.py
"""One run from start to end: config, data, model, sampler, trainer, evaluation, report."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from multitask.config import Config
from multitask.config.run_directory import RunDirectory
from multitask.config.run_start import check_directory, locked, save_config, start_directory
from multitask.reporting.run_report import terminal_table
from multitask.training.build_trainer import build_trainer
from multitask.training.describe_plan import describe_data
from multitask.training.frozen_baselines import run_baselines
from multitask.training.report_json import save_results
from multitask.training.setup import Plan, set_up
from multitask.utils import distributed
from multitask.utils.device import pick_device
from multitask.utils.files import replacing, write_checksums
from multitask.utils.versions import git_revision


def train(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = tqdm.write,
) -> Path:
    """Train, evaluate and report one run; return its directory.

    Raises:
        UserError: bad input, or a loss that is not finite.
        Interrupted: a signal stopped the run; it can be resumed.
    """
    with config.errors_at(("device",)):
        device = pick_device(config.device)
    with distributed.processes(device), ExitStack() as held:
        if distributed.rank() > 0:
            say = _silent
        run_dir = Path(config.output_dir)
        run = RunDirectory(run_dir)
        check = partial(check_directory, run_dir, resume=resume, overwrite=overwrite)
        distributed.on_first(check)
        plan = set_up(config, device, say)
        resolved = config.with_labels(plan.data.label_values())

        def start() -> None:
            held.enter_context(locked(run_dir))
            start_directory(resolved, resume=resume, overwrite=overwrite)
            if overwrite:  # the directory is a new one: lock that too
                held.enter_context(locked(run_dir))

        distributed.on_first(start)
        for line in describe_data(plan):
            say(line)
        for warning in plan.warnings:
            say(f"warning: {warning}")
        distributed.on_first(lambda: save_encoder(plan, run))
        baselines = run_baselines(plan, run, resume, say)
        distributed.on_first(run.unseal_log)
        trainer = build_trainer(plan, run_dir, say)
        revision = git_revision()  # now: the working tree may change while the run trains
        with closing(trainer.log):
            torch.manual_seed(config.seed + distributed.rank())  # each rank: other dropout masks
            if resume and trainer.checkpoints.restore():
                say(f"resuming {run_dir} at step {trainer.step} of {trainer.stages.total_steps}")
            else:
                trainer.log.truncate(0)
                if resume:
                    say(f"{run_dir} has no checkpoint yet: starting from the first step")
            distributed.on_first(lambda: save_config(resolved, run))  # data_dir may have moved
            trainer.run()
        report = save_results(plan, trainer, baselines, revision)
        say(terminal_table(report))
        say(f"for the browser: {run.html_page}")
        say(f"report: {run.markdown_page}")
    return run_dir


def _silent(line: str) -> None:
    """Drop a line: only the first rank prints."""


def save_encoder(plan: Plan, run: RunDirectory) -> None:
    """Save the encoder's architecture and tokenizer, so that the run loads without the original."""
    tokenizer = plan.data.tokenizer
    # tokenizer.json includes the last padding and truncation, which depend on the token cache:
    # reset them, so that a resumed run saves the same file
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    run.make(run.encoder)
    try:
        with replacing(run.encoder) as made:
            plan.model.encoder.config.save_pretrained(made)
            tokenizer.save_pretrained(made)
            write_checksums(made)
    except Exception as error:  # the Rust tokenizer raises a bare Exception on a full disk
        raise OSError(f"{run.encoder}: {error}") from error
