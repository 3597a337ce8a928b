"""Read saved predictions of runs, check that their rows match, and resample them together."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.registry import task_type
from multitask.config.run_directory import RunDirectory
from multitask.config.saved.report_model import TaskReport
from multitask.tasks.base import Array, Columns, TaskType
from multitask.tasks.bootstrap import resampled_rows
from multitask.tasks.metrics import resampled_values
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

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
