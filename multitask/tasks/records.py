"""Predictions as JSON values: one record per row, the same wherever predictions are shown.

A record has ``label`` (None without), ``prediction`` and ``scores``; ``name`` or ``names`` where
classes have names; ``measured`` where metrics are measured per row; and what its type adds.
Prediction files, the Python interface and the page of `serve` each show a part of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Array, Columns
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

NAMES = ("name", "names")
FROM_LABELS = ("label", "measured")


def file_records(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> Iterator[dict[str, Any]]:
    """The lines of a prediction file: with ids and texts, scores with six digits, no names."""
    records = reader.task_type.records(rows, reader, predictions, scores)
    for name, texts, record in zip(rows.ids, rows.texts, records, strict=True):
        record["scores"] = [one if one is None else round(one, 6) for one in record["scores"]]
        shown = {key: value for key, value in record.items() if key not in NAMES}
        yield {"id": name, "texts": texts, **shown}


def predicted_records(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> list[dict[str, Any]]:
    """What is predicted, without what needs labels: for the Python interface."""
    records = reader.task_type.records(rows, reader, predictions, scores)
    return [{k: v for k, v in record.items() if k not in FROM_LABELS} for record in records]


def measured_columns(records: Iterable[Mapping[str, Any]]) -> Columns:
    """What is measured of labelled rows, float [N, K], as scores; it stands in for the others."""
    measured = np.array([list(record["measured"].values()) for record in records], dtype=float)
    return measured[:, 0], measured[:, 0], measured


def read_measured(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Columns:
    """The same from saved records."""
    return measured_columns(
        {"measured": {name: record["measured"][name] for name in names}} for record in records
    )


def shares(
    reader: LabelReader, probabilities: Sequence[float], chosen: Sequence[int]
) -> list[tuple[str, float, bool]]:
    """(name, probability, chosen) of each class."""
    pairs = enumerate(zip(reader.names, probabilities, strict=True))
    return [(name, probability, number in chosen) for number, (name, probability) in pairs]
