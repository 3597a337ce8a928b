"""Wire one run: config -> data -> model -> sampler -> trainer -> evaluation -> report."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from multitask.config import Config
from multitask.config.run_directory import (
    check_directory,
    load_lines,
    locked,
    save_config,
    selected_steps,
    start_directory,
    weights_file,
)
from multitask.inference.predictions import write_predictions
from multitask.models.weights import read_tensors
from multitask.reporting.model_card import write_card
from multitask.reporting.run_report import terminal_table, write_reports
from multitask.training.build_trainer import build_trainer
from multitask.training.describe_plan import describe_data
from multitask.training.frozen_baselines import run_baselines
from multitask.training.gradient_conflict import conflict_summary
from multitask.training.save_results import run_result, task_result
from multitask.training.setup import Plan, set_up
from multitask.training.stages import trained_parameters
from multitask.training.trainer import Trainer
from multitask.utils import distributed
from multitask.utils.device import pick_device
from multitask.utils.files import write_text
from multitask.utils.versions import git_revision


def train(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = tqdm.write,
) -> Path:
    """Train, evaluate and report one run; returns the run directory.

    Raises:
        UserError: bad input, or a loss that is not finite.
        Interrupted: stopped by a signal, resumable.
    """
    with config.errors_at(("device",)):
        device = pick_device(config.device)
    with distributed.processes(device), ExitStack() as held:
        if distributed.rank() > 0:
            say = _silent
        run_dir = Path(config.output_dir)
        check = partial(check_directory, run_dir, resume=resume, overwrite=overwrite)
        distributed.on_first(check)
        plan = set_up(config, device, say)
        resolved = config.with_labels(plan.data.label_values())

        def start() -> None:
            held.enter_context(locked(run_dir))
            start_directory(resolved, resume=resume, overwrite=overwrite)
            if overwrite:  # a new directory
                held.enter_context(locked(run_dir))

        distributed.on_first(start)
        for line in describe_data(plan):
            say(line)
        for warning in plan.warnings:
            say(f"warning: {warning}")
        distributed.on_first(lambda: save_encoder(plan, run_dir / "encoder"))
        baselines = run_baselines(plan, run_dir, resume, say)
        trainer = build_trainer(plan, run_dir, say)
        revision = git_revision()  # now: the tree may change while the run goes on
        with closing(trainer.log):
            torch.manual_seed(config.seed + distributed.rank())  # each rank has its own dropout
            if resume and trainer.checkpoints.restore():
                say(f"resuming {run_dir} at step {trainer.step} of {trainer.stages.total_steps}")
            else:
                trainer.log.truncate(0)
                if resume:
                    say(f"{run_dir} has no checkpoint yet: starting from the first step")
            distributed.on_first(lambda: save_config(resolved))  # data_dir may have moved
            trainer.run()
        report = finish(plan, trainer, baselines, revision)
        say(terminal_table(report))
        say(f"for the browser: {run_dir / 'report.html'}")
        say(f"report: {run_dir / 'report.md'}")
    return run_dir


def _silent(line: str) -> None:
    """What other ranks than the first say."""


def save_encoder(plan: Plan, directory: Path) -> None:
    """The architecture and the tokenizer, so that the run loads without its source."""
    try:
        plan.model.encoder.config.save_pretrained(directory)
        plan.data.tokenizer.save_pretrained(directory)
    except Exception as error:  # the Rust tokenizer raises a bare Exception on a full disk
        raise OSError(f"{directory}: {error}") from error


def finish(
    plan: Plan,
    trainer: Trainer,
    baselines: Mapping[str, Mapping[str, Any]],
    revision: str | None,
) -> dict[str, Any]:
    """Score every split with the selected weights; write predictions, report.json, report.md."""
    config, run_dir, progress = plan.config, Path(plan.config.output_dir), trainer.progress
    owners = config.selecting_tasks()
    steps = selected_steps(trainer.selection.best_steps(), owners, config.training.select)
    tasks: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    loaded = None
    distributed.on_first(lambda: None)  # the first rank has written the weights
    for name in owners:
        if steps[name] != loaded:
            loaded = steps[name]
            plan.model.load_state_dict(read_tensors(weights_file(run_dir, loaded)))
        task, reader = config.tasks[name], plan.data.readers[name]
        scored = {}
        for split in plan.data.splits[name]:
            if split != "train":
                began = time.perf_counter()
                scored[split] = plan.scorer.score(name, plan.data.splits[name][split])
                seconds |= {name: time.perf_counter() - began} if split == "dev" else {}
        for split, scores in scored.items() if distributed.rank() == 0 else ():
            rows = plan.data.splits[name][split].rows
            files = (task.course_file, task.glue_file)
            write_predictions(run_dir, name, split, rows, scores, reader, *files)
        if "dev" not in scored:
            continue
        tasks[name] = {
            **task_result(plan, config, name, scored["dev"], baselines[name]),
            "selected_step": steps[name],
            "turns": {"trained": progress.trained[name], "skipped": progress.skipped[name]},
            "stopped_at_step": trainer.selection.last_stops.get(name),
        }
        if name in config.trained_tasks() and not progress.trained[name]:
            tasks[name]["flags"].append("no step trained it")
    report = run_result(
        plan,
        config,
        tasks,
        {
            "git_revision": revision,
            "wall_time_s": progress.wall_seconds(),
            "train_sentences_per_s": progress.all_sentences() / max(progress.seconds, 1e-9),
            "epoch_seconds": progress.seconds / max(trainer.epoch, 1e-9),
            "dev_seconds": seconds,
            "steps": {"planned": trainer.stages.total_steps, "done": trainer.step},
            "trained_parameters": trained_parameters(plan.model, plan.stages),
            "select": config.training.select,
            "conflict": conflict_summary(load_lines(run_dir / "metrics.jsonl")),
        },
    )
    if distributed.rank() == 0:
        write_text(run_dir / "report.json", json.dumps(report, indent=1))
        write_reports(run_dir)
        write_card(run_dir)
    return report
