"""Every task's splits: what is trained on, held out, and scored."""

from collections.abc import Mapping

from multitask.config import Config
from multitask.data.checks import split_holdout, subset
from multitask.data.load import LabelReader, Rows, labelled_only, load_rows, load_together
from multitask.data.texts import split_rows, unlabelled_rows
from multitask.data.token_labels import READERS
from multitask.metric_names import OUTCOMES, UNLABELLED


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
