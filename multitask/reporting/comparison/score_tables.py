"""A comparison as text, Markdown, CSV and LaTeX; nothing is computed here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multitask.reporting.page import Lines, Page, Section, markdown_page
from multitask.reporting.table_formats import Table, latex_float, score, signed, text_page

Entry = dict[str, Any] | None  # a score with its statistics

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
    parts = ("mean", "sd", "diff", "low", "high", "p")
    scores = [f"{name}_{part}" for name in [*comparison["tasks"], "overall"] for part in parts]
    rows = []
    for group in comparison["groups"]:
        row = [group["name"], len(group["seeds"])]
        for entry in entries(comparison, group):
            difference = (entry or {}).get("difference") or {}
            row += [(entry or {}).get(key) for key in ("mean", "sd")]
            row += [difference.get(key) for key in ("value", "low", "high", "p_holm")]
        time = group.get("training_time") or {}
        rows.append([*row, time.get("epoch_seconds"), time.get("ratio")])
    return Table(["group", "seeds", *scores, *TIMES], rows).csv()


def entries(comparison: dict[str, Any], group: dict[str, Any]) -> list[Entry]:
    """The entry of a group, or of its holdout, in each column: the tasks, then overall."""
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


def best_cells(rows: Sequence[Sequence[Entry]], first: int) -> frozenset[tuple[int, int]]:
    """The best means of the columns of ``rows``, as a table marks them from column ``first`` on."""
    marked = set()
    for column, found in enumerate(zip(*rows, strict=True), first):
        means = [entry["mean"] if entry else None for entry in found]
        best = best_of([mean for mean in means if mean is not None])
        marked |= {
            (row, column) for row, mean in enumerate(means) if mean is not None and mean == best
        }
    return frozenset(marked)


def holdout_table(comparison: dict[str, Any]) -> Table | None:
    """Mean ± standard deviation on the holdout, the best marked; None with fewer than two."""
    found = {
        group["name"]: entries(comparison, group["holdout"])
        for group in comparison["groups"]
        if group.get("holdout")
    }
    rows = [[name, *map(score_cell, row)] for name, row in found.items()]
    header = ("group", *columns(comparison))
    return Table(header, rows, best_cells([*found.values()], 1)) if len(rows) > 1 else None


def difference_title(comparison: dict[str, Any]) -> str:
    return f"Difference to {comparison['baseline']}, its 95 % interval, Holm's p"


def differences(comparison: dict[str, Any]) -> dict[str, list[Entry]]:
    """The differences of each group that can be compared with the baseline, in each column."""
    found = {
        group["name"]: [(entry or {}).get("difference") for entry in entries(comparison, group)]
        for group in comparison["groups"]
    }
    return {name: row for name, row in found.items() if any(row)}


def difference_table(comparison: dict[str, Any]) -> Table | None:
    """Each group against the baseline; None where nothing can be compared."""
    rows = [[name, *map(difference_cell, row)] for name, row in differences(comparison).items()]
    return Table(("group", *columns(comparison)), rows) if rows else None


def time_table(comparison: dict[str, Any]) -> Table | None:
    """Seconds of an epoch and their ratio to the baseline's; None with fewer than two groups."""
    rows = [
        [group["name"], f"{time['epoch_seconds']:.1f}", f"x{ratio:.2f}" if ratio else "-"]
        for group in comparison["groups"]
        if (time := group.get("training_time"))
        for ratio in [time["ratio"]]
    ]
    header = ("group", "seconds an epoch", f"ratio to {comparison['baseline']}")
    return Table(header, rows) if len(rows) > 1 else None


def score_cell(entry: Entry) -> str:
    """``0.712 ± 0.004``; ``-`` without score."""
    if entry is None or entry["mean"] is None:
        return "-"
    return f"{score(entry['mean'])} ± {score(entry['sd'])}"


def difference_cell(difference: Entry) -> str:
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
    rows = []
    for name, gain in comparison["transfer"].get("gains", {}).items():
        values = [*map(gain["tasks"].get, comparison["tasks"]), gain["delta_m"]]
        rows.append([name, *(signed(value, digits=1) for value in values)])
    return Table(("group", *comparison["tasks"], "Δm"), rows) if rows else None


def matrix_table(comparison: dict[str, Any]) -> Table | None:
    """What adding one task changes of another's score; None without pairs of tasks."""
    matrix = comparison["transfer"].get("matrix", {})
    tasks = [task for task in comparison["tasks"] if task in matrix]
    rows = [
        [added, *(signed(matrix[added].get(task, {}).get("change")) for task in tasks)]
        for added in tasks
    ]
    return Table(("added task", *tasks), rows) if rows else None


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
