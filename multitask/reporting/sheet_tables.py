# Long: every table of results, so that a change of one is seen next to the others.
"""The tables of a comparison and of a paper as text, Markdown, CSV and LaTeX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from multitask.reporting.notes import setting_notes
from multitask.reporting.page import tables_page
from multitask.reporting.sheet import (
    ComparedGroup,
    Comparison,
    Difference,
    MeanScore,
    PaperCell,
    PaperRow,
    PaperTable,
    baseline_of,
    best_of,
    columns,
    compared_title,
    differences,
    entries,
    has_one_baseline,
    rows_only,
    several_seeds,
)
from multitask.reporting.statistics import sd_ratio
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
from multitask.reporting.verdicts import TRAINED, differ

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


CSV_PARTS = ("mean", "median", "sd", "printed")
DIFFERENCE_PARTS = ("value", "low", "high", "p", "p_holm")
PAPER_TIMES = ("epoch_seconds", "dev_seconds")
TimeKey = Literal["epoch_seconds", "dev_seconds"]
AmountKey = Literal["updates", "trained_rows"]
CellKey = Literal["values", "printed", "difference"] | TimeKey | AmountKey
STATISTICS = {
    "mean": "mean ± standard deviation over seeds",
    "median": "median ± standard deviation over seeds",
    "sd": "standard deviation over seeds",
}


def paper_text(table: PaperTable) -> str:
    """Write the tables for the terminal."""
    return text_page(_tables(table), _notes(table))


def paper_markdown(table: PaperTable) -> str:
    """Write the tables with their notes below."""
    return tables_page(table["title"], _tables(table), _notes(table))


def paper_latex(table: PaperTable) -> str:
    """Write one float with the tables one above the other, none wider than the page."""
    caption = [table["title"] + ".", *_notes(table)]
    return latex_float(_tables(table, narrow=True), caption, fit=True)


def _turned(table: Table) -> Table:
    """Transpose a table; the first two cells of a row become the header of its column."""
    head = ("", *(f"{name}, {whose}" for name, whose, *_ in table.rows))
    columns = zip(table.header, *table.rows, strict=True)
    return Table(head, [*columns][2:])


def paper_csv(table: PaperTable) -> str:
    """Write a line per row and column, then per average: full precision, percent and seconds."""
    differences = [f"diff_{part}" for part in DIFFERENCE_PARTS]
    header = [
        "row",
        "column",
        "task",
        "metric",
        "seeds",
        *CSV_PARTS,
        *differences,
        *PAPER_TIMES,
    ]
    rows: list[list[object]] = []
    for row in table["rows"]:
        for column, cell in zip(table["columns"], row["cells"], strict=True):
            if cell is None:
                continue
            difference: Mapping[str, object] = cell.get("difference") or {}
            line = [row["name"], column["title"], column["task"], column["metric"]]
            numbers = [len(cell["values"]), *(cell.get(part) for part in CSV_PARTS)]
            numbers += [difference.get(part) for part in DIFFERENCE_PARTS]
            rows.append([*line, *numbers, *(cell.get(part) for part in PAPER_TIMES)])
        for average in table["averages"]:
            averages = {
                table["statistic"]: average["values"].get(row["name"]),
                "printed": average["printed"].get(row["name"]),
            }
            line = [row["name"], average["title"], "", "", ""]
            empty = [""] * len([*differences, *PAPER_TIMES])
            rows.append([*line, *map(averages.get, CSV_PARTS), *empty])
    return Table(header, rows).csv()


def _tables(table: PaperTable, narrow: bool = False) -> Iterator[tuple[str, Table]]:
    """Yield the title and the content of each table that is not empty.

    ``narrow`` transposes the differences if they have more columns than rows.
    """
    baseline = table["baseline_title"] if has_one_baseline(table) else "each row's baseline"
    yield f"{table['title']}, in percent", _scores(table)
    if table["statistic"] != "sd" and (differences := _differences(table)):
        title = f"Difference to {baseline}, in points"
        wide = len(differences.header) - 2 > len(differences.rows)
        yield (
            f"{title}: ours [95 % interval] Holm's p",
            _turned(differences) if narrow and wide else differences,
        )
    if table["statistic"] == "sd" and (ratios := _sd_ratios(table)):
        title = f"Standard deviation, ratio to {baseline}"
        yield f"{title}: ours [95 % F interval over seeds, without correction]", ratios
    amounts: dict[AmountKey, str] = {"updates": "Updates", "trained_rows": "Trained rows"}
    for amount, title in amounts.items():
        if counts := _amounts(table, amount):
            yield f"{title}, the mean over seeds", counts
    titles: dict[TimeKey, str] = {
        "epoch_seconds": "Seconds of an epoch's training steps",
        "dev_seconds": "Seconds to score dev once",
    }
    for key, title in titles.items():
        if times := _times(table, key):
            yield f"{title} (ratio to {baseline})", times


def _scores(table: PaperTable) -> Table:
    """List the paper's values and ours for each row."""
    shown = _spread if table["statistic"] == "sd" else _percent
    rows = []
    for row in table["rows"]:
        printed = _cells(row, "printed")
        if any(value is not None for value in printed):
            averages = [average["printed"].get(row["name"]) for average in table["averages"]]
            rows.append([row["title"], "paper", *map(shown, [*printed, *averages])])
        if any(_cells(row, "values")):
            averages = [average["values"].get(row["name"]) for average in table["averages"]]
            ours = [_ours(cell, table["statistic"]) for cell in row["cells"]]
            rows.append([row["title"], "ours", *ours, *map(shown, averages)])
    titles = [column["title"] for column in table["columns"]]
    return Table(("", "", *titles, *(average["title"] for average in table["averages"])), rows)


def _ours(cell: PaperCell | None, statistic: str) -> str:
    if cell is None or not cell["values"]:
        return "-"
    if statistic == "sd":
        return _spread(cell["shown"])
    return f"{_percent(cell['shown'])} ± {_percent(cell['sd'])}"


def _percent(value: float | None) -> str:
    return number(value, ".2f")


def _spread(value: float | None) -> str:
    """Three significant digits: MaxPoolBERT's Table 3 has 6.34 and .0746."""
    return number(value, ".3g")


def _differences(table: PaperTable) -> Table | None:
    """List the difference of each row to its baseline, paper and ours."""

    def cells(row: PaperRow, base: PaperRow) -> tuple[list[str], list[str]]:
        pairs = zip(_cells(row, "printed"), _cells(base, "printed"), strict=True)
        printed = [None if None in pair else pair[0] - pair[1] for pair in pairs]
        ours = [difference_cell(each, digits=2) for each in _cells(row, "difference")]
        return [signed(value, 2) for value in printed], ours

    return _against_baselines(table, cells)


def _sd_ratios(table: PaperTable) -> Table | None:
    """List the ratio of each row's standard deviation to that of its baseline, paper and ours."""

    def cells(row: PaperRow, base: PaperRow) -> tuple[list[str], list[str]]:
        paper, ours = [], []
        for cell, other in zip(row["cells"], base["cells"], strict=True):
            above, below = (each and each["printed"] for each in (cell, other))
            paper.append(number(above / below, ".2f") if above and below else "-")
            ratio = cell and other and sd_ratio(cell["values"], other["values"])
            ours.append(f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "-")
        return paper, ours

    return _against_baselines(table, cells)


def _against_baselines(
    table: PaperTable, cells: Callable[[PaperRow, PaperRow], tuple[list[str], list[str]]]
) -> Table | None:
    """Build a table of what ``cells`` says of a row and its baseline; None without a row."""
    rows = [
        [compared_title(table, row), whose, *shown]
        for row in table["rows"]
        if (base := baseline_of(table, row)) is not None
        for whose, shown in zip(("paper", "ours"), cells(row, base), strict=True)
        if set(shown) != {"-"}
    ]
    titles = [column["title"] for column in table["columns"]]
    return Table(("", "", *titles), rows) if rows else None


def _cells(row: PaperRow, key: CellKey) -> list[Any]:
    """Return one value of each cell of a row; None where it is missing."""
    return [None if cell is None else cell.get(key) for cell in row["cells"]]


def _places(table: PaperTable) -> dict[str, int]:
    """Return the place of each task's first column, by its name and its ``cells``."""
    places: dict[str, int] = {}
    for place, column in enumerate(table["columns"]):
        cells = column.get("cells")
        places.setdefault(f"{column['task']} {cells}" if cells else column["task"], place)
    return places


def _amounts(table: PaperTable, key: AmountKey) -> Table | None:
    """List how much each row was trained, if some rows of a column differ by over a percent."""
    places = _places(table)
    lines = [[_cells(row, key)[at] for at in places.values()] for row in table["rows"]]
    columns = zip(*lines, strict=True)
    if not any(differ([count for count in column if count]) for column in columns):
        return None
    rows = [
        [row["title"], *("-" if count is None else f"{count:,}" for count in line)]
        for row, line in zip(table["rows"], lines, strict=True)
        if any(line)
    ]
    return Table(("", *places), rows)


def _times(table: PaperTable, key: TimeKey) -> Table | None:
    """List the median seconds over seeds, in a column per task (and its ``cells``)."""
    places = _places(table)
    rows = []
    for row in table["rows"]:
        base, line = baseline_of(table, row), []
        for place in places.values():
            seconds, other = (_cells(each, key)[place] if each else None for each in (row, base))
            ratio = f" (x{seconds / other:.2f})" if seconds and other else ""
            line.append("-" if seconds is None else f"{seconds:.2f}{ratio}")
        if set(line) != {"-"}:
            rows.append([compared_title(table, row), *line])
    return Table(("", *places), rows) if rows else None


def _notes(table: PaperTable) -> list[str]:
    """Say what the differences show, what the numbers are and how they were computed."""
    lines = [
        *table.get("verdicts", []),
        f"Ours: {STATISTICS[table['statistic']]}, dev scores.",
        *setting_notes(table),
    ]
    if table["source"]:
        lines.append(f"Paper: {table['source']}.")
    deviations = table["statistic"] == "sd"
    if not deviations and any(any(_cells(row, "difference")) for row in table["rows"]):
        each = "" if has_one_baseline(table) else " with one baseline"
        lines.append(
            "Differences are of means: paired bootstrap over dev rows and seeds, "
            f"{table['resamples']:,} resamples, 95 % percentile interval; p is two-sided, after "
            f"Holm's correction over the column's comparisons{each}. Rows only: a side has one "
            "seed, so there is no p."
        )
    for average in table["averages"]:
        columns = ", ".join(average["columns"]) or "no column that every row has"
        lines.append(f"{average['title']}: {columns}; the paper's over the same ones.")
    if any(any(_cells(row, "epoch_seconds")) for row in table["rows"]):
        lines.append("Times: median over seeds, on whatever machine and load the runs had.")
    return [*lines, *table["notes"]]
