"""Stands in for `multitask.reporting` where a checkout does not have it (yet)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Group:
    name: str
    runs: list[Path]
    point: dict[str, str]


def compare(
    groups: list[Group], baseline: str, *, axes: Sequence[dict[str, Any]], margin: float | None
) -> dict[str, Any]:
    result = [
        {
            "name": group.name,
            "runs": [str(run) for run in group.runs],
            "point": group.point,
            "seeds": [json.loads((run / "report.json").read_text())["seed"] for run in group.runs],
        }
        for group in groups
    ]
    return {
        "format": 2,
        "baseline": baseline,
        "axes": axes,
        "margin": margin,
        "rows": result,
        "notes": [],
    }


def write_sheet(directory: Path, comparison: dict[str, Any]) -> list[Path]:
    texts = {
        "comparison.json": json.dumps(comparison),
        "table.md": "\n".join(
            [*(group["name"] for group in comparison["rows"]), *comparison["notes"]]
        ),
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [directory / name for name in texts]


def terminal_page(comparison: dict[str, Any]) -> str:
    return "\n".join(comparison["notes"])


# what figures and pages import of `compare`, and no sweep calls
heatmaps = long_axes = axis_labels = load_reports = None
