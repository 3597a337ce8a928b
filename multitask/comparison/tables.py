"""A comparison as text, Markdown, CSV and LaTeX; nothing is computed here."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from multitask.tables import (
    Cells,
    latex,
    latex_table,
    markdown,
    markdown_table,
    score,
    signed,
    text_table,
)


@dataclass(frozen=True)
class _Style:
    """How one format writes a plain cell, the best cell of a column, and a table."""

    plain: Callable[[str], str]
    best: Callable[[str], str]
    table: Callable[[Cells, Sequence[Cells]], str]


_TEXT = _Style(str, lambda cell: f"{cell} *", text_table)
_MARKDOWN = _Style(markdown, lambda cell: f"**{cell}**", markdown_table)
_LATEX = _Style(latex, lambda cell: rf"\textbf{{{cell}}}", latex_table)


def text_page(comparison: dict[str, Any]) -> str:
    """The tables for the terminal; the best score of each column is marked with ``*``."""
    parts = [
        part
        for title, table in _tables(comparison, _TEXT)
        for part in ([f"{title}:", table] if title else [table])
    ]
    return "\n\n".join([*parts, "\n".join(_explanations(comparison))])


def markdown_page(comparison: dict[str, Any]) -> str:
    """table.md: the tables, with what was done and what to beware of below them."""
    parts = ["# Comparison"]
    for title, table in _tables(comparison, _MARKDOWN):
        parts += [f"## {markdown(title or 'Dev scores')}", table]
    notes = "\n".join(f"- {markdown(line)}" for line in _explanations(comparison))
    return "\n\n".join([*parts, "## How to read this", notes]) + "\n"


def latex_page(comparison: dict[str, Any]) -> str:
    """table.tex: one float with the tables above each other (needs the package booktabs)."""
    parts = ["% \\usepackage{booktabs}", r"\begin{table*}[t]", r"\centering", r"\small"]
    for title, table in _tables(comparison, _LATEX):
        parts += [rf"\par\medskip {latex(title)}\par\smallskip" if title else "", table]
    caption = " ".join(latex(line) for line in _explanations(comparison))
    lines = [*parts, rf"\caption{{{caption}}}", r"\end{table*}"]
    return "\n".join(line for line in lines if line) + "\n"


def csv_text(comparison: dict[str, Any]) -> str:
    """table.csv: a line for each group, full precision, nothing where there is no number.

    Columns: group, seeds (how many), then mean, sd, diff, low, high and p of each task and
    overall; low and high bound the difference to the baseline, p is Holm's.
    """
    columns = [*comparison["tasks"], "overall"]
    parts = ("mean", "sd", "diff", "low", "high", "p")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", "seeds", *(f"{name}_{part}" for name in columns for part in parts)])
    for group in comparison["groups"]:
        line = [group["name"], len(group["seeds"])]
        for entry in _entries(comparison, group):
            entry = entry or {}
            difference = entry.get("difference") or {}
            line += [entry.get("mean"), entry.get("sd")]
            line += [difference.get(key) for key in ("value", "low", "high", "p_holm")]
        writer.writerow(line)
    return text.getvalue()


def _entries(comparison: dict[str, Any], group: dict[str, Any]) -> list[dict[str, Any] | None]:
    """A group's entry in each column: the tasks, then overall."""
    return [*(group["tasks"].get(task) for task in comparison["tasks"]), group["overall"]]


def _tables(comparison: dict[str, Any], style: _Style) -> Iterator[tuple[str, str]]:
    """Title and text of each table that the comparison has something for."""
    columns = [f"{task} {kind['metric']}" for task, kind in comparison["tasks"].items()]
    groups = comparison["groups"]
    header = [style.plain(name) for name in ("group", "seeds", *columns, "mean")]
    rows = []
    for group in groups:
        cells = [_score_cell(entry, style) for entry in _entries(comparison, group)]
        rows.append([style.plain(group["name"]), str(len(group["seeds"])), *cells])
    yield "", style.table(header, rows)

    rows = []
    for group in groups:
        differences = [(entry or {}).get("difference") for entry in _entries(comparison, group)]
        if any(differences):
            cells = [style.plain(_difference_cell(each)) for each in differences]
            rows.append([style.plain(group["name"]), *cells])
    if rows:
        title = f"Difference to {comparison['baseline']}, its 95 % interval, Holm's p"
        yield title, style.table([header[0], *header[2:]], rows)

    found = comparison["transfer"]
    if found:
        yield _gains(comparison, style)
    if found and found["matrix"]:
        yield _matrix(comparison, style)


def _score_cell(entry: dict[str, Any] | None, style: _Style) -> str:
    if entry is None or entry["mean"] is None:
        return "-"
    cell = style.plain(f"{score(entry['mean'])} ± {score(entry['sd'])}")
    return style.best(cell) if entry["best"] else cell


def _difference_cell(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return "-"
    low, high = signed(difference["low"]), signed(difference["high"])
    p = difference["p_holm"]
    shown = "p<0.001" if p is not None and p < 0.0005 else f"p {score(p)}"
    return f"{signed(difference['value'])} [{low}, {high}] {shown}"


def _gains(comparison: dict[str, Any], style: _Style) -> tuple[str, str]:
    """Relative gains over the single-task groups, in percent."""
    tasks = [*comparison["tasks"]]
    header = [style.plain(name) for name in ("group", *tasks, "Δm")]
    rows = []
    for name, gain in comparison["transfer"]["gains"].items():
        values = [*(gain["tasks"].get(task) for task in tasks), gain["delta_m"]]
        cells = [style.plain(signed(value, digits=1)) for value in values]
        rows.append([style.plain(name), *cells])
    return "Relative gain over single-task training in %, and its mean Δm", style.table(
        header, rows
    )


def _matrix(comparison: dict[str, Any], style: _Style) -> tuple[str, str]:
    """What adding one task changes of another's score."""
    matrix = comparison["transfer"]["matrix"]
    tasks = [task for task in comparison["tasks"] if task in matrix]
    header = [style.plain(name) for name in ("added task", *tasks)]
    rows = []
    for added in tasks:
        changes = [matrix[added].get(task, {}).get("change") for task in tasks]
        rows.append([style.plain(added), *(style.plain(signed(change)) for change in changes)])
    return "Adding the task of a row to the training of a column's changes its score by", (
        style.table(header, rows)
    )


def _explanations(comparison: dict[str, Any]) -> list[str]:
    """What the numbers are, how they were made, their limits, and the runs' own notes."""
    groups, singles = comparison["groups"], comparison["transfer"].get("singles")
    most = max(len(group["seeds"]) for group in groups)
    lines = [
        f"Dev scores: mean ± standard deviation over seeds{' (one seed: -)' if most == 1 else ''}. "
        "The best mean of a column is marked; that alone does not make it better than the next."
        if len(groups) > 1
        else "Dev scores: mean ± standard deviation over seeds."
    ]
    if any(entry and entry["difference"] for g in groups for entry in _entries(comparison, g)):
        lines += [
            f"Differences to {comparison['baseline']}: paired bootstrap over dev rows and seeds, "
            f"{comparison['resamples']:,} resamples, 95 % percentile interval; p is two-sided, "
            "after Holm's correction over the groups of the column.",
            "Few seeds are a coarse measure: the true standard deviation may be half or six times "
            "that of three seeds. With several seeds the test is careful, but where they differ "
            "several times more than the rows' noise, its intervals are too narrow and p too small."
            if most > 1
            else "With one seed, intervals and p know the noise of the rows only: another seed "
            "may change a score by more.",
        ]
        single = [group["name"] for group in groups if len(group["seeds"]) == 1]
        if most > 1 and single:
            lines.append(f"One seed only, so nothing is known of its spread: {', '.join(single)}.")
    if singles:
        alone = ", ".join(f"{name} ({task})" for task, name in singles.items())
        lines.append(
            "Δm: mean over tasks of (M - B) / B in percent, B being the task trained alone "
            f"(Maninis et al. 2019); alone: {alone}. No interval is given for it."
        )
    return [*lines, *comparison["notes"]]
