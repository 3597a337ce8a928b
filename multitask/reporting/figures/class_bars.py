"""The figure of several classes per row: how frequent each class is, and how well it is found."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multitask.config.registry import task_type
from multitask.reporting.figures import style
from multitask.store.saved import TaskReport

MEASURES = {"share of rows": style.DARK, "F1": style.BLUE, "MCC": style.ORANGE}


def class_bars(
    task: str, result: TaskReport, predictions: Sequence[Mapping[str, Any]]
) -> "style.Figure":
    """Draw three bars per class: its share of the dev rows, its F1 and Matthews' coefficient.

    The most frequent class is on top. A class that no row has, or that no prediction names, has an
    F1 and a coefficient of 0.
    """
    values = by_class(result, predictions)
    names = list(result.classes or ())
    order = np.argsort(values[:, 0], kind="stable")
    title = f"{style.label(task)}: {len(predictions):,} dev rows"
    figure, (axes,) = style.panels([title], (6.2, 1.2 + 0.42 * len(names)))
    places = np.arange(len(names))
    for number, (measure, color) in enumerate(MEASURES.items()):
        offset = 0.27 * (1 - number)
        axes.barh(places + offset, values[order, number], 0.25, color=color, label=measure)
    axes.set_yticks(places, style.labels([names[i] for i in order]))
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_xlim(min(0.0, values.min()) - 0.02, 1.02)
    style.legend_below(figure)
    return figure


def by_class(result: TaskReport, predictions: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return each class's share of the labelled rows, its F1 and its MCC: float [C, 3]."""
    kind = task_type(result.label_type)
    labelled = [record for record in predictions if record["label"] is not None]
    gold, predicted, scores = kind.read_records(labelled)
    rows = np.arange(len(gold))[None]
    values = []
    for one, other, score in zip(gold.T, predicted.T, scores.T, strict=True):
        columns = (one[:, None], other[:, None], score[:, None])
        measured = kind.values(columns, rows, ["f1", "mcc"])
        values.append([one.mean(), measured["f1"][0], measured["mcc"][0]])
    return np.array(values)
