"""A comparison as text, Markdown, CSV and LaTeX; nothing is computed here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multitask.reporting.page import Lines, Page, Section, markdown_page
from multitask.reporting.tables import Table, latex_float, score, signed, text_page

SCORES_TITLE = "Dev scores"
HOLDOUT_TITLE = "Scores on the held-out rows of train: choose by these, report dev"
GAIN_TITLE = "Relative gain over single-task training in %, and its mean Δm"
TIME_TITLE = "Training time: an epoch's training steps alone, median over seeds"
MATRIX_TITLE = "Adding the task of a row to the training of a column's changes its score by"
TIMES = ("epoch_seconds", "epoch_seconds_ratio")  # the last columns of table.csv


def terminal_page(comparison: dict[str, Any]) -> str:
    """The tables for the terminal; the best score of each column is marked with ``*``."""
    return text_page(_first_untitled(comparison), _all_notes(comparison))


def markdown_text(comparison: dict[str, Any]) -> str:
    """table.md: the tables, with what was done and what to beware of below them."""
    sections = [Section(title, [table]) for title, table in titled_tables(comparison)]
    notes = Section("How to read this", [Lines(_all_notes(comparison))])
    return markdown_page(Page(Path(), "Comparison", "", [*sections, notes]))


def latex_text(comparison: dict[str, Any]) -> str:
    """table.tex: one float with the tables above each other."""
    return latex_float(_first_untitled(comparison), _all_notes(comparison))


def csv_text(comparison: dict[str, Any]) -> str:
    """table.csv: a line for each group, full precision, nothing where there is no number.

    Columns: group, seeds (how many), then mean, sd, diff, low, high and p of each task and
    overall; low and high bound the difference to the baseline, p is Holm's. Then the seconds of
    an epoch and their ratio to the baseline's.
    """
    names = [*comparison["tasks"], "overall"]
    parts = ("mean", "sd", "diff", "low", "high", "p")
    header = ["group", "seeds", *(f"{name}_{part}" for name in names for part in parts), *TIMES]
    rows = []
    for group in comparison["groups"]:
        row = [group["name"], len(group["seeds"])]
        for entry in entries(comparison, group):
            entry = entry or {}
            difference = entry.get("difference") or {}
            row += [entry.get("mean"), entry.get("sd")]
            row += [difference.get(key) for key in ("value", "low", "high", "p_holm")]
        row += [(group.get("training_time") or {}).get(key) for key in ("epoch_seconds", "ratio")]
        rows.append(row)
    return Table(header, rows).csv()


def entries(comparison: dict[str, Any], group: dict[str, Any]) -> list[dict[str, Any] | None]:
    """A group's entry in each column: the tasks, then overall."""
    return [*(group["tasks"].get(task) for task in comparison["tasks"]), group["overall"]]


def columns(comparison: dict[str, Any]) -> list[str]:
    """The columns' titles: ``sst accuracy``, ..., ``mean``."""
    kinds = comparison["tasks"].items()
    return [*(f"{task} {kind['metric']}" for task, kind in kinds), "mean"]


def titled_tables(comparison: dict[str, Any]) -> list[tuple[str, Table]]:
    """Title and content of each table that the comparison has something for."""
    tables = {
        SCORES_TITLE: score_table(comparison),
        HOLDOUT_TITLE: holdout_table(comparison),
        difference_title(comparison): difference_table(comparison),
        TIME_TITLE: time_table(comparison),
        GAIN_TITLE: gain_table(comparison),
        MATRIX_TITLE: matrix_table(comparison),
    }
    return [(title, table) for title, table in tables.items() if table is not None]


def _first_untitled(comparison: dict[str, Any]) -> list[tuple[str, Table]]:
    """The same for a page whose notes begin with what the scores are."""
    (_, scores), *others = titled_tables(comparison)
    return [("", scores), *others]


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
