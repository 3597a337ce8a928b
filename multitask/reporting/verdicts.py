"""Say in words what the differences of a sheet show.

A difference excludes 0 only if its interval does and its p, after Holm's correction, is below
``SIGNIFICANT``. Without a p, as a side has one seed, there is no verdict. A printed difference is
compared only with one that excludes 0, of rows that were trained alike.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from multitask.reporting import sheet as sheets
from multitask.reporting import table_formats
from multitask.reporting.grid_axes import axis_labels
from multitask.reporting.sheet import Difference, Row, Sheet
from multitask.reporting.table_formats import signed

# two rows with more than this ratio of a count are not trained alike
ALIKE = 1.01
SIGNIFICANT = 0.05
HIGHER, LOWER, EQUAL, NOT_SIGNIFICANT = "higher", "lower", "equal", "not significant"
AS_PRINTED, LARGER, SMALLER, OPPOSITE, CANNOT_TELL = (
    "as printed",
    "larger than printed",
    "smaller than printed",
    "opposite to what is printed",
    "cannot tell",
)
ONE_SEED, PRINTED_0, UNEQUAL, SAME = (
    "no verdict from one seed",
    "no verdict against a printed 0",
    "no verdict, as they were not trained alike",
    "the baseline's predictions",
)
# in the order of a sentence
CLEAR = (HIGHER, LOWER, AS_PRINTED, LARGER, SMALLER, OPPOSITE, EQUAL)
NONE = (ONE_SEED, PRINTED_0, SAME)
WORDS = (*CLEAR, CANNOT_TELL, NOT_SIGNIFICANT, UNEQUAL, *NONE)
# rows of one verdict that are named; more are counted
NAMED = 6


@dataclass(frozen=True)
class Compared:
    """A row's difference to the baseline in one column.

    Attributes:
        row: the title of the row.
        difference: its difference.
        printed: the paper's difference, in the same unit; None if there is none.
        trained: how its training differs (``unlike``); "" if it does not.
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
    if difference["value"] == low == high == 0:  # as rows of a probe grid have
        return SAME
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


def verdicts(sheet: Sheet) -> list[str]:
    """Return a sentence per baseline and column, and a count of those about printed differences.

    None for a table of standard deviations: the differences are of means.
    """
    if sheet["statistic"] == "sd":
        return []
    bases = {
        row["baseline"]: base for row in sheet["rows"] if (base := sheets.baseline_of(sheet, row))
    }
    digits, lines = 2 if sheet["paper"] else 3, []
    against: list[Compared] = []
    for base in bases.values():
        by_title = compared_with(sheet, base)
        every = [row for rows in by_title.values() for row in rows]
        if not every:
            continue
        tested = any(row.difference["p_holm"] is not None for row in every)
        end = f"; significant: Holm's p is below {SIGNIFICANT:g}." if tested else "."
        lines.append(f"Compared with {sheets.title_of(sheet, base['name'])}{end}")
        for column, rows in by_title.items():
            lines.append(sentence(column, rows, digits=digits, margin=sheet.get("margin")))
        against += [row for row in every if row.printed is not None]
    if against:
        counts = Counter(map(verdict, against)).most_common()
        words = ", ".join(f"{count} {word}" for word, count in counts)
        noun = "difference" if len(against) == 1 else "differences"
        lines.append(f"Of {len(against)} printed {noun}: {words}.")
    return [*lines, *_axis_verdicts(sheet)]


def axis_values(
    sheet: Sheet, *, held_out: bool = False
) -> Iterator[tuple[str, dict[str, Difference], int]]:
    """Yield each value of an axis with its differences to the first value, and how many points.

    A value is called ``epochs: 4, not 2``.
    """
    for key, lines in groupby(sheet.get("marginals", []), lambda line: line["axis"]):
        axis = next(axis for axis in sheet["axes"] if axis["key"] == key)
        labels, (first, *others) = axis_labels(axis), lines
        for each in others:
            cells = {name: cell for name, cell in each["cells"].items() if cell}
            found = {n: d for n, cell in cells.items() if (d := cell.get("difference"))}
            found = each.get("holdout", {}) if held_out else found
            title = f"{key}: {labels[each['label']]}, not {labels[first['label']]}"
            if found:
                yield title, found, max(cell["cells"] for cell in cells.values())


def _axis_verdicts(sheet: Sheet) -> list[str]:
    """Return a sentence per column about the values of the axes that have a p."""
    rows: dict[str, list[Compared]] = {}  # by column
    for held_out, where in ((True, "held-out rows, "), (False, "")):
        for title, found, _ in axis_values(sheet, held_out=held_out):
            for name, difference in found.items():
                if difference["p_holm"] is not None:
                    column = where + sheet["columns"][name]["title"]
                    rows.setdefault(column, []).append(Compared(title, difference))
    heading = "Values compared with the first of their axis, over the points of the others:"
    margin = sheet.get("margin")
    lines = [sentence(column, of, digits=4, margin=margin) for column, of in rows.items()]
    return [heading, *lines] if lines else []


def compared_with(sheet: Sheet, base: Row) -> dict[str, list[Compared]]:
    """Return the differences to a baseline, by the title of their column.

    The mean of the tasks is left out if only one task counts for it.
    """
    columns = {
        name: [each for row in sheet["rows"] if (each := compared(sheet, row, base, name))]
        for name in sheet["columns"]
    }
    of_tasks = [rows for name, rows in columns.items() if name != sheets.MEAN]
    if columns.get(sheets.MEAN) in of_tasks:
        del columns[sheets.MEAN]
    return {sheet["columns"][name]["title"]: rows for name, rows in columns.items() if rows}


def compared(sheet: Sheet, row: Row, base: Row, column: str) -> Compared | None:
    """Return a row's difference in a column, with the printed one where both values are printed.

    None if the row is compared with another one, or has no difference.
    """
    cell, other = row["cells"].get(column), base["cells"].get(column)
    difference = cell.get("difference") if cell else None
    if row["baseline"] != base["name"] or not (cell and other and difference):
        return None
    if difference["low"] is None:
        return None
    apart = sheets.printed_difference(cell, other)
    task = sheet["columns"][column].get("task")  # the mean has none: every task counts
    ours, theirs = sheets.facts(row, column), sheets.facts(base, column)
    sides = ({*ours.get("untrained", [])}, {*theirs.get("untrained", [])})
    differing = sides[0] ^ sides[1]
    trained = unlike(ours, theirs, untrained=task in differing or (not task and bool(differing)))
    return Compared(sheets.title_of(sheet, row["name"]), difference, apart, trained)


def unlike(own: Mapping[str, Any], base: Mapping[str, Any], *, untrained: bool = False) -> str:
    """Say how the training of two rows differs, as ``33 % of the updates``; "" if it does not.

    ``untrained``: only one of them was trained on the task that is compared.
    """
    names: dict[str, list[str]] = {}  # by the share
    for key in ("updates", "trained_rows"):
        count, other = own.get(key), base.get(key)
        if count and other and differ([count, other]):
            names.setdefault(f"{100 * count / other:.0f} %", []).append(key.replace("_", " "))
    ways = [f"{share} of the {' and '.join(of)}" for share, of in names.items()]
    return ", ".join([*ways, *(["only one was trained on the task"] if untrained else [])])


def differ(counts: Sequence[int | None]) -> bool:
    """Return True if all counts are known and differ by more than a percent."""
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) > 0 and max(known) > ALIKE * min(known)


def sentence(
    column: str, rows: Sequence[Compared], *, digits: int = 3, margin: float | None = None
) -> str:
    """Say the verdicts of a column's rows, such as ``sst: higher: a +0.2 [+0.1, +0.3].``."""
    by_word: dict[str, list[Compared]] = {}
    for row in rows:
        by_word.setdefault(verdict(row, margin), []).append(row)
    parts = [
        f"{word} within {margin:g}: {listed}" if word == EQUAL else f"{word}: {listed}"
        for word in WORDS
        if word in by_word
        for listed in [_listed(by_word[word], digits, names_only=word in NONE)]
    ]
    return f"{column}: {'; '.join(parts)}."


def _listed(rows: Sequence[Compared], digits: int, *, names_only: bool) -> str:
    """Write each row's difference and interval; of many rows their number and what is allowed."""
    if names_only:
        return f"{len(rows)} rows" if len(rows) > NAMED else ", ".join(row.row for row in rows)
    if len(rows) > NAMED:
        low = signed(min(row.difference["low"] for row in rows), digits)
        high = signed(max(row.difference["high"] for row in rows), digits)
        unequal = sum(bool(row.trained) for row in rows)
        apart = f" ({unequal} not trained like the baseline)" if unequal else ""
        return f"{len(rows)} rows{apart}, the intervals allow {low} to {high}"
    texts = []
    for row in rows:
        remarks = [] if row.printed is None else [f"printed {signed(row.printed, digits)}"]
        remarks += [row.trained] if row.trained else []
        text = f"{row.row} {table_formats.difference(row.difference, digits)}"
        texts.append(f"{text} ({', '.join(remarks)})" if remarks else text)
    return ", ".join(texts)
