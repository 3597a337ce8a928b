"""A comparison as text, Markdown, CSV and LaTeX; nothing is computed here."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from multitask.reporting.page import Table
from multitask.reporting.tables import (
    Cells,
    latex,
    latex_table,
    markdown,
    markdown_table,
    score,
    signed,
    text_table,
)

HOLDOUT_TITLE = "Scores on the held-out rows of train: choose by these, report dev"
GAIN_TITLE = "Relative gain over single-task training in %, and its mean Δm"
TIME_TITLE = "Training time: an epoch's training steps alone, median over seeds"
MATRIX_TITLE = "Adding the task of a row to the training of a column's changes its score by"
TIMES = ("epoch_seconds", "epoch_seconds_ratio")  # the last columns of table.csv


@dataclass(frozen=True)
class Style:
    """How one format writes a plain cell, the best cell of a column, and a table."""

    plain: Callable[[str], str]
    best: Callable[[str], str]
    table: Callable[[Cells, Sequence[Cells]], str]


TEXT = Style(str, lambda cell: f"{cell} *", text_table)
MARKDOWN = Style(markdown, lambda cell: f"**{cell}**", markdown_table)
LATEX = Style(latex, lambda cell: rf"\textbf{{{cell}}}", latex_table)


def text_page(comparison: dict[str, Any]) -> str:
    """The tables for the terminal; the best score of each column is marked with ``*``."""
    parts = [
        part
        for title, table in _tables(comparison)
        for part in ([f"{title}:", written(table, TEXT)] if title else [written(table, TEXT)])
    ]
    return "\n\n".join([*parts, "\n".join(_all_notes(comparison))])


def markdown_page(comparison: dict[str, Any]) -> str:
    """table.md: the tables, with what was done and what to beware of below them."""
    parts = ["# Comparison"]
    for title, table in markdown_tables(comparison):
        parts += [f"## {title}", table]
    notes = "\n".join(f"- {markdown(line)}" for line in _all_notes(comparison))
    return "\n\n".join([*parts, "## How to read this", notes]) + "\n"


def markdown_tables(comparison: dict[str, Any]) -> list[tuple[str, str]]:
    """Title and Markdown of each table."""
    return [
        (markdown(title or "Dev scores"), written(table, MARKDOWN))
        for title, table in _tables(comparison)
    ]


def latex_page(comparison: dict[str, Any]) -> str:
    """table.tex: one float with the tables above each other (needs the package booktabs)."""
    parts = ["% \\usepackage{booktabs}", r"\begin{table*}[t]", r"\centering", r"\small"]
    for title, table in _tables(comparison):
        heading = rf"\par\medskip {latex(title)}\par\smallskip" if title else ""
        parts += [heading, written(table, LATEX)]
    caption = " ".join(latex(line) for line in _all_notes(comparison))
    lines = [*parts, rf"\caption{{{caption}}}", r"\end{table*}"]
    return "\n".join(line for line in lines if line) + "\n"


def csv_text(comparison: dict[str, Any]) -> str:
    """table.csv: a line for each group, full precision, nothing where there is no number.

    Columns: group, seeds (how many), then mean, sd, diff, low, high and p of each task and
    overall; low and high bound the difference to the baseline, p is Holm's. Then the seconds of
    an epoch and their ratio to the baseline's.
    """
    names = [*comparison["tasks"], "overall"]
    parts = ("mean", "sd", "diff", "low", "high", "p")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scores = [f"{name}_{part}" for name in names for part in parts]
    writer.writerow(["group", "seeds", *scores, *TIMES])
    for group in comparison["groups"]:
        line = [group["name"], len(group["seeds"])]
        for entry in entries(comparison, group):
            entry = entry or {}
            difference = entry.get("difference") or {}
            line += [entry.get("mean"), entry.get("sd")]
            line += [difference.get(key) for key in ("value", "low", "high", "p_holm")]
        line += [(group.get("training_time") or {}).get(key) for key in ("epoch_seconds", "ratio")]
        writer.writerow(line)
    return text.getvalue()


def entries(comparison: dict[str, Any], group: dict[str, Any]) -> list[dict[str, Any] | None]:
    """A group's entry in each column: the tasks, then overall."""
    return [*(group["tasks"].get(task) for task in comparison["tasks"]), group["overall"]]


def columns(comparison: dict[str, Any]) -> list[str]:
    """The columns' titles: ``sst accuracy``, ..., ``mean``."""
    kinds = comparison["tasks"].items()
    return [*(f"{task} {kind['metric']}" for task, kind in kinds), "mean"]


def _tables(comparison: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    """Title and content of each table that the comparison has something for."""
    yield "", score_table(comparison)
    if held_out := holdout_table(comparison):
        yield HOLDOUT_TITLE, held_out
    if differences := difference_table(comparison):
        yield difference_title(comparison), differences
    if times := time_table(comparison):
        yield TIME_TITLE, times
    if gains := gain_table(comparison):
        yield GAIN_TITLE, gains
    if matrix := matrix_table(comparison):
        yield MATRIX_TITLE, matrix


def written(table: Table, style: Style) -> str:
    """A table of plain cells in one format."""
    rows = [[style.plain(cell) for cell in row] for row in table.rows]
    for row, column in table.marked:
        rows[row][column] = style.best(rows[row][column])
    return style.table([style.plain(cell) for cell in table.header], rows)


def score_table(comparison: dict[str, Any]) -> Table:
    """Mean ± standard deviation of each group; the best mean of a column is marked.

    How many parameters were trained stands beside, where groups differ in it by a percent.
    """
    groups = comparison["groups"]
    counts = [group.get("trained_parameters") for group in groups]
    differ = None not in counts and max(counts) > 1.01 * min(counts)
    rows, marked = [], set()
    for line, (group, count) in enumerate(zip(groups, counts, strict=True)):
        found = entries(comparison, group)
        rows.append([group["name"], str(len(group["seeds"])), *map(score_cell, found)])
        rows[-1] += [f"{count:,}"] if differ else []
        marked |= {(line, 2 + i) for i, entry in enumerate(found) if entry and entry["best"]}
    header = ("group", "seeds", *columns(comparison), *(["trained parameters"] if differ else []))
    return Table(header, rows, frozenset(marked))


def best_of(means: Sequence[float]) -> float | None:
    """The largest of several; None of one alone, which is the best of nothing."""
    return max(means) if len(means) > 1 else None


def holdout_table(comparison: dict[str, Any]) -> Table | None:
    """Mean ± standard deviation on the holdout, the best marked; None with fewer than two."""
    groups = [group for group in comparison["groups"] if group.get("holdout")]
    if len(groups) < 2:
        return None
    tasks = [*comparison["tasks"]]
    found = [
        [*(group["holdout"]["tasks"].get(task) for task in tasks), group["holdout"]["overall"]]
        for group in groups
    ]
    marked = set()
    for column in range(len(tasks) + 1):
        means = [(line[column] or {}).get("mean") for line in found]
        best = best_of([mean for mean in means if mean is not None])
        marked |= {
            (i, 1 + column) for i, mean in enumerate(means) if best is not None and mean == best
        }
    rows = [
        [group["name"], *map(score_cell, line)] for group, line in zip(groups, found, strict=True)
    ]
    return Table(("group", *columns(comparison)), rows, frozenset(marked))


def difference_title(comparison: dict[str, Any]) -> str:
    return f"Difference to {comparison['baseline']}, its 95 % interval, Holm's p"


def difference_table(comparison: dict[str, Any]) -> Table | None:
    """Each group against the baseline; None where nothing can be compared."""
    rows = []
    for group in comparison["groups"]:
        found = [(entry or {}).get("difference") for entry in entries(comparison, group)]
        if any(found):
            rows.append([group["name"], *map(difference_cell, found)])
    return Table(("group", *columns(comparison)), rows) if rows else None


def time_table(comparison: dict[str, Any]) -> Table | None:
    """Seconds of an epoch and their ratio to the baseline's; None with fewer than two groups."""
    found = {group["name"]: group.get("training_time") for group in comparison["groups"]}
    rows = [
        [name, f"{time['epoch_seconds']:.1f}", f"x{time['ratio']:.2f}" if time["ratio"] else "-"]
        for name, time in found.items()
        if time
    ]
    header = ("group", "seconds an epoch", f"ratio to {comparison['baseline']}")
    return Table(header, rows) if len(rows) > 1 else None


def score_cell(entry: dict[str, Any] | None) -> str:
    """``0.712 ± 0.004``; ``-`` without score."""
    if entry is None or entry["mean"] is None:
        return "-"
    return f"{score(entry['mean'])} ± {score(entry['sd'])}"


def difference_cell(difference: dict[str, Any] | None) -> str:
    """``+0.012 [-0.003, +0.027] p 0.123``; ``-`` without difference."""
    return " ".join(difference_parts(difference)) if difference else "-"


def difference_parts(difference: dict[str, Any]) -> tuple[str, str, str]:
    """``+0.012``, ``[-0.003, +0.027]`` and ``p 0.123``."""
    low, high = signed(difference["low"]), signed(difference["high"])
    p = difference["p_holm"]
    shown = "p<0.001" if p is not None and p < 0.0005 else f"p {score(p)}"
    return signed(difference["value"]), f"[{low}, {high}]", shown


def gain_table(comparison: dict[str, Any]) -> Table | None:
    """Relative gains over the single-task groups, in percent; None without such groups."""
    if not comparison["transfer"]:
        return None
    tasks = [*comparison["tasks"]]
    rows = []
    for name, gain in comparison["transfer"]["gains"].items():
        values = [*(gain["tasks"].get(task) for task in tasks), gain["delta_m"]]
        rows.append([name, *(signed(value, digits=1) for value in values)])
    return Table(("group", *tasks, "Δm"), rows)


def matrix_table(comparison: dict[str, Any]) -> Table | None:
    """What adding one task changes of another's score; None without pairs of tasks."""
    matrix = comparison["transfer"].get("matrix")
    if not matrix:
        return None
    tasks = [task for task in comparison["tasks"] if task in matrix]
    rows = []
    for added in tasks:
        changes = [matrix[added].get(task, {}).get("change") for task in tasks]
        rows.append([added, *(signed(change) for change in changes)])
    return Table(("added task", *tasks), rows)


def _all_notes(comparison: dict[str, Any]) -> list[str]:
    return [*explanations(comparison), *comparison["notes"]]


def explanations(comparison: dict[str, Any]) -> list[str]:
    """What the numbers are, how they were made, and their limits."""
    groups, singles = comparison["groups"], comparison["transfer"].get("singles")
    most = max(len(group["seeds"]) for group in groups)
    lines = [
        f"Dev scores: mean ± standard deviation over seeds{' (one seed: -)' if most == 1 else ''}. "
        "The best mean of a column is marked; that alone does not make it better than the next."
        if len(groups) > 1
        else "Dev scores: mean ± standard deviation over seeds."
    ]
    if any(entry and entry["difference"] for g in groups for entry in entries(comparison, g)):
        lines += [
            f"Differences to {comparison['baseline']}: paired bootstrap over dev rows and seeds, "
            f"{comparison['resamples']:,} resamples, 95 % percentile interval; p is two-sided, "
            "after Holm's correction over the groups of the column.",
            "Few seeds are a coarse measure: the true standard deviation may be half or six times "
            "that of three seeds, and half or thirty times that of two. With several seeds the "
            "test is careful, but where they differ several times more than the rows' noise, its "
            "intervals are too narrow and p too small."
            if most > 1
            else "With one seed, intervals and p know the noise of the rows only: another seed "
            "may change a score by more.",
        ]
        single = [group["name"] for group in groups if len(group["seeds"]) == 1]
        if most > 1 and single:
            lines.append(f"One seed only, so nothing is known of its spread: {', '.join(single)}.")
    if time_table(comparison):
        lines.append(
            "Training times are without evaluation and start-up, on whatever load the machine had."
        )
    if singles:
        alone = ", ".join(f"{name} ({task})" for task, name in singles.items())
        lines.append(
            "Δm: mean over tasks of (M - B) / B in percent, B being the task trained alone "
            f"(Maninis et al. 2019); alone: {alone}. No interval is given for it."
        )
    return lines
