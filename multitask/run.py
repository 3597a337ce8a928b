"""Wire one run: config -> data -> model -> sampler -> trainer -> evaluation -> report."""

import json
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from multitask import metrics
from multitask.baselines import frozen_head_scores, trivial_scores
from multitask.checkpoint import read_tensors, write_text
from multitask.config import EMBEDDED, Config
from multitask.data.checks import count_overlap, describe, split_holdout, subset
from multitask.data.collate import Batch, collate
from multitask.data.load import LabelReader, Rows, label_reader, load_rows
from multitask.data.tokenize import default_cache, tokenize
from multitask.device import pick_device, use_autocast
from multitask.early_stopping import JOINT, Selection
from multitask.errors import UserError
from multitask.evaluate import Scores, Split, measure, score_split
from multitask.model import MultiTaskModel, build_model, head_class, parameter_counts
from multitask.optimizer import build_optimizer, build_scheduler
from multitask.predictions import write_predictions
from multitask.pretrained import load_pretrained, seen_corpora
from multitask.registry import build
from multitask.report import terminal_table, write_markdown
from multitask.sampler import RoundRobin, TaskStream
from multitask.trainer import Trainer, without_nan


@dataclass
class Prepared:
    """A validated run: everything is loaded, nothing is trained or written yet."""

    config: Config
    device: torch.device
    model: MultiTaskModel
    tokenizer: Any
    readers: dict[str, LabelReader]
    splits: dict[str, dict[str, Split]]
    data: dict[str, dict[str, dict[str, Any]]]
    metrics: dict[str, str]
    streams: dict[str, TaskStream]
    sampler: RoundRobin
    total_steps: int
    warnings: list[str] = field(default_factory=list)

    @property
    def selection_split(self) -> str:
        return "holdout" if self.config.training.holdout else "dev"

    def score(
        self, task: str, split: str, between_batches: Callable[[], None] = lambda: None
    ) -> Scores:
        """The model's scores on a split, with the weights it has now."""
        return score_split(
            self.model,
            task,
            self.splits[task][split],
            batch_size=self.config.training.eval_batch_size,
            pad_id=self.tokenizer.pad_token_id,
            device=self.device,
            between_batches=between_batches,
        )


def prepare(config: Config, say: Callable[[str], None] = print) -> Prepared:
    """Load and check everything that a run needs.

    Raises UserError for whatever does not fit: device, head, data, encoder, lengths.
    """
    device = pick_device(config)
    heads = {task: head_class(config, task) for task in config.tasks}
    if config.data_dir != EMBEDDED and not Path(config.data_dir).is_dir():
        raise config.error(("data_dir",), f"no such directory: {config.data_dir}")
    readers = {task: label_reader(config, task, head.label_type) for task, head in heads.items()}
    rows = {task: _load_splits(config, task, readers[task]) for task in config.tasks}
    for task, reader in readers.items():  # the saved config keeps what was inferred
        if reader.names and config.tasks[task].data.labels is None:
            config.tasks[task].data.labels = {v: reader.names[i] for v, i in reader.ids.items()}

    say(f"encoder: {config.encoder.name}")
    encoder, tokenizer = load_pretrained(config)
    for name, task in config.tasks.items():
        if task.max_length > encoder.max_positions:
            message = f"{task.max_length} tokens, but the encoder has {encoder.max_positions} positions"
            raise config.error(("tasks", name, "max_length"), message)
    splits = {
        task: {name: _tokenized(config, task, part, tokenizer) for name, part in parts.items()}
        for task, parts in rows.items()
    }
    torch.manual_seed(config.seed)
    autocast = use_autocast(config.training.precision, device)
    context = {task: _label_context(readers[task], rows[task]["train"]) for task in rows}
    model = build_model(config, encoder, context, autocast=autocast).to(device)

    streams = {
        name: TaskStream(
            name,
            splits[name]["train"].tokens.lengths,
            task.batch_size,
            task.accumulation,
            config.seed,
        )
        for name, task in config.tasks.items()
        if any(parameter.requires_grad for parameter in _trained(model, name))
    }
    if not streams:
        raise config.error(("encoder", "freeze"), "nothing to train: no head has parameters")
    choice = config.training.sampler
    steps = {task: stream.steps_per_pass for task, stream in streams.items()}
    try:
        sampler = build("sampler", choice.name, choice.options, {"steps": steps})
    except UserError as error:
        raise config.error(("training", "sampler"), str(error)) from error
    planned = config.training.epochs * sampler.steps_per_epoch
    data = {task: _describe(splits[task], readers[task]) for task in splits}
    chosen = {
        name: task.metric or metrics.SELECTABLE[readers[name].label_type][0]
        for name, task in config.tasks.items()
    }
    return Prepared(
        config,
        device,
        model,
        tokenizer,
        readers,
        splits,
        data,
        chosen,
        streams,
        sampler,
        min(planned, config.training.max_steps or planned),
        _warnings(config, data, streams),
    )


def _load_splits(config: Config, task: str, reader: LabelReader) -> dict[str, Rows]:
    data = config.tasks[task].data
    names = ["train", "dev"] + (["test"] if data.test else [])
    parts = {name: load_rows(config, task, name, reader) for name in names}
    if config.training.holdout:
        parts["train"], parts["holdout"] = split_holdout(parts["train"], config.training.holdout)
        if not len(parts["train"]) or not len(parts["holdout"]):
            message = f"holdout {config.training.holdout} leaves task {task} an empty split"
            raise config.error(("training", "holdout"), message)
    size = config.tasks[task].max_rows
    if size:
        parts["train"] = subset(parts["train"], size)
    return parts


def _tokenized(config: Config, task: str, rows: Rows, tokenizer: Any) -> Split:
    entry = config.tasks[task]
    tokens = tokenize(
        rows,
        tokenizer,
        siamese=entry.input == "siamese",
        max_length=entry.max_length,
        cache=default_cache() / "tokens",
    )
    return Split(rows, tokens)


def _label_context(reader: LabelReader, train: Rows) -> dict[str, Any]:
    counts = np.bincount(train.labels, minlength=len(reader.names)) if reader.names else []
    return {
        "num_labels": len(reader.names),
        "class_counts": [int(count) for count in counts],
        "low": reader.low,
        "high": reader.high,
    }


def _trained(model: MultiTaskModel, task: str) -> list[torch.nn.Parameter]:
    return [*model.encoder.parameters(), *model.tasks[task].parameters()]


def _describe(splits: Mapping[str, Split], reader: LabelReader) -> dict[str, dict[str, Any]]:
    found = {}
    for name, split in splits.items():
        found[name] = describe(split.rows, reader)
        found[name]["truncated_share"] = split.tokens.truncated_share
        found[name]["mean_tokens"] = float(np.diff(split.tokens.offsets).mean())
        if name != "train":
            found[name]["in_train"] = count_overlap(split.rows, splits["train"].rows)
    return found


def _warnings(
    config: Config, data: Mapping[str, Mapping[str, Mapping[str, Any]]], streams: Mapping
) -> list[str]:
    found = []
    seen = seen_corpora(config)
    for task, parts in data.items():
        corpus = config.tasks[task].data.corpus
        if corpus in seen:
            name = config.encoder.name
            found.append(f"{task}: {name} was pretrained on {corpus}: {seen[corpus]}")
        for split, part in parts.items():
            if part.get("in_train"):
                found.append(f"{task}: {part['in_train']} of {part['rows']} {split} rows are in train")
            if part["unlabelled_dropped"]:
                found.append(f"{task}: {part['unlabelled_dropped']} {split} rows without a label dropped")
            if part["empty_texts"]:
                found.append(f"{task}: {part['empty_texts']} {split} rows with an empty text")
            if part["truncated_share"] >= 0.01:
                share, length = part["truncated_share"], config.tasks[task].max_length
                found.append(f"{task}: {share:.1%} of {split} inputs cut at {length} tokens")
        if task not in streams:
            found.append(f"{task}: nothing to train (frozen encoder, no parameters): only evaluated")
    return found


def check_directory(run_dir: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise UserError when writing a run to ``run_dir`` would harm what is there."""
    if not run_dir.exists():
        return
    if not run_dir.is_dir():
        raise UserError(f"{run_dir} is a file: choose another output_dir=DIR")
    names = {path.name for path in run_dir.iterdir()}
    if names & {"metrics.jsonl", "report.json"}:
        if not resume and not overwrite:
            raise UserError(
                f"{run_dir} holds a run already: go on with --resume, replace it with --overwrite, "
                "or choose another output_dir=DIR"
            )
    # what a run leaves that was killed before its first step
    elif not names <= {"config.yaml", "encoder", "baselines.json"}:
        raise UserError(f"{run_dir} is not empty and holds no run: choose another output_dir=DIR")


def start_directory(config: Config, *, resume: bool, overwrite: bool) -> Path:
    """Make the run directory and save the resolved config in it.

    Raises UserError when the run to resume was started with another config.
    """
    run_dir = Path(config.output_dir)
    if resume and (run_dir / "config.yaml").is_file():
        _check_same_config(config, run_dir / "config.yaml")
    if overwrite and run_dir.is_dir():
        shutil.rmtree(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", config.dump())
    return run_dir


def _check_same_config(config: Config, saved: Path) -> None:
    from multitask.config import load_config

    before, now = _flat(load_config(saved).resolved()), _flat(config.resolved())
    differing = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    differing = [key for key in differing if key != "output_dir"]
    if differing:
        shown = ", ".join(f"{k} ({before.get(k)} -> {now.get(k)})" for k in differing[:5])
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise UserError(
            f"{saved.parent}: the run was started with another config: {shown}{more}; resume with "
            "the same values, or choose another output_dir=DIR"
        )


def _flat(values: Any, path: str = "") -> dict[str, Any]:
    if isinstance(values, dict) and values:
        parts = [_flat(item, f"{path}.{key}" if path else str(key)) for key, item in values.items()]
        return {key: item for part in parts for key, item in part.items()}
    return {path: values}


def train(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = print,
) -> Path:
    """Train, evaluate and report one run; returns the run directory.

    Raises:
        UserError: bad input, or a loss that is not finite.
        Interrupted: stopped by a signal, resumable.
    """
    check_directory(Path(config.output_dir), resume=resume, overwrite=overwrite)
    prepared = prepare(config, say)
    run_dir = start_directory(config, resume=resume, overwrite=overwrite)
    for warning in prepared.warnings:
        say(f"warning: {warning}")
    save_encoder(prepared, run_dir / "encoder")
    trainer = build_trainer(prepared, run_dir, say)
    baselines = _baselines(prepared, run_dir, resume, say)
    revision = _git_revision()  # now: the tree may change while the run goes on
    torch.manual_seed(config.seed)
    if not resume:
        trainer.log.truncate(0)
    elif trainer.restore():
        say(f"resuming {run_dir} at step {trainer.step} of {trainer.total_steps}")
    else:
        trainer.log.truncate(0)
        say(f"{run_dir} has no checkpoint yet: starting from the first step")
    trainer.run()
    report = finish(prepared, trainer, baselines, revision)
    say(terminal_table(report))
    say(f"report: {run_dir / 'report.md'}")
    return run_dir


def save_encoder(prepared: Prepared, directory: Path) -> None:
    """The architecture and the tokenizer, so that the run loads without its source."""
    prepared.model.encoder.model.config.save_pretrained(directory)
    prepared.tokenizer.save_pretrained(directory)


def build_trainer(
    prepared: Prepared, run_dir: Path, say: Callable[[str], None] = print
) -> Trainer:
    """The trainer of a prepared run, at step 0."""
    config = prepared.config
    tasks = config.tasks
    optimizer = build_optimizer(prepared.model, config)

    def next_batches(task: str) -> list[Batch]:
        split = prepared.splits[task]["train"]
        pad_id = prepared.tokenizer.pad_token_id
        return [
            collate(split.tokens, split.rows.labels, index, pad_id=pad_id).to(prepared.device)
            for index in prepared.streams[task].next()
        ]

    def evaluate(between_batches: Callable[[], None]) -> dict[str, dict[str, float]]:
        name = prepared.selection_split
        return {
            task: measure(
                prepared.score(task, name, between_batches),
                prepared.splits[task][name].rows,
                prepared.readers[task],
            )
            for task in tasks
        }

    return Trainer(
        run_dir=run_dir,
        model=prepared.model,
        optimizer=optimizer,
        scheduler=build_scheduler(optimizer, config, prepared.total_steps),
        sampler=prepared.sampler,
        streams=prepared.streams,
        next_batches=next_batches,
        evaluate=evaluate,
        metrics=prepared.metrics,
        selection=Selection(
            {name: task.early_stopping.patience for name, task in tasks.items()},
            {name: task.early_stopping.min_delta for name, task in tasks.items()},
        ),
        selection_split=prepared.selection_split,
        loss_weights={name: task.loss_weight for name, task in tasks.items()},
        total_steps=prepared.total_steps,
        clip_norm=config.training.clip_norm,
        eval_steps=config.training.eval_steps,
        checkpoint_steps=config.training.checkpoint_steps,
        keep_checkpoints=config.training.keep_checkpoints,
        say=say,
    )


def _baselines(
    prepared: Prepared, run_dir: Path, resume: bool, say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Trivial and frozen-encoder scores by task, computed once a run."""
    file = run_dir / "baselines.json"
    if resume and file.is_file():
        return json.loads(file.read_text())
    config = prepared.config
    found: dict[str, dict[str, Any]] = {}
    for name, task in config.tasks.items():
        splits, reader = prepared.splits[name], prepared.readers[name]
        found[name] = {
            "trivial": trivial_scores(splits["train"].rows, splits["dev"].rows, reader),
            "frozen": None,
        }
        if config.training.frozen_baseline and not config.encoder.freeze:
            say(f"baseline: {name}'s head on the frozen encoder")
            found[name]["frozen"] = frozen_head_scores(
                prepared.model,
                name,
                splits,
                reader,
                lr=task.head_lr or config.training.head_lr,
                metric=prepared.metrics[name],
                seed=config.seed,
                pad_id=prepared.tokenizer.pad_token_id,
                device=prepared.device,
            )
    found = without_nan(found)
    write_text(file, json.dumps(found, indent=1))
    return found


def selected_steps(best: Mapping[str, int], tasks: list[str], select: str) -> dict[str, int]:
    """The step whose weights serve each task: the joint best, or each task's own."""
    return {task: best[JOINT if select == "joint" else task] for task in tasks}


def weights_file(run_dir: Path, step: int) -> Path:
    """Where the weights of a best step are kept."""
    return run_dir / "weights" / f"step-{step:08d}.safetensors"


def finish(
    prepared: Prepared,
    trainer: Trainer,
    baselines: Mapping[str, Mapping[str, Any]],
    revision: str | None,
) -> dict[str, Any]:
    """Score every split with the selected weights; write predictions, report.json, report.md."""
    config, run_dir = prepared.config, trainer.run_dir
    names = list(config.tasks)
    steps = selected_steps(trainer.selection.best_steps(), names, config.training.select)
    tasks = {}
    loaded = None
    for name in names:
        if steps[name] != loaded:
            loaded = steps[name]
            prepared.model.load_state_dict(read_tensors(weights_file(run_dir, loaded)))
        task, reader = config.tasks[name], prepared.readers[name]
        scored = {split: prepared.score(name, split) for split in prepared.splits[name] if split != "train"}
        for split, scores in scored.items():
            rows = prepared.splits[name][split].rows
            write_predictions(run_dir, name, split, rows, scores, reader, task.course_file)
        dev = prepared.splits[name]["dev"].rows
        measured = dev_results(scored["dev"], dev, reader)
        tasks[name] = {
            "label_type": reader.label_type,
            "classes": list(reader.names) or None,
            "label_range": None if reader.names else [reader.low, reader.high],
            "metric": prepared.metrics[name],
            "input": task.input,
            "pooling": task.pooling.name,
            "head": task.head.name,
            "selected_step": steps[name],
            **measured,
            "baselines": baselines[name],
            "flags": flags(prepared.metrics[name], measured["dev"], baselines[name]),
            "data": prepared.data[name],
            "turns": {"trained": trainer.trained[name], "skipped": trainer.skipped[name]},
            "stopped_at_step": trainer.selection.stopped.get(name),
        }
    headline = {name: tasks[name]["dev"][prepared.metrics[name]] for name in names}
    report = without_nan(
        {
            "format": 1,
            "command": shlex.join(["python", *sys.argv]),
            "seed": config.seed,
            "git_revision": revision,
            "versions": _versions(),
            "device": str(prepared.device),
            "precision": "bf16" if prepared.model.autocast else "fp32",
            "wall_time_s": trainer.wall_seconds(),
            "train_sentences_per_s": trainer.sentences / max(trainer.seconds, 1e-9),
            "steps": {"planned": trainer.total_steps, "done": trainer.step},
            "select": config.training.select,
            "selection_split": prepared.selection_split,
            "encoder": {
                "name": config.encoder.name,
                "parameters": parameter_counts(prepared.model)["encoder"],
                "seen_corpora": list(seen_corpora(config)),
            },
            "overall": {
                "mean": metrics.joint(headline),
                "cs224n": metrics.overall_cs224n(headline, prepared.metrics),
            },
            "tasks": tasks,
            "warnings": prepared.warnings,
        }
    )
    write_text(run_dir / "report.json", json.dumps(report, indent=1))
    write_markdown(run_dir)
    return report


def dev_results(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, Any]:
    """The ``dev`` and ``dev_intervals`` entries of a task's report."""
    found: dict[str, Any] = {"rows": len(rows), **measure(scores, rows, reader)}
    if reader.names:
        found["confusion"] = metrics.confusion(rows.labels, scores.predictions, len(reader.names))
    spans = metrics.intervals(
        reader.label_type, rows.labels, scores.predictions, scores.scores, len(reader.names)
    )
    return {"dev": found, "dev_intervals": {name: list(span) for name, span in spans.items()}}


def flags(metric: str, dev: Mapping[str, Any], baselines: Mapping[str, Any]) -> list[str]:
    """A line for each baseline that the trained score does not reach (NaN reaches none)."""
    found = []
    for name, words in (("frozen", "frozen-encoder"), ("trivial", "trivial")):
        floor = (baselines[name] or {}).get(metric)
        if floor is not None and not dev[metric] >= floor:
            found.append(f"below the {words} baseline ({dev[metric]:.3f} < {floor:.3f})")
    return found


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    packages = ("torch", "transformers", "datasets", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _git_revision() -> str | None:
    """The project's commit, marked where files differ from it; None outside git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
