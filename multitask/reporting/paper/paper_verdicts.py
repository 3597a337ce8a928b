# Tested by tests/tools/measured_docs/test_sentences.py
"""Say in words what the differences of a paper's table show, next to the printed ones."""

from collections import Counter
from collections.abc import Iterator

from multitask.reporting.comparison.amounts import unlike
from multitask.reporting.comparison.verdicts import (
    Compared,
    column_sentences,
    of_the_baseline,
    unequal_training,
    verdict,
)
from multitask.reporting.paper.paper_json import PaperCell, PaperRow, PaperTable, baseline_of


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
