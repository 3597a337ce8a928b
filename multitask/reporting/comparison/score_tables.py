"""The tables of a comparison as text, Markdown, CSV and LaTeX; nothing is computed here."""

from collections.abc import Iterable, Sequence

from multitask.reporting.comparison.amounts import TRAINED, differ
from multitask.reporting.comparison.comparison_json import (
    Columns,
    ComparedGroup,
    Comparison,
    Difference,
    MeanScore,
    Scores,
)
from multitask.reporting.page import tables_page
from multitask.reporting.table_formats import (
    Table,
    interval,
    latex_float,
    number,
    p_value,
    score,
    signed,
    text_page,
)

SCORES_TITLE = "Dev scores"
HOLDOUT_TITLE = "Scores on the held-out rows of train: choose by these, report dev"
GAIN_TITLE = "Relative gain over single-task training in %, and its mean Δm"
TIME_TITLE = "Training time: an epoch's training steps alone, median over seeds"
MATRIX_TITLE = "Adding the task of a row to the training of a column's changes its score by"
ONE_SEED = "one seed: says nothing about another seed"
TIMES = ("epoch_seconds", "epoch_seconds_ratio")  # the last columns of table.csv


def terminal_page(comparison: Comparison) -> str:
    """Write the tables for the terminal; the best score of each column is marked with ``*``."""
    return text_page(_first_untitled(comparison), _all_notes(comparison))


def markdown_text(comparison: Comparison) -> str:
    """Write table.md: the tables, and below them how they were made and their limits."""
    return tables_page("Comparison", titled_tables(comparison), _all_notes(comparison))


def latex_text(comparison: Comparison) -> str:
    """Write table.tex: one float with the tables one above the other."""
    return latex_float(_first_untitled(comparison), _all_notes(comparison))


def csv_text(comparison: Comparison) -> str:
    """Write table.csv: a line per group, in full precision; a missing number is an empty cell.

    Columns: group, number of seeds, then mean, sd, diff, low, high and p per task and overall; low
    and high bound the difference to the baseline, p is corrected by Holm. Then the seconds per
    epoch and their ratio to the baseline's.
    """
    parts = ("mean", "sd", "diff", "low", "high", "p")
    scores = [f"{name}_{part}" for name in [*comparison["tasks"], "overall"] for part in parts]
    rows = []
    for group in comparison["groups"]:
        row = [group["name"], len(group["seeds"])]
        for entry in entries(comparison, group):
            difference = entry.get("difference") if entry else None
            row += [entry["mean"], entry["sd"]] if entry else [None, None]
            row += _bounds(difference) if difference else [None] * 4
        time = group.get("training_time")
        rows.append([*row, *((time["epoch_seconds"], time["ratio"]) if time else (None, None))])
    return Table(["group", "seeds", *scores, *TIMES], rows).csv()


def _bounds(difference: Difference) -> list[float | None]:
    return [difference["value"], difference["low"], difference["high"], difference["p_holm"]]


def entries(comparison: Comparison, group: Columns) -> list[Scores | None]:
    """Return the entry of a group, or of its holdout, per column: the tasks, then overall."""
    return [*(group["tasks"].get(task) for task in comparison["tasks"]), group["overall"]]


def columns(comparison: Comparison) -> list[str]:
    """Return the titles of the columns: ``sst accuracy``, ..., ``mean``."""
    kinds = comparison["tasks"].items()
    return [*(f"{task} {kind['metric']}" for task, kind in kinds), "mean"]


def titled_tables(comparison: Comparison) -> list[tuple[str, Table]]:
    """Return the title and the content of each table that is not empty."""
    tables = {
        SCORES_TITLE: score_table(comparison),
        HOLDOUT_TITLE: holdout_table(comparison),
        difference_title(comparison): difference_table(comparison),
        TIME_TITLE: time_table(comparison),
        GAIN_TITLE: gain_table(comparison),
        MATRIX_TITLE: matrix_table(comparison),
    }
    return [(title, table) for title, table in tables.items() if table is not None]


def _first_untitled(comparison: Comparison) -> list[tuple[str, Table]]:
    """Leave out the first title, as the notes say what the scores are."""
    (_, scores), *others = titled_tables(comparison)
    return [("", scores), *others]


def score_table(comparison: Comparison) -> Table:
    """Build the table of mean ± standard deviation; the best mean of a column is marked.

    None is marked where a group has one seed. The table has a column of trained parameters if the
    groups differ in them by more than a percent, and columns of updates and trained rows if they
    differ in one of these.
    """
    groups = comparison["groups"]
    counts = _count_columns(groups)
    rows = []
    every = [entries(comparison, group) for group in groups]
    for i, (group, scores) in enumerate(zip(groups, every, strict=True)):
        rows.append([group["name"], str(len(group["seeds"])), *map(score_cell, scores)])
        rows[-1] += [number(column[i], ",") for column in counts.values()]
    header = ("group", "seeds", *columns(comparison), *counts)
    return Table(header, rows, best_cells(every, 2))


def _count_columns(groups: Sequence[ComparedGroup]) -> dict[str, list[int | None]]:
    """Return, by title, the counts in which the groups' trainings differ."""
    parameters = [group.get("trained_parameters") for group in groups]
    updates = [group.get("updates") for group in groups]
    rows = [group.get("trained_rows") for group in groups]
    shown = {"trained parameters": parameters} if differ(parameters) else {}
    if differ(updates) or differ(rows):
        shown |= {TRAINED["updates"]: updates, TRAINED["trained_rows"]: rows}
    return shown


def best_of(means: Sequence[float]) -> float | None:
    """Return the largest of several means; None if there are fewer than two."""
    return max(means) if len(means) > 1 else None


def best_cells(
    rows: Sequence[Sequence[MeanScore | None]], first: int
) -> frozenset[tuple[int, int]]:
    """Return the cells to mark: the best mean of each column, numbered from ``first``.

    A column with a score of one seed has no mark: it says nothing about another seed.
    """
    marked = set()
    for column, column_entries in enumerate(zip(*rows, strict=True), first):
        if not several_seeds(column_entries):
            continue
        means = [entry["mean"] if entry else None for entry in column_entries]
        best = best_of([mean for mean in means if mean is not None])
        marked |= {
            (row, column) for row, mean in enumerate(means) if mean is not None and mean == best
        }
    return frozenset(marked)


def several_seeds(scores: Iterable[MeanScore | None]) -> bool:
    """Return True if every defined score is of several seeds, so that it has a deviation."""
    return all(e["sd"] is not None for e in scores if e and e["mean"] is not None)


def holdout_table(comparison: Comparison) -> Table | None:
    """Build the table of scores on the holdout, the best marked; None for fewer than two groups."""
    scores = {
        group["name"]: entries(comparison, holdout)
        for group in comparison["groups"]
        if (holdout := group.get("holdout"))
    }
    rows = [[name, *map(score_cell, row)] for name, row in scores.items()]
    header = ("group", *columns(comparison))
    return Table(header, rows, best_cells([*scores.values()], 1)) if len(rows) > 1 else None


def difference_title(comparison: Comparison) -> str:
    found = _every_difference(comparison)
    p = "" if found and all(map(rows_only, found)) else ", Holm's p"
    return f"Difference to {comparison['baseline']}, its 95 % interval{p}"


def differences(comparison: Comparison) -> dict[str, list[Difference | None]]:
    """Return the differences per column of each group that can be compared with the baseline."""
    by_group = {
        group["name"]: [entry and entry.get("difference") for entry in entries(comparison, group)]
        for group in comparison["groups"]
    }
    return {name: row for name, row in by_group.items() if any(row)}


def _every_difference(comparison: Comparison) -> list[Difference]:
    return [each for row in differences(comparison).values() for each in row if each]


def difference_table(comparison: Comparison) -> Table | None:
    """Build the table of differences to the baseline; None if nothing can be compared."""
    rows = [[name, *map(difference_cell, row)] for name, row in differences(comparison).items()]
    return Table(("group", *columns(comparison)), rows) if rows else None


def time_table(comparison: Comparison) -> Table | None:
    """Build the table of seconds per epoch; None for fewer than two groups."""
    rows = [
        [group["name"], f"{time['epoch_seconds']:.1f}", f"x{ratio:.2f}" if ratio else "-"]
        for group in comparison["groups"]
        if (time := group.get("training_time"))
        for ratio in [time["ratio"]]
    ]
    header = ("group", "seconds an epoch", f"ratio to {comparison['baseline']}")
    return Table(header, rows) if len(rows) > 1 else None


def score_cell(entry: MeanScore | None) -> str:
    """Mean and standard deviation, such as ``0.712 ± 0.004``; ``-`` without a score."""
    if entry is None or entry["mean"] is None:
        return "-"
    return f"{score(entry['mean'])} ± {score(entry['sd'])}"


def difference_cell(difference: Difference | None, digits: int = 3) -> str:
    """Format a difference, such as ``+0.012 [-0.003, +0.027] p 0.123``; ``-`` for None."""
    return " ".join(difference_parts(difference, digits)) if difference else "-"


def difference_parts(difference: Difference, digits: int = 3) -> tuple[str, str, str]:
    """Return the parts of ``difference_cell``: ``+0.012``, ``[-0.003, +0.027]`` and ``p 0.123``.

    Without a p, as one side has one seed, the last one is ``rows only``.
    """
    bounds = interval(difference["low"], difference["high"], digits)
    p = "rows only" if rows_only(difference) else p_value(difference["p_holm"])
    return signed(difference["value"], digits), bounds, p


def rows_only(difference: Difference) -> bool:
    """Return True if the interval is of the rows alone, since one side has one seed."""
    return difference["p_holm"] is None and difference["low"] is not None


def gain_table(comparison: Comparison) -> Table | None:
    """Build the table of relative gains in percent; None without single-task groups."""
    rows = []
    for name, gain in comparison["transfer"].get("gains", {}).items():
        values = [*map(gain["tasks"].get, comparison["tasks"]), gain["delta_m"]]
        rows.append([name, *(signed(value, digits=1) for value in values)])
    return Table(("group", *comparison["tasks"], "Δm"), rows) if rows else None


def matrix_table(comparison: Comparison) -> Table | None:
    """Build the table of how adding one task changes another's score; None without pairs."""
    matrix = comparison["transfer"].get("matrix", {})
    tasks = [task for task in comparison["tasks"] if task in matrix]
    rows = [
        [added, *(signed(pair["change"] if pair else None) for pair in map(of_added.get, tasks))]
        for added, of_added in ((task, matrix[task]) for task in tasks)
    ]
    return Table(("added task", *tasks), rows) if rows else None


def _all_notes(comparison: Comparison) -> list[str]:
    verdicts = comparison.get("verdicts", [])
    return [*verdicts, *explanations(comparison), *comparison["notes"]]


def explanations(comparison: Comparison) -> list[str]:
    """Explain what the numbers are, how they were computed, and their limits."""
    groups, singles = comparison["groups"], comparison["transfer"].get("singles")
    lines = ["Dev scores: mean ± standard deviation over seeds."]
    if score_table(comparison).marked:
        lines[0] += (
            " The best mean of a column is marked; that alone does not make it better than the "
            "next."
        )
    single = [group["name"] for group in groups if len(group["seeds"]) == 1]
    if single:
        who = "every group" if len(single) == len(groups) else ", ".join(single)
        lines.append(f"{ONE_SEED.capitalize()}; its deviation is unknown (-): {who}.")
    found = _every_difference(comparison)
    if found:
        lines.append(
            f"Differences to {comparison['baseline']}: paired bootstrap over dev rows and seeds, "
            f"{comparison['resamples']:,} resamples, 95 % percentile interval."
        )
    if any(map(rows_only, found)):
        lines.append("Rows only: an interval of the dev rows alone, as a side has one seed; no p.")
    if not all(map(rows_only, found)):
        lines += [
            "p is two-sided, after Holm's correction over the column's comparisons; groups with "
            "the same predictions are one.",
            "Few seeds are a coarse measure: the true standard deviation may be half or six times "
            "that of three seeds, and half or thirty times that of two. With several seeds the "
            "test is careful, but where they differ several times more than the rows' noise, its "
            "intervals are too narrow and p too small.",
        ]
    if time_table(comparison):
        lines.append(
            "Training times exclude evaluation and start-up; the load of the machine was not "
            "controlled."
        )
    if singles:
        alone = ", ".join(f"{name} ({task})" for task, name in singles.items())
        lines.append(
            "Δm: mean over tasks of (M - B) / B in percent, B being the task trained alone "
            f"(Maninis et al. 2019); alone: {alone}. No interval is given for it."
        )
    return lines
