"""Write docs/results.md's tables from the reports in docs/results/: RUN-SEED.json.

    python docs/make_results.py               # rewrite the page
    python docs/make_results.py RUN_DIR ...   # first copy the reports of runs called NAME-SEED

Nothing is typed by hand: tests/test_results.py checks that the page equals what this prints.
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "results.md"
REPORTS = Path(__file__).parent / "results"
COLUMNS = [
    ("sst", "accuracy"),
    ("qqp", "accuracy"),
    ("qqp", "f1"),
    ("sts", "pearson"),
    ("sts", "spearman"),
]
BEGIN, END = "<!-- tables: python docs/make_results.py -->\n", "<!-- end of tables -->\n"


def load_reports() -> dict[str, list[dict[str, Any]]]:
    """Reports by run name, seeds in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(REPORTS.glob("*.json")):
        report = json.loads(file.read_text())
        found.setdefault(file.stem.rpartition("-")[0], []).append(report)
    return found


def spread(values: list[float]) -> str:
    """Mean and standard deviation over seeds, as they are printed."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def row(name: str, reports: list[dict[str, Any]], part: str | None = None) -> list[str]:
    """One line of the table: a run's dev scores, or those of one of its baselines."""
    cells = []
    for task, metric in COLUMNS:
        entries = [report["tasks"][task] for report in reports if task in report["tasks"]]
        scores = [entry["baselines"][part] if part else entry["dev"] for entry in entries]
        found = [score[metric] for score in scores if score]
        values = [math.nan if value is None else value for value in found]
        undefined = all(map(math.isnan, values))  # a constant prediction has no correlation
        cells.append("-" if undefined else spread(values))
    whole = [report["overall"]["mean"] for report in reports if len(report["tasks"]) == 3]
    cells.append(spread(whole) if whole and part is None else "-")
    return [name, ", ".join(str(report["seed"]) for report in reports), *cells]


def tables() -> str:
    """The generated part of the page."""
    reports = load_reports()
    lines = [
        "| run | seeds | SST-5 acc. | QQP acc. | QQP F1 | STS Pearson | STS Spearman | mean |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, runs in reports.items():
        lines.append("| " + " | ".join(row(name, runs)) + " |")
    for name in ("siamese", "cross"):
        if name in reports:
            for part, words in (("frozen", "heads on the frozen encoder"), ("trivial", "trivial")):
                label = f"{name}: {words}"
                lines.append("| " + " | ".join(row(label, reports[name], part)) + " |")
    lines += ["", "| run | seed | command | commit | selected step | minutes | flags |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, runs in reports.items():
        for report in runs:
            command = re.sub(r"data_dir=\S+", "data_dir=DIR", report["command"])
            steps = sorted({entry["selected_step"] for entry in report["tasks"].values()})
            flags = [f"{t}: {flag}" for t, e in report["tasks"].items() for flag in e["flags"]]
            chosen = ", ".join(map(str, steps))
            cells = [
                name,
                str(report["seed"]),
                f"`{command}`",
                str(report["git_revision"]),
                f"{chosen} of {report['steps']['planned']}",
                f"{report['wall_time_s'] / 60:.0f}",
                "; ".join(flags) or "none",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def renewed(page: str) -> str:
    """The page with its generated part renewed."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + tables() + END + rest.partition(END)[2]


def main(arguments: list[str]) -> None:
    for run in map(Path, arguments):
        report = json.loads((run / "report.json").read_text())
        (REPORTS / f"{run.name}.json").write_text(json.dumps(report, indent=1) + "\n")
    PAGE.write_text(renewed(PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
