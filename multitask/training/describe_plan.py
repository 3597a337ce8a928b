"""Describe a planned run as text: its data, parameters, stages, first model inputs and losses."""

import math
from collections import Counter
from collections.abc import Iterator

import torch

from multitask.config.describe_config import ABOVE_HEADER, above_the_encoder, schedule_in_words
from multitask.data.collate import separate
from multitask.data.inputs.base import input_of
from multitask.inference.export.export_parts import Parts
from multitask.inference.export.hugging_face import missing_values
from multitask.inference.export.write_export import export_formats
from multitask.models.encoders.hf_layout import has_token_types
from multitask.models.multitask_model import adapter_part, parameter_counts
from multitask.reporting.table_formats import Table
from multitask.training.setup import Plan
from multitask.training.stages import Stage
from multitask.training.trainer import objective_of
from multitask.utils.device import precision_name
from multitask.utils.errors import UserError, is_out_of_memory, reason_of

DATA_HEADER = "task|split|rows|unlabelled|empty|duplicates|in train|truncated|tokens".split("|")


def describe_data(plan: Plan) -> list[str]:
    """Describe the data as lines: counts per split, and label counts of the training rows."""
    parts = [(task, *part) for task, parts in plan.data.summary.items() for part in parts.items()]
    others = any(part.in_other_train is not None for _, _, part in parts)
    rows = []
    for task, split, part in parts:
        of_rows = [part.rows, part.unlabelled_dropped, part.empty_texts, part.duplicates]
        seen = [part.in_train, part.in_other_train] if others else [part.in_train]
        shown = ["" if count is None else count for count in (*of_rows, *seen)]
        tokens = (f"{part.truncated_share:.1%}", f"{part.mean_tokens:.1f}")
        rows.append([task, split, *shown, *tokens])
    header = [*DATA_HEADER[:7], *(["other train"] if others else []), *DATA_HEADER[7:]]
    lines = [*Table(header, rows).text().split("\n"), "", "labels in train"]
    for task in plan.config.selecting_tasks():
        if plan.config.tasks[task].only_scored:
            lines.append(f"  {task}: only scored")
            continue
        labels = plan.data.summary[task]["train"].label_counts
        reader, views = plan.data.readers[task], input_of(plan.config.tasks[task]).views
        lines.append(f"  {task}: {reader.task_type.labels_in_words(labels, reader, views)}")
    return lines


def describe_plan(plan: Plan) -> list[str]:
    """Describe the plan as lines: data, parameters, stages and the first model inputs."""
    config = plan.config
    precision = precision_name(plan.model.autocast)
    precision += "" if plan.model.autocast is None else " autocast"
    if plan.model.encoder.kernels != "torch":
        precision += f", {plan.model.encoder.kernels} kernels"
    lines = [f"device {plan.device}, {precision}, run directory {config.output_dir}", ""]
    lines += describe_data(plan)
    above = Table(ABOVE_HEADER, above_the_encoder(config)).text().split("\n")
    lines += ["", *above, "", "parameters"]
    lines += [f"  {part}: {count:,}" for part, count in parameter_counts(plan.model).items()]
    for stage in plan.stages:
        lines += ["", *_stage(plan, stage)]
    lines += ["", "model inputs"]
    for task, entry in config.tasks.items():
        lines += [] if entry.only_scored else _inputs(plan, task)
    pairs = any(input_of(config.tasks[task]).joins for task in config.selecting_tasks())
    architecture = plan.model.encoder.config
    if pairs and not has_token_types(architecture):
        kind = architecture.model_type
        lines.append(f"  only separators part the texts of a sequence: {kind} has no token types")
    lines += ["", "exports"]
    for task, exported, needs in _exports(plan):
        hint = f" (transformers: train with {needs})" if needs else ""
        lines.append(f"  {task}: {', '.join(export_formats(exported)) or 'none'}{hint}")
    lines += [f"warning: {warning}" for warning in plan.warnings]
    return lines


def export_remarks(plan: Plan) -> list[str]:
    """Return a line for each task that other values of its keys make a model of `transformers`."""
    return [
        f"{task}: `export --format transformers` will need another training, with {needs}"
        for task, _, needs in _exports(plan)
        if needs
    ]


def _exports(plan: Plan) -> Iterator[tuple[str, Parts, str]]:
    """Yield each task, its parts, and the values that make a model of `transformers` of them."""
    for task, reader in plan.data.readers.items():
        parts = Parts(plan.config, task, plan.model, plan.data.tokenizer, reader)
        yield task, parts, " and ".join(f"`{value}`" for value in missing_values(parts))


def _stage(plan: Plan, stage: Stage) -> list[str]:
    """Describe a stage: steps, learning rates, and each task's share of the first epoch."""
    settings, tasks = stage.settings, plan.config.tasks
    most = settings.max_steps or plan.config.training.max_steps
    epochs = "1 epoch" if settings.epochs == 1 else f"{settings.epochs} epochs"
    title = f"stage {stage.name}, " if plan.config.stages else ""
    lines = [
        f"{title}steps: {stage.steps} planned ({epochs} of "
        f"{stage.sampler.steps_per_epoch}"
        + (f", at most {most}" if most else "")
        + f"), {schedule_in_words(settings)}, {round(settings.warmup * stage.steps)} of them "
        f"warm-up; {settings.sampler.name}, {settings.combine}",
        f"learning rates: encoder {settings.lr:g}"
        + "".join(f", {name} {rate:g}" for name, rate in stage.head_lrs.items())
        + "".join(f", {adapter_part(n)} {rate:g}" for n, rate in stage.adapter_lrs.items()),
    ]
    if stage.frozen:
        lines.append(f"frozen: {', '.join(sorted(stage.frozen))}")
    steps = stage.sampler.turns(0)
    turns = Counter(turn.task for step in steps for turn in step if turn.taken)
    rows = []
    for name, loader in plan.loaders.items():
        members = [task for task in loader.labels if task in stage.tasks]
        for task in members:
            share = (
                f"{turns[name] / len(steps):.1%}" if task == members[0] else f"with {members[0]}"
            )
            weight, passes = plan.loss_weights[task], turns[name] / loader.stream.steps_per_pass
            batch = tasks[name].batch_size * tasks[name].accumulation
            rows.append([task, share, f"{weight:.4g}", batch, f"{passes:.2f}"])
    header = ["task", "sampling share", "loss weight", "rows a step", "passes an epoch"]
    return [*lines, "", *Table(header, rows).text().split("\n")]


def _inputs(plan: Plan, task: str, count: int = 2) -> list[str]:
    """Show a task's first ``count`` rows as the encoder sees them: of train, else of dev."""
    parts, reader = plan.data.splits[task], plan.data.readers[task]
    form = input_of(plan.config.tasks[task])
    split = parts["train"] if "train" in parts else parts["dev"]
    masked = task in plan.data.maskings
    tokens, lines = plan.loaders[task].in_this_pass() if masked else split.tokens, []
    for row in range(min(count, len(tokens))):
        owner = tokens.row_of[row]
        shown = f"{tokens.masked[row]} tokens to predict" if masked else ""
        shown = shown or reader.task_type.label_in_words(split.rows, owner, reader)
        lines.append(f"  {task} ({shown})")
        for side in range(tokens.sides):
            number = side * len(tokens) + row
            ids, types = tokens.sequence(number)
            text = plan.data.tokenizer.decode(ids)
            segments = [f"{(types == kind).sum()} tokens" for kind in sorted(set(types.tolist()))]
            end = ", truncated" if tokens.truncated[number] else ""
            name = form.side_name(side) if tokens.sides > 1 else " "
            lines.append(f"    {name} {text}")
            lines.append(f"      {' + '.join(segments)} (segments: {len(segments)}){end}")
    return lines


def dry_run(plan: Plan) -> list[str]:
    """Take one batch of each task forward and backward, to find what training would stumble over.

    Return a line per trained task: its rows and loss. The weights stay as they are. Raises
    UserError if a task's modules fail on the batch, or its loss is not finite.
    """
    torch.manual_seed(plan.config.seed)  # the dropout masks
    plan.model.train()
    lines: dict[str, str] = {}
    for stage in plan.stages:
        plan.model.freeze(stage.frozen)
        lines |= {task: _one_batch(plan, task) for task in stage.tasks if task not in lines}
    return list(lines.values())


def _one_batch(plan: Plan, task: str) -> str:
    batches = plan.loader.sample([task], seed=(plan.config.seed,))
    objective = objective_of(plan)
    try:
        outcome = objective.losses(plan.model, separate(batches))[task]
        loss = outcome.loss if outcome.penalty is None else outcome.loss + outcome.penalty
        if loss.requires_grad:  # there are parameters to train
            objective.scaled(loss).backward()
    except (RuntimeError, ValueError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        message = "one batch forward and backward fails"
        reason = f"{type(error).__name__}: {reason_of(error)}"
        raise UserError(f"task {task}: {message}: {reason}") from error
    finally:
        plan.model.zero_grad(set_to_none=True)
    if not math.isfinite(value := loss.item()):
        raise UserError(f"task {task}: the loss of one batch is {value}: look at its head and data")
    return f"{task}: {batches[task].rows} rows, loss {value:.3f}"
