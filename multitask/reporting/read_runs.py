"""Read finished runs: their groups, settings, and saved predictions."""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from re import sub
from typing import Any

import numpy as np

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.config.yaml_merge import CHOICES, REPLACED, load_tree
from multitask.config.yaml_reader import dump_override
from multitask.store.prepare_run import check_distinct
from multitask.store.run_directory import RunDirectory, open_run
from multitask.store.saved import TaskReport
from multitask.tasks.base import Array, Columns, TaskType
from multitask.tasks.bootstrap import resampled_rows
from multitask.tasks.metrics import resampled_values
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

# keys in which the runs of a group may differ; data may have moved
NOT_SETTINGS = ("seed", "output_dir", "data_dir")


@dataclass
class Group:
    """Runs of one setting.

    Attributes:
        name: its name in tables.
        runs: one run directory per seed.
        point: the label on each axis of a grid.
    """

    name: str
    runs: list[Path]
    point: dict[str, str] = field(default_factory=dict)


def group_runs(run_dirs: list[Path]) -> list[Group]:
    """Group runs whose configs are equal apart from the seed.

    Groups keep the order of their first runs; the runs of a group are sorted by seed. Probes and
    trained runs of one config are two groups. A group is named after its first directory, without a
    suffix for the seed; names are unique.

    Raises:
        UserError: no run there, a run given twice, or two runs of one config and seed.
    """
    groups: list[tuple[dict[str, object], dict[int, Path]]] = []
    check_distinct(run_dirs)
    for run in run_dirs:
        config = run_config(run)
        seed = config["seed"]
        settings = {key: value for key, value in config.items() if key not in NOT_SETTINGS}
        files = RunDirectory(run)
        settings["probe"] = files.finished and files.load_report().probe
        runs = next((runs for other, runs in groups if other == settings), None)
        if runs is None:
            groups.append((settings, {seed: run}))
        elif seed in runs:
            raise UserError(
                f"{runs[seed]} and {run} have the same config and seed {seed}: that is one "
                "measurement, not two; leave one out"
            )
        else:
            runs[seed] = run
    names = _names([next(iter(runs.items())) for _, runs in groups])
    return [
        Group(name, [runs[seed] for seed in sorted(runs)])
        for name, (_, runs) in zip(names, groups, strict=True)
    ]


def run_config(run: Path) -> dict[str, Any]:
    """Return the resolved config of a run as plain values, of any version.

    Raises UserError if it has none.
    """
    directory = open_run(run)
    file = directory.config
    if not directory.holds_run:
        raise UserError(directory.absent)
    config = load_tree(file).value
    if not isinstance(config.get("seed"), int):
        raise UserError(f"{file}: the key 'seed' is missing: not the config that a run saves")
    directory.warn_of_change(file)
    try:
        return load_config(file).resolved()  # a key that is newer than the run has its default
    except UserError:
        return dict(config)


def _names(firsts: list[tuple[int, Path]]) -> list[str]:
    """Find a short name per (seed, directory), and a longer one where short names are equal."""
    choices = [_choices(seed, run) for seed, run in firsts]
    while True:
        names = [choice[0] for choice in choices]
        again = [choice for choice in choices if names.count(choice[0]) > 1]
        if not again:
            return names
        for choice in again:
            if len(choice) > 1:
                del choice[0]


def _choices(seed: int, run: Path) -> list[str]:
    """List names of a run from short to long; the last one, the complete path, is unique."""
    *parents, last = run.resolve().parts
    short = sub(rf"(^|[-_.])(seed[-_=]?\d+|{seed})$", "", last, count=1)
    if not short:  # SETTING/seed-1
        *parents, short = parents
        last = f"{short}/{last}"
    choices = [short, last]
    for i in range(1, len(parents)):
        above = "/".join(parents[-i:])
        choices += [f"{above}/{short}", f"{above}/{last}"]
    return [*choices, str(run.resolve())]


def differing_settings(configs: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return, per config and by dotted key, the values that are not the same in all configs.

    A key that a config lacks is not in its entry. If only some configs have a mapping, such as a
    task, they have ``True`` for it, and its keys are listed where they differ among these. A method
    (pooling, head, ...) is one value: its name if it has no options.
    """
    differing: list[dict[str, object]] = [{} for _ in configs]
    settings = {
        i: {key: value for key, value in config.items() if key not in NOT_SETTINGS}
        for i, config in enumerate(configs)
    }
    _compare((), settings, differing)
    return differing


def _compare(
    path: tuple[str, ...], values: dict[int, Any], differing: list[dict[str, object]]
) -> None:
    """Note where ``values``, by position of the config, differ."""
    first, *others = values.values()
    if all(other == first for other in others):
        return
    one_value = path[-1:] and (path[-1] in CHOICES or path[-2:] in REPLACED)
    if one_value or not all(isinstance(value, dict) for value in values.values()):
        for i, value in values.items():
            differing[i][".".join(path)] = _plain(value)
        return
    for name in dict.fromkeys(name for value in values.values() for name in value):
        have = {i: value[name] for i, value in values.items() if name in value}
        below = (*path, name)
        mappings = all(isinstance(value, dict) for value in have.values())
        if len(have) < len(values):
            for i, value in have.items():
                differing[i][".".join(below)] = True if mappings else _plain(value)
        if len(have) == len(values) or mappings:
            _compare(below, have, differing)


def _plain(value: Any) -> Any:
    """Shorten a method without options to its name."""
    return value["name"] if isinstance(value, dict) and [*value] == ["name"] else value


def shown(value: Any) -> str:
    """Write a setting as one may type it after ``key=``; words stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return dump_override("", value).removeprefix("=")
    return json.dumps(value)


# Scores are saved with nine digits and may be written again on another device, so predictions may
# differ from the reported score by this much.
TOLERANCE = 0.005


@dataclass
class ScoredRows:
    """One run's output over a split of a task, N rows in file order."""

    # the run directory
    run: Path
    # the rows
    rows: Rows
    # what the task predicts
    task_type: TaskType
    # the metric that is compared
    metric: str
    # the predictions [N, ...], in the form that the task type uses
    predictions: Array
    # the probabilities or numbers behind the predictions, in the same form
    scores: Array
    # the labels as saved, which a metric may not need; None: those of ``rows``
    saved_labels: Sequence[Any] | None = None
    # the metrics that the run reports; default: all of the task type
    reported: Sequence[str] = ()

    @property
    def columns(self) -> Columns:
        """Return the arguments of a metric: labels, predictions, scores."""
        return self.rows.gold, self.predictions, self.scores

    @property
    def labels(self) -> Sequence[Any]:
        """Return the label of each row, to tell whether two runs have the same rows."""
        return self.rows.gold.tolist() if self.saved_labels is None else self.saved_labels

    def by(self, metric: str) -> "ScoredRows":
        """Return the same rows, to compute another metric."""
        return replace(self, metric=metric)

    def values(self, drawn: Array) -> Array:
        """Compute the task's metric on each set of drawn rows: int [R, M] -> [R]."""
        return resampled_values(self.task_type, self.columns, drawn, [self.metric])[self.metric]

    def value(self) -> float:
        """Compute the task's metric on all rows."""
        return float(self.values(np.arange(len(self.rows))[None])[0])


def load_split(run: Path, task: str, split: str, result: TaskReport) -> ScoredRows:
    """Read ``predictions/TASK.SPLIT.jsonl``; ``result`` is the task's entry of report.json.

    Raises UserError: the file is missing or damaged, or the dev set does not give the reported
    score.
    """
    directory = RunDirectory(run)
    file = directory.predictions_of(task, split)
    advice = f"write it again with: predict {run}"
    if not file.is_file():
        raise UserError(f"{file} does not exist: {advice}")
    kind = task_type(result.label_type)
    try:
        records = directory.load_predictions(task, split)
        unlabelled = split == "test" and any(record["label"] is None for record in records)
        if unlabelled:
            records = [{**record, "label": record["prediction"]} for record in records]
        labels, predictions, scores = kind.read_records(records)
        rows = Rows(
            str(file),
            [str(record["id"]) for record in records],
            [tuple(record["texts"]) for record in records],
            None if unlabelled else labels,
        )
        saved = [record["label"] for record in records]
        scored = ScoredRows(
            run,
            rows,
            kind,
            result.metric,
            predictions,
            scores,
            saved_labels=saved,
            reported=result.reported(kind.metrics),
        )
        return _checked(scored, split, result, advice)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise UserError(f"{file}: damaged or incomplete: {advice}") from error


def _checked(scored: ScoredRows, split: str, result: TaskReport, advice: str) -> ScoredRows:
    """Return the rows. Raises UserError for an incomplete dev set, or one with another score."""
    rows = result.dev.get("rows") if split == "dev" else None
    if rows not in (None, len(scored.rows)):
        message = f"has {len(scored.rows)} rows, but report.json says {rows}"
        raise UserError(f"{scored.rows.source} {message}: {advice}")
    again = math.nan if scored.rows.labels is None else scored.value()
    reported = result.score if split == "dev" else None
    if reported is not None and math.isfinite(again) and abs(reported - again) > TOLERANCE:
        raise UserError(
            f"{scored.rows.source} gives {scored.metric} {again:.3f}, but report.json says "
            f"{reported:.3f}: they are of different data or weights; {advice}"
        )
    return scored


def check_same_rows(task: str, first: ScoredRows, other: ScoredRows, split: str = "dev") -> None:
    """Raise UserError unless both runs were scored on the same rows by the same metric.

    Rows match if their ids and labels are equal. Without labels, or if labels number the texts,
    the texts must be equal instead.
    """
    pair = f"{task}: {first.run} and {other.run} cannot be compared"
    kinds = [(run.task_type, run.scores.shape[1], run.metric) for run in (first, other)]
    if kinds[0] != kinds[1]:
        words = [f"{run.metric} of {run.task_type.name} labels" for run in (first, other)]
        words = words if words[0] != words[1] else [f"{kind[1]} classes" for kind in kinds]
        raise UserError(f"{pair}: {words[0]} against {words[1]}; leave one of them out")
    advice = f"score both on the same {split} file"
    rows, other_rows = first.rows, other.rows
    if len(rows) != len(other_rows):
        sizes = f"{len(rows):,} against {len(other_rows):,}"
        raise UserError(f"{pair}: other {split} rows ({sizes}); {advice}")
    if rows.labels is None or other_rows.labels is None or first.task_type.compares_rows:
        content: tuple[str, Sequence[Any], Sequence[Any]] = ("text", rows.texts, other_rows.texts)
    else:
        content = ("label", first.labels, other.labels)
    for what, left, right in (("id", rows.ids, other_rows.ids), content):
        for row, (a, b) in enumerate(zip(left, right, strict=True), 1):
            if a != b:
                raise UserError(f"{pair}: {split} row {row} has another {what}; {advice}")


def resampled_metric(task: str, runs: Sequence[ScoredRows], resamples: int) -> Array:
    """Compute the metric of every run on the same resamples of the rows: float [R, runs].

    The draws depend only on the task's name and its number of rows.
    """
    seed = zlib.crc32(task.encode())
    parts = [
        np.stack([run.values(rows) for run in runs], axis=1)
        for rows in resampled_rows(len(runs[0].rows), resamples, seed)
    ]
    return np.concatenate(parts)
