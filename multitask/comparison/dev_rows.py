"""The saved dev predictions of runs: read, checked against each other, and resampled together."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.errors import UserError
from multitask.metrics import Array, resampled_rows, resampled_values
from multitask.plots import load_lines

# Scores are saved with six digits and may be written again on another device: the predictions
# still belong to the report if they score as near as this.
TOLERANCE = 0.005


@dataclass
class DevRows:
    """One run's dev set of a task, N rows in file order, in the arrays of `multitask.metrics`."""

    run: Path
    ids: list[str]
    label_type: str
    num_classes: int | None
    metric: str
    labels: Array
    predictions: Array
    scores: Array

    def values(self, rows: Array) -> Array:
        """The task's metric on each set of rows: int [R, M] to [R]."""
        columns = (self.labels, self.predictions, self.scores, self.num_classes)
        return resampled_values(self.label_type, *columns, rows, [self.metric])[self.metric]


def load_dev(run: Path, task: str, result: dict[str, Any]) -> DevRows:
    """The rows of ``predictions/TASK.dev.jsonl``; ``result`` is the task's entry of report.json.

    Raises UserError: no such file, a damaged one, or one that does not give the reported score.
    """
    file = run / "predictions" / f"{task}.dev.jsonl"
    advice = f"write it again with: predict {run}"
    if not file.is_file():
        raise UserError(f"{file} does not exist: {advice}")
    label_type = result["label_type"]
    kind = np.float64 if label_type == "number" else np.int64
    try:
        records = load_lines(file)
        scores = np.array([record["scores"] for record in records], dtype=float)
        # Saved numbers are clipped to the label range, reported metrics are not.
        predictions = (
            scores[:, 0]
            if label_type == "number"
            else np.array([record["prediction"] for record in records], dtype=kind)
        )
        rows = DevRows(
            run=run,
            ids=[str(record["id"]) for record in records],
            label_type=label_type,
            num_classes=len(result["classes"]) if label_type == "class" else None,
            metric=result["metric"],
            labels=np.array([record["label"] for record in records], dtype=kind),
            predictions=predictions,
            scores=scores,
        )
        again = float(rows.values(np.arange(len(records))[None])[0])
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"{file}: damaged or incomplete: {advice}") from error
    reported = result["dev"][result["metric"]]
    if reported is not None and math.isfinite(again) and abs(reported - again) > TOLERANCE:
        raise UserError(
            f"{file} gives {rows.metric} {again:.3f}, but report.json says {reported:.3f}: they "
            f"are of different data or weights; {advice}"
        )
    return rows


def check_same_rows(task: str, first: DevRows, other: DevRows) -> None:
    """Raise UserError unless both runs were scored on the same rows by the same metric."""
    pair = f"{task}: {first.run} and {other.run} cannot be compared"
    kinds = [(rows.label_type, rows.num_classes, rows.metric) for rows in (first, other)]
    if kinds[0] != kinds[1]:
        words = [f"{rows.metric} of {rows.label_type} labels" for rows in (first, other)]
        words = words if words[0] != words[1] else [f"{kind[1]} classes" for kind in kinds]
        raise UserError(f"{pair}: {words[0]} against {words[1]}; leave one of them out")
    advice = "score both on the same dev file"
    if len(first.ids) != len(other.ids):
        sizes = f"{len(first.ids):,} against {len(other.ids):,}"
        raise UserError(f"{pair}: other dev rows ({sizes}); {advice}")
    for what, differ in (
        ("id", [a != b for a, b in zip(first.ids, other.ids, strict=True)]),
        ("label", (first.labels != other.labels).tolist()),
    ):
        if any(differ):
            raise UserError(
                f"{pair}: dev row {differ.index(True) + 1} has another {what}; {advice}"
            )


def resampled_metric(task: str, runs: Sequence[DevRows], resamples: int) -> Array:
    """The metric of every run on the same resamples of the rows: float [R, runs].

    The draws depend on the task's name and number of rows only.
    """
    seed = zlib.crc32(task.encode())
    parts = [
        np.stack([run.values(rows) for run in runs], axis=1)
        for rows in resampled_rows(len(runs[0].ids), resamples, seed)
    ]
    return np.concatenate(parts)
