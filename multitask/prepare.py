"""Everything a run needs, loaded and checked: config -> data -> encoder -> model -> sampler."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from multitask.config import EMBEDDED, Config
from multitask.data.checks import count_overlap, describe, split_holdout, subset
from multitask.data.load import LabelReader, Rows, label_reader, load_rows
from multitask.data.tokenize import default_cache, tokenize
from multitask.device import pick_device, use_autocast
from multitask.errors import UserError
from multitask.evaluate import Scores, Split, score_split
from multitask.metrics import SELECTABLE
from multitask.model import MultiTaskModel, build_model, head_class
from multitask.pretrained import load_pretrained, seen_corpora
from multitask.registry import build
from multitask.sampler import RoundRobin, TaskStream


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

    def fingerprint(self) -> dict[str, str]:
        """A hash of each task's tokens and labels, to resume on the same data only."""
        found = {}
        for task, parts in self.splits.items():
            digest = hashlib.sha256()
            for name in ("train", self.selection_split):
                digest.update(parts[name].tokens.ids.tobytes())
                digest.update(parts[name].tokens.offsets.tobytes())
                digest.update(parts[name].rows.gold.tobytes())
            found[task] = digest.hexdigest()
        return found

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
    local = any(task.data.format != "hub" for task in config.tasks.values())
    if local and config.data_dir != EMBEDDED and not Path(config.data_dir).is_dir():
        raise config.error(("data_dir",), f"no such directory: {config.data_dir}")
    readers = {task: label_reader(config, task, head.label_type) for task, head in heads.items()}
    rows = {task: _load_splits(config, task, readers[task]) for task in config.tasks}
    for task, reader in readers.items():  # the saved config keeps what was inferred
        if reader.names and config.tasks[task].data.labels is None:
            config.tasks[task].data.labels = {v: reader.names[i] for v, i in reader.ids.items()}

    say(f"encoder: {config.encoder.name}")
    encoder, tokenizer = load_pretrained(config)
    for name, entry in config.tasks.items():
        if entry.max_length > encoder.max_positions:
            message = (
                f"{entry.max_length} tokens, but the encoder has {encoder.max_positions} positions"
            )
            raise config.error(("tasks", name, "max_length"), message)
    splits = {
        task: {name: _tokenized(config, task, part, tokenizer) for name, part in parts.items()}
        for task, parts in rows.items()
    }
    torch.manual_seed(config.seed)
    autocast = use_autocast(config.training.precision, device)
    context = {task: readers[task].head_context(rows[task]["train"].gold) for task in rows}
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
        raise config.error(("training", "sampler"), error) from error
    planned = config.training.epochs * sampler.steps_per_epoch
    data = {task: _describe(config, task, splits[task], readers[task]) for task in splits}
    chosen = {
        name: task.metric or SELECTABLE[readers[name].label_type][0]
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


def _trained(model: MultiTaskModel, task: str) -> list[torch.nn.Parameter]:
    return [*model.encoder.parameters(), *model.tasks[task].parameters()]


def _describe(
    config: Config, task: str, splits: Mapping[str, Split], reader: LabelReader
) -> dict[str, dict[str, Any]]:
    data = config.tasks[task].data
    found = {}
    for name, split in splits.items():
        file = data.train if name == "holdout" else getattr(data, name)
        found[name] = {"file": file, **describe(split.rows, reader)}
        found[name]["truncated_share"] = split.tokens.truncated_share
        found[name]["mean_tokens"] = float(np.diff(split.tokens.offsets).mean())
        if name in ("dev", "test"):  # a held-out slice of train selects: it counts as train
            seen = [splits[part].rows for part in ("train", "holdout") if part in splits]
            found[name]["in_train"] = count_overlap(split.rows, seen)
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
            found.append(f"{task}: {name} has seen {corpus}: {seen[corpus]}")
        for split, part in parts.items():
            if part.get("in_train"):
                found.append(
                    f"{task}: {part['in_train']} of {part['rows']} {split} rows are in train"
                )
            if part["unlabelled_dropped"]:
                found.append(
                    f"{task}: {part['unlabelled_dropped']} {split} rows without a label dropped"
                )
            if part["empty_texts"]:
                found.append(f"{task}: {part['empty_texts']} {split} rows with an empty text")
            if part["truncated_share"] >= 0.01:
                share, length = part["truncated_share"], config.tasks[task].max_length
                found.append(f"{task}: {share:.1%} of {split} inputs truncated at {length} tokens")
        if task not in streams:
            found.append(
                f"{task}: nothing to train (frozen encoder, no parameters): only evaluated"
            )
    return found
