"""Describe a run's data before training: counts for plan and report, and warnings."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from multitask.config import Config
from multitask.config.config import seen_corpora
from multitask.config.registry import head_type
from multitask.data.by_type import reading_of
from multitask.data.classes import takes_sets
from multitask.data.overlap import Seen, hashes, row_key
from multitask.data.tokenize import Split
from multitask.store.saved import SplitFacts
from multitask.tasks.base import TaskType
from multitask.tasks.glue import check_index
from multitask.tasks.label_reader import LabelReader, number_of
from multitask.tasks.rows import Rows
from multitask.utils.look_alikes import difference, look


def describe_splits(
    config: Config,
    task: str,
    splits: Mapping[str, Split],
    *,
    seen: Mapping[str, Seen],
    reader: LabelReader,
) -> dict[str, SplitFacts]:
    """Count each of a task's splits; ``seen`` has the rows of dev and test that are in train."""
    data = config.tasks[task].data
    described = {}
    for name, split in splits.items():
        of_train = name == "holdout" or (name == "dev" and data.dev_share is not None)
        file = data.train if of_train else getattr(data, name)
        if data.texts_of:
            file = f"texts of {', '.join(data.texts_of)}"
        facts = {"file": file, **describe(split.rows, reader).content()}
        facts["truncated_share"] = split.tokens.truncated_share
        if split.cut is not None:
            facts["cut"] = split.cut
        if split.tokens.without_piece is not None and split.tokens.without_piece.any():
            facts["without_piece"] = int(split.tokens.without_piece.sum())
        if split.tokens.owners is not None:
            facts["windows"] = len(split.tokens)
        facts["mean_tokens"] = float(np.diff(split.tokens.offsets).mean())
        if name in seen:
            facts["in_train"] = int(seen[name].own.sum())
            if seen[name].others:
                facts["in_other_train"] = seen[name].in_others
                facts["other_train"] = list(seen[name].others)
        described[name] = SplitFacts.model_validate(facts)
    return described


def data_warnings(
    config: Config, data: Mapping[str, Mapping[str, SplitFacts]], trained: Collection[str]
) -> list[str]:
    """Return a line for each thing in the data that may surprise, given each split's counts."""
    return [
        f"{task}: {line}"
        for task, parts in data.items()
        for line in _warnings_of_task(config, task, parts, trained)
    ]


def _warnings_of_task(
    config: Config, task: str, parts: Mapping[str, SplitFacts], trained: Collection[str]
) -> Iterator[str]:
    entry, seen = config.tasks[task], seen_corpora(config)
    kind = head_type(entry.head.name)
    if entry.data.labels is None and "train" in parts:
        for names in alike(parts["train"].label_counts):
            what = f"{' and '.join(told_apart(names))} are different labels"
            yield f"{what}: give them one name in `data.labels` if they mean the same"
    if entry.data.corpus in seen:
        yield f"{config.encoder.name} has seen {entry.data.corpus}: {seen[entry.data.corpus]}"
    for split, part in parts.items():
        if part.in_train:
            yield f"{part.in_train} of {part.rows} {split} rows are in train"
        if part.in_other_train:
            many = f"{part.in_other_train} of {part.rows} {split} rows"
            yield f"{many} are in train of other tasks: {', '.join(part.other_train)}"
        if part.unlabelled_dropped:
            advice = ""
            if takes_sets(kind) and "" in entry.data.unlabelled:
                others = json.dumps([v for v in entry.data.unlabelled if v], ensure_ascii=False)
                advice = f": if an empty cell means 'no class', set `data.unlabelled: {others}`"
            yield f"{part.unlabelled_dropped} {split} rows without a label dropped{advice}"
        if part.empty_texts:
            yield f"{part.empty_texts} {split} rows with an empty text"
        if (share := part.truncated_share) >= 0.01:
            yield f"{share:.1%} of {split} inputs truncated at {entry.max_length} tokens"
        yield from unread(part, split, kind)
    if task not in trained and not entry.only_scored:
        named = [stage.tasks for stage in config.stages or [] if stage.tasks]
        left_out = named and not any(task in tasks for tasks in named)
        why = "in no stage" if left_out else "nothing to train (frozen encoder, no parameters)"
        yield f"{why}: only evaluated"


def unread(part: SplitFacts, split: str, kind: TaskType) -> Iterator[str]:
    """Yield a line about the words, or answers, of a split that have no token."""
    dropped = part.without_piece or 0
    if cut := (part.cut or 0) - dropped:
        how = reading_of(kind)
        drops = split == "train" and how.drops_cut
        yield f"{cut} {split} {how.cut_off}{': the rows are left out' if drops else ''}"
    if dropped:
        why = "the tokenizer drops all their characters, such as control characters"
        yield f"{dropped} {split} words have no token, and are predicted as O: {why}"


def alike(names: Iterable[str]) -> list[list[str]]:
    """Group class names that look alike, or are spellings of one number."""
    groups: dict[str | float, list[str]] = {}
    for name in names:
        number = number_of(look(name))
        groups.setdefault(look(name) if math.isnan(number) else number, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def told_apart(names: Sequence[str]) -> list[str]:
    """Return names that look alike in quotes, each with its code points that the first lacks."""
    first, *others = names
    notes = ((name, difference(name, first)) for name in others)
    return [repr(first), *(f"{name!r} ({note})" if note else repr(name) for name, note in notes)]


def glue_remarks(config: Config, splits: Mapping[str, Mapping[str, Split]]) -> list[str]:
    """Return a line for each test set with a different number of rows than GLUE expects."""
    remarks = []
    for name, task in config.tasks.items():
        if task.glue_file is not None and "test" in splits[name]:
            with config.errors_at(("tasks", name, "glue_file")):
                remark = check_index(task.glue_file, splits[name]["test"].rows.ids)
            remarks += [f"{name}: {remark}"] if remark else []
    return remarks


def describe(rows: Rows, reader: LabelReader) -> SplitFacts:
    """Count one split for the report: rows, dropped, empty, duplicates, labels."""
    keys, kind = set(hashes(map(row_key, rows.texts)).tolist()), reader.task_type
    return SplitFacts(
        rows=len(rows),
        unlabelled_dropped=rows.unlabelled_dropped,
        empty_texts=sum(any(not text.strip() for text in texts) for texts in rows.texts),
        duplicates=len(rows) - len(keys),
        label_counts={} if rows.labels is None else kind.label_counts(rows, reader),
    )
