"""Every task's splits: read, split into train and holdout, and tokenized."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.data.by_type import reading_of
from multitask.data.chosen_endings import check_same_number
from multitask.data.classes import check_names
from multitask.data.inputs.base import input_of
from multitask.data.load_rows import labelled_only, load_together, split_rows
from multitask.data.masking import Masking
from multitask.data.overlap import Seen, encoded_keys, hashes, in_training, row_key, separators
from multitask.data.summary import describe_splits
from multitask.data.texts import sample, unlabelled_rows
from multitask.data.tokenize import Split, Tokens, default_cache, tokenize
from multitask.store.saved import SplitFacts
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

SplitRows = dict[str, dict[str, Rows]]  # by task and split


@dataclass(frozen=True)
class TrainingSet:
    """The rows that one task trains on, or several tasks together.

    Attributes:
        tokens: the tokenized rows.
        labels: each task's labels [N]; some may be missing, see ``TaskType.missing``.
    """

    tokens: Tokens
    labels: dict[str, np.ndarray]


@dataclass(frozen=True)
class Data:
    """Every task's rows, read and tokenized.

    Attributes:
        tokenizer: the tokenizer of the encoder.
        readers: each task's label reader.
        splits: the splits (``train``, ``holdout``, ``dev``, ``test``) of each task.
        training: the training sets, by the task that the rows belong to.
        summary: the counts of each task's splits, as in report.json.
        seen: the rows of dev and test that are in training data, by task and split.
        maskings: the masking of each masked-LM task; empty before ``masked``.
    """

    tokenizer: Any
    readers: dict[str, LabelReader]
    splits: dict[str, dict[str, Split]]
    training: dict[str, TrainingSet]
    summary: dict[str, dict[str, SplitFacts]]
    seen: dict[str, dict[str, Seen]]
    maskings: dict[str, Masking] = field(default_factory=dict)

    def label_values(self) -> dict[str, dict[str, str]]:
        """Return the class of each label value, by task; empty for a task without classes."""
        return {
            task: {value: reader.names[number] for value, number in reader.ids.items()}
            for task, reader in self.readers.items()
        }

    def masked(self, maskings: Mapping[str, Masking]) -> "Data":
        """Mask the texts of these tasks, except train, which is masked anew in each pass."""
        splits = {task: dict(parts) for task, parts in self.splits.items()}
        for task, masking in maskings.items():
            for name, split in splits[task].items():
                if name != "train":
                    splits[task][name] = masked_split(split, masking)
        return replace(self, splits=splits, maskings=dict(maskings))


def tokenize_splits(
    config: Config,
    rows: SplitRows,
    shared: SplitRows,
    *,
    readers: dict[str, LabelReader],
    tokenizer: Any,
) -> Data:
    """Tokenize what ``load_splits`` returned."""
    made = partial(tokenized, config, tokenizer=tokenizer, cache=default_cache() / "tokens")
    splits = {
        task: {
            name: made(task, part, reader=readers[task], training=name == "train")
            for name, part in parts.items()
        }
        for task, parts in rows.items()
    }
    training = {}
    for host in streams(config):
        if host in shared:
            part = next(iter(shared[host].values()))
            tokens = made(host, part, reader=readers[host], training=True).tokens
            labels = {task: rows_of_task.gold for task, rows_of_task in shared[host].items()}
        else:
            train = splits[host]["train"]
            tokens, labels = train.tokens, {host: train.rows.gold}
        training[host] = TrainingSet(tokens, labels)
    seen = in_training(config, splits, separators(tokenizer))
    summary = {
        task: describe_splits(config, task, parts, seen=seen[task], reader=readers[task])
        for task, parts in splits.items()
    }
    return Data(tokenizer, readers, splits, training, summary, seen)


def masked_split(split: Split, masking: Masking) -> Split:
    """Mask a split with a fixed seed; ``labels`` is the number of masked tokens per text."""
    tokens = masking.apply(split.tokens, [0])
    return Split(replace(split.rows, labels=tokens.masked), tokens)


def fingerprint(config: Config, splits: Mapping[str, Mapping[str, Split]]) -> dict[str, str]:
    """Hash each task's train, holdout and dev rows: a run only resumes on the same data."""
    hashes = {}
    for task, parts in splits.items():
        entry = config.tasks[task]
        if entry.only_scored and not entry.evaluate_only:
            continue
        digest = hashlib.sha256()
        names = ("dev",) if entry.evaluate_only else ("train", "holdout", "dev")
        for part in (parts[name] for name in names if name in parts):
            digest.update(part.tokens.ids.tobytes())
            digest.update(part.tokens.offsets.tobytes())
            digest.update(part.rows.gold.tobytes())
        hashes[task] = digest.hexdigest()
    return hashes


def streams(config: Config) -> dict[str, list[str]]:
    """Return, for each task with training rows, the tasks that train on these rows."""
    tasks = {name: task for name, task in config.tasks.items() if not task.only_scored}
    hosts = {name: task.data.same_rows_as or name for name, task in tasks.items()}
    return {host: [n for n in hosts if hosts[n] == host] for host in dict.fromkeys(hosts.values())}


def load_splits(
    config: Config, readers: Mapping[str, LabelReader], tokenizer: Callable[[], Any]
) -> tuple[SplitRows, SplitRows]:
    """Read every task's splits, and the training rows that several tasks share.

    A task that is only scored has no ``train``. It has ``dev`` and ``test`` only if the config
    names them. ``tokenizer`` returns the encoder's, which tells which rows are equal when a holdout
    is drawn.

    Returns:
        The rows by task and split, and the shared training rows by the task that they belong to
        and the task of their labels.
    """
    for task, reader in readers.items():
        if reader.names:
            check_names(config, task, reader)
    rows: SplitRows = {}
    together: SplitRows = {}
    # tasks that use the texts of others come last
    hosts = sorted(
        streams(config).items(), key=lambda pair: bool(config.tasks[pair[0]].data.texts_of)
    )
    for host, members in hosts:
        reader, sources = readers[host], config.tasks[host].data.texts_of
        if sources:
            parts = {host: _texts_of(config, host, [rows[source] for source in sources], reader)}
        else:
            if len(members) > 1:
                train = load_together(config, members, "train", readers)
            else:
                train = {host: split_rows(config, host, "train", readers)}
            parts = {
                task: _train_parts(config, host, part, reader=reader, tokenizer=tokenizer)
                for task, part in train.items()
            }
        if len(members) > 1:
            together[host] = {task: parts[task]["train"] for task in members}
        for task in members:
            kind = readers[task].task_type
            rows[task] = {name: labelled_only(part, kind) for name, part in parts[task].items()}
            # always dev: it is an error if the config does not give it
            for name in dict.fromkeys(("dev", *config.tasks[task].data.scored)):
                rows[task][name] = split_rows(config, task, name, readers)
    for task, entry in config.tasks.items():
        if entry.only_scored:
            names = entry.data.scored
            rows[task] = {name: split_rows(config, task, name, readers) for name in names}
    for splits in rows.values():
        check_same_number(splits)
    return {task: rows[task] for task in config.tasks}, together


def _texts_of(
    config: Config, task: str, sources: Sequence[Mapping[str, Rows]], reader: LabelReader
) -> dict[str, Rows]:
    """Use the texts of other tasks, split as these are: their holdout is the holdout here too."""
    entry = config.tasks[task]
    sizes = {"train": entry.max_rows, "holdout": entry.max_dev_rows}
    parts = {}
    for name in (name for name in sizes if name in sources[0]):
        rows = unlabelled_rows(config, task, [splits[name] for splits in sources], reader)
        parts[name] = sample(rows, sizes[name])
    return parts


def _train_parts(
    config: Config, host: str, rows: Rows, *, reader: LabelReader, tokenizer: Callable[[], Any]
) -> dict[str, Rows]:
    """Split rows into ``train`` and, if set, ``holdout``; the same for tasks that share them."""
    parts = {"train": rows}
    if share := config.training.holdout:
        cache = default_cache() / "tokens"
        tokens = _tokens(config, host, rows, reader=reader, tokenizer=tokenizer(), cache=cache)
        encoded = hashes(encoded_keys(Split(rows, tokens), separators(tokenizer())))
        held = held_out(rows, encoded.tolist(), share)
        if held.all() or not held.any():
            message = f"holdout {share} leaves task {host} an empty split"
            raise config.error(("training", "holdout"), message)
        every = replace(rows, tokens=tokens)
        parts["train"] = every.take(np.flatnonzero(~held))
        parts["train"].unlabelled_dropped = rows.unlabelled_dropped
        held_rows = every.take(np.flatnonzero(held))
        parts["holdout"] = sample(held_rows, config.tasks[host].max_dev_rows)
    parts["train"] = sample(parts["train"], config.tasks[host].max_rows)
    return parts


def tokenized(
    config: Config,
    task: str,
    rows: Rows,
    *,
    reader: LabelReader,
    tokenizer: Any,
    training: bool = False,
    cache: Path | None = None,
) -> Split:
    """Tokenize rows as the task's input and task type need them.

    Args:
        config: the config that has the task.
        task: its name.
        rows: the rows.
        reader: the task's label reader.
        tokenizer: the encoder's.
        training: the rows are for training. A single text of a contrastive task becomes two views.
            A row whose label was cut off is dropped, if it then has none.
        cache: directory of the token cache; None for no cache.

    Raises:
        UserError: a text cannot be tokenized, or every training row has lost its answer.
    """
    entry, how = config.tasks[task], reading_of(reader.task_type)
    tokens = _tokens(config, task, rows, reader=reader, tokenizer=tokenizer, cache=cache)
    rows = replace(rows, tokens=None)
    if training and reader.task_type.compares_rows and input_of(entry).texts == 1:
        tokens = tokens.twice()
    if how.mark_tokens is None:
        return Split(rows, tokens)
    unmarked = tokens
    tokens, cut = how.mark_tokens(rows, tokens)
    if not (training and how.drops_cut and cut):
        return Split(rows, tokens, cut)
    assert tokens.answers is not None, "training rows have labels"
    answered = np.unique(tokens.row_of[tokens.answers[:, 0] >= 0])
    if not len(answered):
        message = f"no training row has its answer in the first {entry.max_length} tokens"
        raise config.error(("tasks", task, "max_length"), message)
    rest = replace(
        rows.take(answered),
        tokens=unmarked.take(answered),
        unlabelled_dropped=rows.unlabelled_dropped,
    )
    split = tokenized(
        config, task, rest, reader=reader, tokenizer=tokenizer, training=True, cache=cache
    )
    return replace(split, cut=cut)


def _tokens(
    config: Config,
    task: str,
    rows: Rows,
    *,
    reader: LabelReader,
    tokenizer: Any,
    cache: Path | None,
) -> Tokens:
    """Tokenize rows as the task's input and task type need them, without their labels."""
    if rows.tokens is not None:
        tokens: Tokens = rows.tokens
        return tokens
    entry, how = config.tasks[task], reading_of(reader.task_type)
    return tokenize(
        rows,
        tokenizer,
        max_length=entry.max_length,
        arrange=input_of(entry).arrange,
        words=how.words,
        characters=how.mark_tokens is not None,
        stride=entry.stride,
        cache=cache,
    )


def held_out(rows: Rows, encoded: Sequence[Hashable], share: float) -> np.ndarray:
    """Hold out a fixed random ``share`` of the distinct texts: bool [N].

    The holdout does not depend on the run's seed, so runs with other seeds and methods are selected
    on the same rows. Duplicates stay in one part: rows with equal texts, and rows that are equal
    for the encoder, as ``encoded`` tells by its key of each row. scikit-learn's `GroupShuffleSplit`
    would hold out other rows, because it uses another random generator.
    """
    keys = hashes(map(row_key, rows.texts)).tolist()
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(0).permutation(len(distinct))
    drawn = {distinct[i] for i in order[: round(share * len(distinct))]}
    equal = {tokens for tokens, key in zip(encoded, keys, strict=True) if key in drawn}
    return np.array([tokens in equal for tokens in encoded], dtype=bool)
