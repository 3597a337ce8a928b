"""The wrong dev predictions of a finished run, the worst first."""

from typing import Any

from multitask.reporting.page import Text
from multitask.reporting.tables import Table, score

MISTAKES = 20
TEXT_WIDTH = 200


def _confidence(label_type: str, record: dict[str, Any]) -> float | None:
    """How wrong a wrong prediction is: its probability, or the distance between two numbers."""
    if label_type == "number":
        return abs(float(record["prediction"]) - float(record["label"]))
    scores = record["scores"]
    if label_type == "tags":
        known = [scores[i] for i in _wrong_words(record) if scores[i] is not None]
        return max(known, default=None)
    if label_type == "labels":
        wrong = set(record["label"]) ^ set(record["prediction"])
        known = [scores[i] for i in wrong if scores[i] is not None]
        return max((max(one, 1 - one) for one in known), default=None)
    if label_type == "span":
        return None if scores[0] is None else float(scores[0])
    if label_type == "class":
        probability: float | None = scores[record["prediction"]]
        return probability
    return None if scores[0] is None else max(scores[0], 1 - scores[0])


def _wrong_words(record: dict[str, Any]) -> list[int]:
    """Which words of a record have another tag than the gold one."""
    pairs = zip(record["label"], record["prediction"], strict=True)
    return [i for i, (gold, predicted) in enumerate(pairs) if gold != predicted]


def _is_wrong(label_type: str, record: dict[str, Any]) -> bool:
    if label_type == "span":
        return not record["measured"]["exact_match"]
    return bool(record["label"] != record["prediction"])


def _shown(result: dict[str, Any], record: dict[str, Any], key: str) -> str:
    """The ``label`` or the ``prediction`` of a record; of tagged words the wrong ones alone."""
    label_type, classes, value = result["label_type"], result["classes"], record[key]
    if label_type == "number":
        return f"{value:.2f}"
    if label_type == "tags":
        return ", ".join(f"{record['words'][i]}: {value[i]}" for i in _wrong_words(record))
    if label_type == "labels":
        return ", ".join(classes[number] for number in value) or "-"
    if label_type == "span":
        return value if isinstance(value, str) else " | ".join(value)
    return str(classes[int(value)]) if classes else str(value)


def mistakes(result: dict[str, Any], records: list[dict[str, Any]]) -> Table | Text:
    """Table of the wrong dev predictions that are worst by _confidence, the worst first."""
    label_type = result["label_type"]
    wrong = [
        (_confidence(label_type, record), record)
        for record in records
        if None not in (record["label"], record["prediction"]) and _is_wrong(label_type, record)
    ]
    if not wrong:
        return Text("None.")
    # An undefined confidence (a diverged model) comes last.
    wrong.sort(key=lambda pair: -1.0 if pair[0] is None else pair[0], reverse=True)

    texts = ("text",) if len(wrong[0][1]["texts"]) == 1 else ("first text", "second text")
    measure = "error" if label_type == "number" else "confidence"
    rows = [
        (
            record["id"],
            *map(_shortened, record["texts"]),
            *(_shortened(_shown(result, record, key)) for key in ("label", "prediction")),
            score(confidence),
        )
        for confidence, record in wrong[:MISTAKES]
    ]
    return Table(("id", *texts, "gold", "predicted", measure), rows)


def _shortened(text: str) -> str:
    """The text on one line, cut to TEXT_WIDTH characters."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"
