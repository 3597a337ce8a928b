"""The scores on the STS suites as a seven-column table, in text and Markdown."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from multitask.reporting.html_page import fill
from multitask.reporting.sts_json import StsReport, StsScores, SubsetScores, SuiteEntry
from multitask.reporting.table_formats import Table, number
from multitask.tasks.sts_names import NAMES

SPACE = {
    "alignment": "alignment (lower is better)",
    "uniformity": "uniformity (lower is better)",
    "mean_cosine": "mean cosine of any two sentences",
}
SUBSETS_HEADER = ("suite", "subset", "pairs", "Spearman", "Pearson", "seen in training")
Entries = Mapping[str, SuiteEntry]
Which = Literal["spearman", "pearson"]


def terminal_table(report: StsReport) -> str:
    """Write the seven-column table for the terminal."""
    return _table(report["suites"]).text()


def markdown_page(report: StsReport) -> str:
    """Write sts.md (the table, the subsets and how to read them) from the content of sts.json."""
    tables = {"table": _table(report["suites"]), "subsets": _subsets(report["suites"])}
    return fill("sts.md.j2", report=report, notes=notes(report), **tables) + "\n"


def notes(report: StsReport) -> list[str]:
    """List what a reader must know about the numbers, as plain lines."""
    entries: Entries = report["suites"]
    lines = []
    missing = [name for name in NAMES if name not in entries]
    if missing:
        lines.append(f"no Avg: {', '.join(missing)} not found")
    if any(entry["clean"] for entry in entries.values()):
        lines.append(
            "pairs from the run's training data are left out of every row except the one that says "
            "so"
        )
    lines += [
        f"{name}: {entry['selecting']:,} of {entry['pairs']:,} pairs selected the run's weights"
        for name, entry in entries.items()
        if entry["selecting"]
    ]
    if all(entry["in_training"] is None for entry in entries.values()):
        lines.append("an encoder without a run: its training data is unknown here")
    if "STS-B" in entries:
        file, pairs = next(iter(entries["STS-B"]["files"].values())), entries["STS-B"]["pairs"]
        if pairs != 1379:
            lines.append(f"STS-B is {file}, {pairs:,} pairs: not the benchmark's test split")
    return lines


def _table(entries: Entries) -> Table:
    """Build the seven-column table; correlations are multiplied by 100."""

    def row(title: str, show: Callable[[SuiteEntry], str], last: str = "") -> list[str]:
        return [title, *(show(entries[name]) if name in entries else "-" for name in NAMES), last]

    def correlation(
        which: Which, how: Literal["all", "mean", "wmean"]
    ) -> Callable[[SuiteEntry], str]:
        return lambda entry: percent(headline(entry)[how][which])

    def space(name: str) -> Callable[[SuiteEntry], str]:
        return lambda entry: number(entry["space"][name], "z.3f")

    rows = [
        row("Spearman, all", correlation("spearman", "all"), percent(average(entries))),
        row("Pearson, all", correlation("pearson", "all"), percent(average(entries, "pearson"))),
        row("Spearman, mean", correlation("spearman", "mean")),
        row("Spearman, wmean", correlation("spearman", "wmean")),
        row("pairs", lambda entry: f"{headline(entry)['pairs']:,}"),
    ]
    if any(entry["in_training"] is not None for entry in entries.values()):
        rows.append(row("pairs seen in training", lambda entry: f"{entry['in_training']:,}"))
    if any(entry["clean"] for entry in entries.values()):
        title = "Spearman, all, seen pairs included"
        rows.append(row(title, lambda entry: percent(entry["scores"]["all"]["spearman"])))
    rows += [row(title, space(name)) for name, title in SPACE.items()]
    return Table(["", *NAMES, "Avg"], rows)


def _subsets(entries: Entries) -> Table:
    rows = []
    for suite, entry in entries.items():
        for subset, every in entry["scores"]["subsets"].items():
            nothing: SubsetScores = {"pairs": 0, "spearman": math.nan, "pearson": math.nan}
            counted = headline(entry)["subsets"].get(subset, nothing)
            scores = [percent(counted["spearman"]), percent(counted["pearson"])]
            seen = None if entry["in_training"] is None else every["pairs"] - counted["pairs"]
            rows.append([suite, subset, f"{counted['pairs']:,}", *scores, number(seen, ",")])
    return Table(SUBSETS_HEADER, rows)


def percent(value: float | None) -> str:
    """Format a correlation times 100; ``-`` for None and NaN."""
    return number(None if value is None else 100 * value, ".2f")


def headline(entry: SuiteEntry) -> StsScores:
    """Return the scores without the pairs that the run was trained on."""
    return entry["clean"] or entry["scores"]


def average(entries: Entries, which: Which = "spearman") -> float | None:
    """Return the table's Avg, the mean over the seven suites; None if a suite is missing."""
    if set(entries) < set(NAMES):
        return None
    return float(np.mean([headline(entry)["all"][which] for entry in entries.values()]))
