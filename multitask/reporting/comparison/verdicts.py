# Tested by tests/tools/measured_docs/test_sentences.py
"""Say in words what the differences of a comparison show.

A difference excludes 0 only if its interval does and its p, after Holm's correction, is below
``SIGNIFICANT``. Without a p, as a side has one seed, there is no verdict. A printed difference is
compared only with one that excludes 0, of rows that were trained alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multitask.reporting.comparison import score_tables
from multitask.reporting.comparison.amounts import unlike
from multitask.reporting.comparison.comparison_json import Comparison, Difference
from multitask.reporting.table_formats import interval, signed

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
    differences = score_tables.differences(comparison)
    tasks = [*comparison["tasks"]]

    def compared(row: str, place: int, difference: Difference) -> Compared:
        of_column = set(tasks[place : place + 1] or tasks)  # the last column is their mean
        apart = {*groups[row].get("untrained", [])} ^ {*base.get("untrained", [])}
        trained = unlike(groups[row], base, untrained=bool(apart & of_column))
        return Compared(row, difference, trained=trained)

    columns = {
        title: [
            compared(row, place, difference)
            for row, line in differences.items()
            if (difference := line[place]) and difference["low"] is not None
        ]
        for place, title in enumerate(score_tables.columns(comparison))
    }
    *tasks, mean = columns
    if columns[mean] in [
        columns[task] for task in tasks
    ]:  # only this task counts, or no row differs
        del columns[mean]
    lines = column_sentences(base["name"], columns, margin=comparison.get("margin"))
    return [*lines, *unequal_training(base["name"], columns)] if lines else []


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
