"""Every task's splits: what is trained on, held out, and scored."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.data.load import labelled_only, load_rows, load_together
from multitask.data.summary import row_key
from multitask.data.texts import split_rows, unlabelled_rows
from multitask.data.token_labels import PLACED, READERS
from multitask.data.tokenize import Split, default_cache, tokenize
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.metric_names import OUTCOMES, UNLABELLED


def streams(config: Config) -> dict[str, list[str]]:
    """The tasks that train on the rows of each task that has training rows of its own."""
    tasks = {name: task for name, task in config.tasks.items() if not task.only_scored}
    hosts = {name: task.data.same_rows_as or name for name, task in tasks.items()}
    return {host: [n for n in hosts if hosts[n] == host] for host in dict.fromkeys(hosts.values())}


def load_splits(
    config: Config, readers: Mapping[str, LabelReader]
) -> tuple[dict[str, dict[str, Rows]], dict[str, dict[str, Rows]]]:
    """Every task's splits, and the training rows that several tasks share, by their host.

    A task that is only scored has no ``train``, and ``dev`` and ``test`` as far as they are named.
    """
    rows: dict[str, dict[str, Rows]] = {}
    together = {}
    own = (*UNLABELLED, *OUTCOMES)  # they share their rows with no other task
    apart = [task for task, reader in readers.items() if reader.label_type in own]
    for host, members in streams(config).items():
        if host in apart:
            continue
        train = load_together(config, members, "train", readers)
        parts = {task: _train_parts(config, host, found) for task, found in train.items()}
        if len(members) > 1:
            together[host] = {task: parts[task]["train"] for task in members}
        for task in members:
            rows[task] = {name: labelled_only(part) for name, part in parts[task].items()}
            rows[task] |= _scored_parts(config, task, readers)
    scored = [task for task in apart if config.tasks[task].only_scored]
    apart = [task for task in apart if task not in scored or readers[task].label_type in UNLABELLED]
    for task in sorted(apart, key=lambda task: bool(config.tasks[task].data.texts_of)):
        rows[task] = _texts(config, task, rows, readers)
    for task, entry in config.tasks.items():
        if entry.only_scored:
            read = READERS.get(readers[task].label_type, load_rows)
            names = entry.data.scored
            rows[task] = {name: read(config, task, name, readers[task]) for name in names}
    return {task: rows[task] for task in config.tasks}, together


def _scored_parts(config: Config, task: str, readers: Mapping[str, LabelReader]) -> dict[str, Rows]:
    """``dev``, and ``test`` where there is one."""
    names = dict.fromkeys(("dev", *config.tasks[task].data.scored))  # dev: an error if not given
    return {name: split_rows(config, task, name, readers) for name in names}


def _texts(
    config: Config,
    task: str,
    rows: Mapping[str, Mapping[str, Rows]],
    readers: Mapping[str, LabelReader],
) -> dict[str, Rows]:
    """The splits of a task with rows of its own; ``rows`` are those of the tasks read before."""
    entry = config.tasks[task]
    sources = entry.data.texts_of
    if sources:  # as they train, so that what they hold out is held out here
        names = [name for name in ("train", "holdout") if name in rows[sources[0]]]
        parts = {
            name: unlabelled_rows(config, task, [rows[o][name] for o in sources], readers[task])
            for name in names
        }
        if entry.max_rows:
            parts["train"] = subset(parts["train"], entry.max_rows)
    else:
        parts = _train_parts(config, task, split_rows(config, task, "train", readers))
    return parts | _scored_parts(config, task, readers)


def _train_parts(config: Config, host: str, rows: Rows) -> dict[str, Rows]:
    """``train``, and ``holdout`` where there is one; alike for all tasks that share the rows."""
    parts = {"train": rows}
    if config.training.holdout:
        parts["train"], parts["holdout"] = split_holdout(rows, config.training.holdout)
        if not len(parts["train"]) or not len(parts["holdout"]):
            message = f"holdout {config.training.holdout} leaves task {host} an empty split"
            raise config.error(("training", "holdout"), message)
    size = config.tasks[host].max_rows
    if size:
        parts["train"] = subset(parts["train"], size)
    return parts


def _tokenized(
    config: Config, task: str, rows: Rows, tokenizer: Any, reader: LabelReader, training: bool
) -> Split:
    entry = config.tasks[task]
    tokens = tokenize(
        rows,
        tokenizer,
        siamese=entry.input in ("siamese", "triplet"),
        max_length=entry.max_length,
        words=reader.label_type == "tokens",
        characters=reader.label_type in PLACED,
        stride=entry.stride,
        twice=training and reader.label_type == "views" and entry.input == "single",
        cache=default_cache() / "tokens",
    )
    if reader.label_type not in PLACED:
        return Split(rows, tokens)
    tokens, cut = PLACED[reader.label_type](rows, tokens)
    if not (training and tokens.answers is not None and cut):
        return Split(rows, tokens, cut)
    kept = np.unique(tokens.row_of[tokens.answers[:, 0] >= 0])
    if not len(kept):
        message = f"no training row has its answer in the first {entry.max_length} tokens"
        raise config.error(("tasks", task, "max_length"), message)
    left = _tokenized(config, task, rows.take(kept), tokenizer, reader, training)
    left.rows.unlabelled_dropped = rows.unlabelled_dropped
    return Split(left.rows, left.tokens, cut)


def split_holdout(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """(kept, held out): a fixed random ``share`` of the distinct texts.

    The slice does not depend on the run's seed, so that runs of several seeds and methods are
    selected on the same rows; duplicates stay on one side.
    """
    keys = [row_key(texts) for texts in rows.texts]
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(0).permutation(len(distinct))
    held = {distinct[i] for i in order[: round(share * len(distinct))]}
    kept_rows = [i for i, key in enumerate(keys) if key not in held]
    held_rows = [i for i, key in enumerate(keys) if key in held]
    kept = rows.take(kept_rows)
    kept.unlabelled_dropped = rows.unlabelled_dropped
    return kept, rows.take(held_rows)


def subset(rows: Rows, size: int) -> Rows:
    """A fixed random subset of ``size`` rows, in file order; the same in every run."""
    if size >= len(rows):
        return rows
    index = np.sort(np.random.default_rng(1).permutation(len(rows))[:size])
    taken = rows.take(index)
    taken.unlabelled_dropped = rows.unlabelled_dropped
    return taken
