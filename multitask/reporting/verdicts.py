"""Say in words what the differences of a comparison or of a paper's table show.

A difference excludes 0 only if its interval does and its p, after Holm's correction, is below
``SIGNIFICANT``. Without a p, as a side has one seed, there is no verdict. A printed difference is
compared only with one that excludes 0, of rows that were trained alike.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multitask.reporting.sheet import (
    Comparison,
    Difference,
    PaperCell,
    PaperRow,
    PaperTable,
    baseline_of,
    columns,
    differences,
)
from multitask.reporting.table_formats import interval, signed
from multitask.store.saved import RunReport

# two groups with more than this ratio of a count are not trained alike
ALIKE = 1.01
TRAINED = {"updates": "updates", "trained_rows": "trained rows"}
UNTRAINED = "only one was trained on the task"


def updates(reports: Sequence[RunReport]) -> int | None:
    """Return the optimizer steps of a run, the mean over seeds; None if a report lacks them."""
    done = [report.steps.done for report in reports]
    return None if 0 in done else round(statistics.fmean(done))


def trained_rows(config: Mapping[str, Any], reports: Sequence[RunReport]) -> int | None:
    """Return the rows of all steps of a run, the mean over seeds; None if a report lacks them.

    A step of a task has ``batch_size`` x ``accumulation`` rows of its ``config``, as ``check``
    prints. A row that several tasks train on counts for each of them.
    """
    counts = [
        sum(
            entry.turns.trained * rows_of_a_step(config["tasks"].get(task, {}))
            for task, entry in report.tasks.items()
        )
        for report in reports
    ]
    return None if 0 in counts else round(statistics.fmean(counts))


def rows_of_a_step(task: Mapping[str, Any]) -> int:
    """Return the rows of a task's optimizer step; 0 if the config does not say it."""
    return int(task.get("batch_size", 0)) * int(task.get("accumulation", 1))


def differ(counts: Sequence[int | None]) -> bool:
    """Return True if all counts are known and differ by more than a percent."""
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) > 0 and max(known) > ALIKE * min(known)


def unlike(own: Mapping[str, Any], base: Mapping[str, Any], *, untrained: bool = False) -> str:
    """Say how the training of two groups differs, as ``33 % of the updates``; "" if it does not.

    ``untrained``: only one of them was trained on the task that is compared.
    """
    return ", ".join(filter(None, [_shares(own, base), UNTRAINED if untrained else ""]))


def _shares(own: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    names: dict[str, list[str]] = {}  # by the share
    for key, name in TRAINED.items():
        count, other = own.get(key), base.get(key)
        if count and other and differ([count, other]):
            names.setdefault(f"{100 * count / other:.0f} %", []).append(name)
    return ", ".join(f"{share} of the {' and '.join(of)}" for share, of in names.items())


SIGNIFICANT = 0.05
HIGHER, LOWER, EQUAL, NOT_SIGNIFICANT = "higher", "lower", "equal", "not significant"
AS_PRINTED, LARGER, SMALLER, OPPOSITE, CANNOT_TELL = (
    "as printed",
    "larger than printed",
    "smaller than printed",
    "opposite to what is printed",
    "cannot tell",
)
ONE_SEED, PRINTED_0, UNEQUAL = (
    "no verdict from one seed",
    "no verdict against a printed 0",
    "no verdict, as they were not trained alike",
)
# in the order of a sentence: each row has its interval, the rows share one, or have none
CLEAR = (HIGHER, LOWER, AS_PRINTED, LARGER, SMALLER, OPPOSITE, EQUAL)
OPEN = (CANNOT_TELL, NOT_SIGNIFICANT)
NONE = (ONE_SEED, PRINTED_0, UNEQUAL)
# rows of one verdict that are named; more are counted
NAMED = 6


@dataclass(frozen=True)
class Compared:
    """A row's difference to the baseline in one column.

    Attributes:
        row: the name of the row.
        difference: its difference.
        printed: the paper's difference, in the same unit; None if there is none.
        trained: how its training differs, as ``33 % of the updates``; "" if it does not
            (``unlike``).
    """

    row: str
    difference: Difference
    printed: float | None = None
    trained: str = ""


def significant(difference: Difference | None) -> bool:
    """Return True if the interval is on one side of 0 and Holm's p is below ``SIGNIFICANT``."""
    if not difference or difference["p_holm"] is None:
        return False
    return difference["p_holm"] < SIGNIFICANT and (difference["low"] > 0 or difference["high"] < 0)


def verdict(row: Compared, margin: float | None = None) -> str:
    """Return the verdict about a difference: against the printed one if there is one, else 0.

    Against 0 it is ``EQUAL`` if the interval is within ``margin`` on both sides of 0. A margin says
    nothing against a printed difference, and a printed 0 has no verdict: every interval around it
    would agree.
    """
    difference, printed = row.difference, row.printed
    low, high = difference["low"], difference["high"]
    if difference["p_holm"] is None:
        return ONE_SEED
    if printed is None:
        if margin is not None and -margin <= low and high <= margin:
            return EQUAL
        if not significant(difference):
            return NOT_SIGNIFICANT
        return HIGHER if low > 0 else LOWER
    if printed == 0:
        return PRINTED_0
    if row.trained:
        return UNEQUAL
    if not significant(difference):
        return CANNOT_TELL
    if (low > 0) != (printed > 0):
        return OPPOSITE
    if low <= printed <= high:
        return AS_PRINTED
    return LARGER if (low > printed) == (printed > 0) else SMALLER


def comparison_verdicts(comparison: Comparison) -> list[str]:
    """Return a sentence per column, and which rows were trained longer or shorter.

    The mean over tasks has none if only one task counts for it.
    """
    groups = {group["name"]: group for group in comparison["groups"]}
    base = groups[comparison["baseline"]]
    found = differences(comparison)
    tasks = [*comparison["tasks"]]

    def compared(row: str, place: int, difference: Difference) -> Compared:
        of_column = set(tasks[place : place + 1] or tasks)  # the last column is their mean
        apart = {*groups[row].get("untrained", [])} ^ {*base.get("untrained", [])}
        trained = unlike(groups[row], base, untrained=bool(apart & of_column))
        return Compared(row, difference, trained=trained)

    by_title = {
        title: [
            compared(row, place, difference)
            for row, line in found.items()
            if (difference := line[place]) and difference["low"] is not None
        ]
        for place, title in enumerate(columns(comparison))
    }
    *others, mean = by_title
    if by_title[mean] in [by_title[each] for each in others]:  # only this one counts, or none
        del by_title[mean]
    lines = column_sentences(base["name"], by_title, margin=comparison.get("margin"))
    return [*lines, *unequal_training(base["name"], by_title)] if lines else []


def column_sentences(
    baseline: str,
    columns: Mapping[str, Sequence[Compared]],
    *,
    digits: int = 3,
    margin: float | None = None,
) -> list[str]:
    """Return what is compared, then a sentence per column; nothing if there is no difference."""
    lines = [
        sentence(title, rows, digits=digits, margin=margin)
        for title, rows in columns.items()
        if rows
    ]
    if not lines:
        return []
    tested = any(row.difference["p_holm"] is not None for rows in columns.values() for row in rows)
    end = f"; significant: Holm's p is below {SIGNIFICANT:g}." if tested else "."
    return [f"Compared with {baseline}{end}", *lines]


def unequal_training(baseline: str, columns: Mapping[str, Sequence[Compared]]) -> list[str]:
    """List the rows that were not trained like the baseline: one line, or none.

    A row whose training differs in some columns only has their titles.
    """
    ways: dict[str, dict[str, list[str]]] = {}
    for column, compared in columns.items():
        for row in compared:
            ways.setdefault(row.row, {}).setdefault(row.trained, []).append(column)
    trained = {
        row: "; ".join(
            way if len(of_row) == 1 else f"{way} for {', '.join(titles)}"
            for way, titles in of_row.items()
            if way
        )
        for row, of_row in ways.items()
    }
    rows = [f"{row} ({way})" for row, way in trained.items() if way]
    return [f"Not trained like {baseline}: {', '.join(rows)}."] if rows else []


def sentence(
    column: str, rows: Sequence[Compared], *, digits: int = 3, margin: float | None = None
) -> str:
    """Say the verdicts of a column's rows, such as ``sst: none significant, ...``."""
    own = [row for row in rows if not of_the_baseline(row)]
    by_word: dict[str, list[Compared]] = {}
    for row in own:
        by_word.setdefault(verdict(row, margin), []).append(row)
    parts = []
    for word in (*CLEAR, *OPEN, *NONE):
        found = by_word.get(word)
        if not found:
            continue
        names = "" if len(found) == len(own) else _names(found)
        if word in CLEAR:
            parts.append(f"{_word(word, margin)}: {_details(found, digits)}")
        elif word in OPEN:
            parts.append(_range(word, found, names, digits))
        else:
            parts.append(f"{word}: {names}" if names else word)
    if same := len(rows) - len(own):
        parts.append(f"the baseline's predictions: {_count(same)}")
    return f"{column}: {'; '.join(parts)}."


def of_the_baseline(row: Compared) -> bool:
    """Return True if the row has the baseline's predictions, as rows of a probe grid have."""
    difference = row.difference
    return difference["value"] == difference["low"] == difference["high"] == 0


def _word(word: str, margin: float | None) -> str:
    return f"equal within {margin:g}" if word == EQUAL else word


def _details(rows: Sequence[Compared], digits: int) -> str:
    """Write each difference with its interval; rows that differ in nothing else are one."""
    groups: dict[tuple[object, ...], list[Compared]] = {}
    for row in rows:
        groups.setdefault((str(row.difference), row.printed, row.trained), []).append(row)
    if len(groups) > NAMED:
        return f"{_count(len(rows))}, {_allow(rows, digits)}{_printed(rows, digits)}"
    return ", ".join(_detail(group, digits) for group in groups.values())


def _detail(rows: Sequence[Compared], digits: int) -> str:
    first, *others = rows
    difference = first.difference
    bounds = interval(difference["low"], difference["high"], digits)
    name = f"{first.row} and {len(others)} with the same predictions" if others else first.row
    text = f"{name} {signed(difference['value'], digits)} {bounds}"
    remarks = [f"printed {signed(first.printed, digits)}"] if first.printed is not None else []
    remarks += [first.trained] if first.trained else []
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _range(word: str, rows: Sequence[Compared], names: str, digits: int) -> str:
    """Write what the intervals of rows without a clear verdict allow; ``names`` is "" for all."""
    text = _allow(rows, digits) + _printed(rows, digits)
    if names:
        return f"{word}: {names}, {text}"
    return f"{'none significant' if word == NOT_SIGNIFICANT else word}, {text}"


def _printed(rows: Sequence[Compared], digits: int) -> str:
    """Write the range of the printed differences; "" without any."""
    printed = [row.printed for row in rows if row.printed is not None]
    if not printed:
        return ""
    ends = [signed(end, digits) for end in (min(printed), max(printed))]
    return f" (printed {' to '.join(dict.fromkeys(ends))})"


def _allow(rows: Sequence[Compared], digits: int) -> str:
    low = min(row.difference["low"] for row in rows)
    high = max(row.difference["high"] for row in rows)
    subject = "the interval allows" if len(rows) == 1 else "the intervals allow"
    return f"{subject} {signed(low, digits)} to {signed(high, digits)}"


def _names(rows: Sequence[Compared]) -> str:
    return _count(len(rows)) if len(rows) > NAMED else ", ".join(row.row for row in rows)


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def paper_verdicts(table: PaperTable) -> list[str]:
    """Return a sentence per column, and how many printed differences have which verdict.

    None for a table of standard deviations: the differences are of means.
    """
    if table["statistic"] == "sd":
        return []
    bases = [base for row in table["rows"] if (base := baseline_of(table, row))]
    lines: list[str] = []
    every: list[Compared] = []
    for base in {base["name"]: base for base in bases}.values():
        columns = {
            column["title"]: list(_compared(table, base, place))
            for place, column in enumerate(table["columns"])
        }
        title = _name(table, base["title"])
        sentences = column_sentences(title, columns, digits=2, margin=table.get("margin"))
        lines += [*sentences, *unequal_training(title, columns)] if sentences else []
        every += [row for rows in columns.values() for row in rows]
    return [*lines, *_counts(every)]


def _name(table: PaperTable, title: str) -> str:
    """Return a row's name; those of a curve are values of a key, such as ``k = 1``."""
    return f"{table['curve']} = {title}" if table["curve"] else title


def _compared(table: PaperTable, base: PaperRow, place: int) -> Iterator[Compared]:
    """Yield the differences of a column, with the printed ones where both values are printed."""
    against = base["cells"][place]
    for row in table["rows"]:
        cell = row["cells"][place]
        difference = cell.get("difference") if cell else None
        if cell is None or against is None or baseline_of(table, row) is not base:
            continue
        if not difference or difference["low"] is None:
            continue
        printed, other = cell["printed"], against["printed"]
        # 55.32 - 53.59 is 1.73 in decimals, and 1.7300000000000004 in floats
        apart = None if printed is None or other is None else round(printed - other, 6)
        trained = unlike(cell, against, untrained=_untrained(cell) != _untrained(against))
        yield Compared(_name(table, row["title"]), difference, apart, trained)


def _untrained(cell: PaperCell) -> bool:
    training = cell.get("training")
    return bool(training and training.get("untrained"))


def _counts(rows: list[Compared]) -> list[str]:
    """Count the verdicts about printed differences: one line, or none."""
    against = [row for row in rows if row.printed is not None]
    counts = Counter(
        "the baseline's predictions" if of_the_baseline(row) else verdict(row) for row in against
    )
    words = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    differences = "difference" if len(against) == 1 else "differences"
    return [f"Of {len(against)} printed {differences}: {words}."] if against else []
