"""Predictions as JSON values: one record per row.

A record has these keys, and others that its task type adds:

- ``label`` (None for a row without a label), ``prediction`` and ``scores``
- ``name`` or ``names``, if the classes have names
- ``measured``, if metrics are computed from values per row

Prediction files, the Python interface and the page of `serve` each show a part of a record.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multitask.tasks.base import Answer, Array, Record
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

NAMES = ("name", "names")


def file_records(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> Iterator[dict[str, object]]:
    """Yield the lines of a prediction file: with ids and texts, without class names.

    Scores have nine digits, all that fp32 has: with fewer, near cosines would rank as ties, and the
    file would not give the reported correlation.
    """
    records = reader.task_type.records(rows, reader, predictions, scores)
    for name, texts, record in zip(rows.ids, rows.texts, records, strict=True):
        record["scores"] = [
            score if score is None else float(f"{score:.9g}") for score in record["scores"]
        ]
        shown = {key: value for key, value in record.items() if key not in NAMES}
        yield {"id": name, "texts": texts, **shown}


def predicted_records(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> list[Record]:
    """Return the records for the Python interface: without the keys that need labels."""
    records = [*reader.task_type.records(rows, reader, predictions, scores)]
    for record in records:
        record.pop("label", None)
        record.pop("measured", None)
    return records


def with_both_scores(records: list[Record]) -> list[Record]:
    """Return records of two classes with both probabilities in place of that of the second."""
    both: list[Record] = []
    for record in records:
        (second,) = record["scores"]
        first = None if second is None else 1 - second
        both.append({**record, "scores": [first, second]})
    return both


def shares(
    reader: LabelReader, probabilities: Sequence[float], chosen: Sequence[int]
) -> list[tuple[str, float, bool]]:
    """Return (name, probability, chosen) of each class."""
    pairs = enumerate(zip(reader.names, probabilities, strict=True))
    return [(name, probability, number in chosen) for number, (name, probability) in pairs]


def class_answer(record: Mapping[str, Any], reader: LabelReader) -> Answer:
    """Return the prediction of one class per row for the page of `serve`."""
    shown = shares(reader, record["scores"], [record["prediction"]])
    return {"prediction": record["name"], "shares": shown}
