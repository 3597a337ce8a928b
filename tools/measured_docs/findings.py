"""What stored sheets show, in a line per sheet, for the first screen of a page."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from multitask.reporting.sheet import Row, baseline_of, title_of
from multitask.reporting.statistics import sd_ratio
from multitask.reporting.table_formats import difference, markdown
from multitask.reporting.verdicts import (
    CANNOT_TELL,
    CLEAR,
    NOT_SIGNIFICANT,
    Compared,
    axis_values,
    compared_with,
    verdict,
)
from tools.measured_docs.grid_tables import load_sheet
from tools.measured_docs.store import StoredSheet

POINTS = "a value against the first of its axis, over the points of the others"
# differences of one verdict that are named; of more the smallest and the largest
NAMED = 5


def findings(names: str) -> str:
    """Write a line per sheet.

    ``names`` are ``grids/NAME = WORDS`` or ``papers/NAME = WORDS``, separated by semicolons;
    ``grids/NAME:ROW,ROW = WORDS`` is about some of the rows. The words say what is compared. Only
    rows that were trained like their baseline are compared.
    """
    lines = []
    for part in names.split("; "):
        name, _, words = part.partition(" = ")
        name, _, chosen = name.partition(":")
        sheet = load_sheet(name)
        named = chosen.split(",") if chosen else [row["name"] for row in sheet["rows"]]
        rows = [row for row in sheet["rows"] if row["name"] in named]
        bases = {row["baseline"]: base for row in rows if (base := baseline_of(sheet, row))}
        one, *others = (title_of(sheet, base["name"]) for base in bases.values())
        against = "each row's baseline" if others else one
        against = f"{_seeds(rows)}, compared with {against}"
        if sheet["statistic"] == "sd":
            found = _deviations(sheet, rows, bases)
        elif effects := _effects(sheet) if _counts(rows) == {1} else []:
            against, found = f"1 seed, on held-out rows, {POINTS}", _said(sheet, effects)
        else:
            found = _said(sheet, _differences(sheet, rows, bases))
        said = markdown(f"{against}: {found}.")
        lines.append(f"- {words}, {said}")
    return "\n".join(lines) + "\n"


def _seeds(rows: Sequence[Row]) -> str:
    """Say how many seeds the rows have, such as ``3 or 5 seeds``."""
    counts = _counts(rows)
    return f"{' or '.join(map(str, sorted(counts)))} {'seed' if counts == {1} else 'seeds'}"


def _counts(rows: Sequence[Row]) -> set[int]:
    """Return the numbers of seeds of the rows' cells."""
    return {len(c["values"]) for row in rows for c in row["cells"].values() if c} - {0}


def _deviations(sheet: StoredSheet, rows: Sequence[Row], bases: dict[str | None, Row]) -> str:
    """Count the standard deviations whose ratio to the baseline's has an interval without 1."""
    ratios = [
        ratio
        for row in rows
        if row["baseline"] in bases
        for name, cell in row["cells"].items()
        if cell and (base := bases[row["baseline"]]["cells"].get(name))
        if (ratio := sd_ratio(cell["values"], base["values"]))
    ]
    clear = sum(low > 1 or high < 1 for _, low, high in ratios)
    return f"another standard deviation: {clear}, {CANNOT_TELL}: {len(ratios) - clear}"


def _differences(
    sheet: StoredSheet, rows: Sequence[Row], bases: dict[str | None, Row]
) -> list[tuple[str, Compared]]:
    """Return the differences of the rows to their baselines, by row and column."""
    titles = {title_of(sheet, row["name"]) for row in rows}
    return [
        (f"{row.row} on {column}" if len(sheet["columns"]) > 1 else row.row, row)
        for base in bases.values()
        for column, all_rows in compared_with(sheet, base).items()
        for row in all_rows
        if row.row in titles
    ]


def _effects(sheet: StoredSheet) -> list[tuple[str, Compared]]:
    """Return what each value of an axis changes on held-out rows, where there are enough points."""
    return [
        (f"{title} on {sheet['columns'][name]['title']}", Compared(title, difference))
        for title, found, _ in axis_values(sheet, held_out=True)
        for name, difference in found.items()
        if difference["p_holm"] is not None
    ]


def _said(sheet: StoredSheet, every: list[tuple[str, Compared]]) -> str:
    """Say which differences are clear, as in ``higher: a +0.2 [+0.1, +0.3]``, and count others."""
    alike = [(place, row) for place, row in every if not row.trained]
    by_word: dict[str, list[tuple[str, Compared]]] = {}
    for place, row in alike:
        word = verdict(replace(row, printed=None), sheet.get("margin"))
        by_word.setdefault(word, []).append((place, row))
    digits = 2 if sheet["paper"] else 3
    parts = [f"{word}: {_listed(by_word[word], digits)}" for word in CLEAR if word in by_word]
    if open_ := by_word.pop(NOT_SIGNIFICANT, []):
        few = f"{NOT_SIGNIFICANT}: {len(open_)}"
        none = f"none of {_count(open_)} is significant"
        parts.append(f"{few if parts else none} ({_precision(open_, digits)})")
    parts += [f"{word}: {len(rows)}" for word, rows in by_word.items() if word not in CLEAR]
    if len(alike) < len(every):
        parts.append(f"left out, as they were not trained alike: {len(every) - len(alike)}")
    judged = [row for _, row in alike if row.printed is not None]
    if judged:
        each = Counter(map(verdict, judged)).most_common()
        counts = ", ".join(f"{count} {word}" for word, count in each)
        parts[-1] += f". Of {_count(judged, 'printed ')}: {counts}"
    return "; ".join(parts)


def _count(rows: Sequence[object], kind: str = "") -> str:
    return f"{len(rows)} {kind}difference{'s' if len(rows) > 1 else ''}"


def _listed(rows: list[tuple[str, Compared]], digits: int) -> str:
    """Write each difference with its interval; of many their number and the two ends."""
    texts = []
    for place, row in sorted(rows, key=lambda each: abs(each[1].difference["value"])):
        texts.append(f"{place} {difference(row.difference, digits)}")
    if len(texts) <= NAMED:
        return ", ".join(texts)
    return f"{len(texts)}, from {texts[0]} to {texts[-1]}"


def _precision(rows: list[tuple[str, Compared]], digits: int) -> str:
    """Say how wide the intervals are: half of the median one."""
    widths = [row.difference["high"] - row.difference["low"] for _, row in rows]
    return f"median interval ± {statistics.median(widths) / 2:.{digits}f}"
