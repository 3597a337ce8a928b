"""The scores on the STS suites: their keys, a table, and the layers of other encoders.

docs/sts.md describes the keys. An undefined score is NaN, and null in the files.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from pydantic import Field

from multitask.reporting.table_formats import Table, number
from multitask.store.saved import Saved, Score, read_saved
from multitask.tasks.sts_names import NAMES
from multitask.utils.errors import UserError, no_file

POOLINGS = ("cls", "mean", "max")  # whose vectors are scored at each layer
FIRST_LAST = "first-last mean"  # a pooling with one score per encoder


class Correlations(TypedDict):
    spearman: float
    pearson: float
    pairs: NotRequired[int]  # of a subset


class StsScores(TypedDict):
    """Correlations over all pairs of a suite, two averages over its subsets, and each subset."""

    pairs: int
    all: Correlations
    mean: Correlations
    wmean: Correlations
    subsets: dict[str, Correlations]


class SuiteEntry(TypedDict):
    """Counts and scores of a suite; ``clean`` without the pairs in the run's training rows."""

    pairs: int
    without_score: int
    in_training: int | None
    files: dict[str, str]
    scores: StsScores
    clean: StsScores | None
    selecting: NotRequired[int]  # pairs that selected the weights
    space: NotRequired[dict[str, float]]  # of the vectors


class VectorFacts(TypedDict):
    """The vectors and the command that made them."""

    format: int
    of: str
    source: str
    task: str | None
    pooling: str
    max_length: int
    command: str
    git_revision: str | None


class StsReport(VectorFacts):
    average: dict[str, float | None]  # None without all suites
    suites: dict[str, SuiteEntry]


# Spearman of each layer [L + 1] by pooling, and one number for the first and last layer's mean
LayerScores = Mapping[str, list[Score] | Score]


class SuiteLayers(TypedDict):
    all: LayerScores
    subsets: dict[str, LayerScores]


class SavedCurves(Saved):
    """The scores that ``layers.png`` draws of a suite, as read from a file."""

    cls: list[Score]
    mean: list[Score]
    max: list[Score]
    first_last: Score = Field(alias="first-last mean")


class SavedSuite(Saved):
    all: SavedCurves
    subsets: dict[str, object]


class SavedLayers(Saved):
    """A ``layers.json``: the name of the weights, and their scores by suite."""

    of: str
    suites: dict[str, SavedSuite]


Suites = Mapping[str, Collection[str]]  # the subsets of each suite that is scored now


def read_layers(files: Sequence[Path], suites: Suites) -> dict[str, Any]:
    """Read the scores of layers by the name of the encoder, then by suite, as in ``layers.json``.

    Raises UserError for a file that is missing or damaged, that has no suite of ``suites`` or
    another version of one, or whose encoder is that of another file.
    """
    layers: dict[str, Any] = {}
    advice = "give a layers.json that `sts --layers` wrote"
    for file in files:
        if not file.is_file():
            raise UserError(f"--with: {no_file(file)}: {advice}")
        saved = read_saved(file, SavedLayers, advice)
        if saved.of in layers:
            message = f"--with: {file} is of {saved.of!r}, as another file is: leave one out"
            raise UserError(f"{message}, or change the `of` of one")
        if not set(saved.suites) & set(suites):
            message = f"--with: {file} has no scores of {', '.join(suites)}"
            raise UserError(f"{message}, which are scored now: leave it out")
        for name in set(saved.suites) & set(suites):
            if set(saved.suites[name].subsets) != set(suites[name]):
                theirs, ours = map(", ".join, (saved.suites[name].subsets, suites[name]))
                message = f"--with: {file}: its {name} is of {theirs}, not of {ours}"
                raise UserError(f"{message}: score both encoders with the same --data and --stsb")
        layers[saved.of] = saved.model_dump(by_alias=True)["suites"]
    return layers


def missing_notes(suites: Suites, others: Mapping[str, Any]) -> Iterator[str]:
    """Say which curves of other encoders are not in the figure, or not in all its panels."""
    for name, layers in others.items():
        if absent := [suite for suite in suites if suite not in layers]:
            yield f"--with: {name} has no scores of {', '.join(absent)}"
        if more := [suite for suite in layers if suite not in suites]:
            yield f"--with: {', '.join(more)} of {name}: not drawn, as not scored now"


SPACE = {
    "alignment": "alignment (lower is better)",
    "uniformity": "uniformity (lower is better)",
    "mean_cosine": "mean cosine of any two sentences",
}
HOW = (
    "Cosine of two sentence vectors against the gold score, correlations x 100. `all` is one "
    "correlation over all pairs of a suite, `mean` and `wmean` are averages over its subsets, "
    "plain and by number of pairs."
)
Entries = Mapping[str, SuiteEntry]
How = Literal["all", "mean", "wmean"]
Which = Literal["spearman", "pearson"]


def tables(entries: Entries) -> dict[str, Table]:
    """Return the tables of sts.md by title."""
    return {"Suites": suites_table(entries), "Subsets": subsets_table(entries)}


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


def suites_table(entries: Entries) -> Table:
    """Build the seven-column table; correlations are multiplied by 100."""

    def row(title: str, show: Callable[[SuiteEntry], str], last: str = "") -> list[str]:
        return [title, *(show(entries[name]) if name in entries else "-" for name in NAMES), last]

    def scores(title: str, how: How, which: Which = "spearman") -> list[str]:
        last = percent(average(entries, which)) if how == "all" else ""
        return row(title, lambda of: percent(headline(of)[how][which]), last)

    rows = [
        scores("Spearman, all", "all"),
        scores("Pearson, all", "all", "pearson"),
        scores("Spearman, mean", "mean"),
        scores("Spearman, wmean", "wmean"),
        row("pairs", lambda of: f"{headline(of)['pairs']:,}"),
    ]
    if any(entry["in_training"] is not None for entry in entries.values()):
        rows.append(row("pairs seen in training", lambda of: f"{of['in_training']:,}"))
    if any(entry["clean"] for entry in entries.values()):
        title = "Spearman, all, seen pairs included"
        rows.append(row(title, lambda of: percent(of["scores"]["all"]["spearman"])))
    for key, title in SPACE.items():
        shown = {name: number(entry["space"][key], "z.3f") for name, entry in entries.items()}
        rows.append([title, *(shown.get(name, "-") for name in NAMES), ""])
    return Table(["", *NAMES, "Avg"], rows)


def subsets_table(entries: Entries) -> Table:
    """Build the table of each subset's correlations, multiplied by 100."""
    rows = []
    for suite, entry in entries.items():
        for subset, every in entry["scores"]["subsets"].items():
            nothing: Correlations = {"pairs": 0, "spearman": math.nan, "pearson": math.nan}
            counted = headline(entry)["subsets"].get(subset, nothing)
            scores = [percent(counted["spearman"]), percent(counted["pearson"])]
            seen = None if entry["in_training"] is None else every["pairs"] - counted["pairs"]
            rows.append([suite, subset, f"{counted['pairs']:,}", *scores, number(seen, ",")])
    header = ("suite", "subset", "pairs", "Spearman", "Pearson", "seen in training")
    return Table(header, rows)


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
