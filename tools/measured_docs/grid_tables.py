"""Tables of grids (`ablate`, `report`) and of papers (`table`), and what they show in words."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from multitask.reporting import sheet_tables
from multitask.reporting.layout import load_layout
from multitask.reporting.sheet import titles
from multitask.reporting.statistics import holm
from multitask.reporting.table_formats import Table, markdown, message, number
from multitask.reporting.verdicts import Compared, sentence, verdicts
from tools.measured_docs.store import RESULTS, ROOT, StoredSheet, source_line

# notes below every table, which docs/measured/README.md has once
READ_ONCE = (
    "Differences to ",
    "p is two-sided, ",
    "Few seeds are ",
    "Training times are ",
    "Updates and trained rows are ",
)


def load_sheet(name: str) -> StoredSheet:
    """Load ``grids/NAME`` or ``papers/NAME``; FileNotFoundError if it was not measured yet."""
    sheet: StoredSheet = json.loads((RESULTS / f"{name}.json").read_text())
    return sheet


def sheet(name: str) -> str:
    """Write all tables of ``grids/NAME`` or ``papers/NAME``, and their source."""
    return _page(load_sheet(name))


def summary(name: str) -> str:
    """Write our scores and differences of a sheet; another page has the rest.

    Of a grid these are the dev scores, the difference of the mean and the training; of a paper's
    table our values and their differences.
    """
    stored = load_sheet(name)
    return _ours(stored) if stored.get("paper") else _scores(stored)


def _ours(stored: StoredSheet) -> str:
    stored["columns"] = {
        name: column for name, column in stored["columns"].items() if "over" not in column
    }
    for cell in (cell for row in stored["rows"] for cell in row["cells"].values()):
        cell.update({"printed": None, "epoch_seconds": None, "dev_seconds": None})
    stored["paper"] = {"source": None}
    return _page(stored)


def _scores(stored: StoredSheet) -> str:
    table = sheet_tables.score_table(stored)
    header, rows = [*table.header], [[*row] for row in table.rows]
    difference = sheet_tables.difference_table(stored)
    others = [*sheet_tables.training_tables(stored).values()]
    if difference:
        title = f"mean: {sheet_tables.difference_title(stored).replace('D', 'd', 1)}"
        others.insert(0, Table(("", title), [[row[0], row[-1]] for row in difference.rows]))
    for other in others:
        header += other.header[1:]
        cells = {name: of_row for name, *of_row in other.rows}
        missing = ["-"] * (len(other.header) - 1)
        rows = [[*row, *cells.get(row[0], missing)] for row in rows]
    return _with_source([Table(header, rows, table.marked).markdown()], stored)


def _page(stored: StoredSheet) -> str:
    tables = [
        f"{markdown(title)}:\n\n{table.markdown()}"
        for title, table in sheet_tables.titled_tables(stored)
    ]
    return _with_source(tables, stored)


def _with_source(parts: Sequence[str], stored: StoredSheet) -> str:
    """Add the notes and the source; a separate block has the verdicts (``says``)."""
    stored["verdicts"] = []
    notes = sheet_tables.remarks(stored) if stored.get("paper") else stored["notes"]
    listed = "\n".join(f"- {message(note)}" for note in notes if not note.startswith(READ_ONCE))
    return "\n\n".join(filter(None, [*parts, listed, source_line(stored["source"])])) + "\n"


def metrics(name: str) -> str:
    """Write every metric on dev of ``grids/NAME``, task by task, beside the trivial guess."""
    stored = load_sheet(name)
    tables = [
        f"{task}:\n\n{table.markdown()}" for task, table in sheet_tables.metric_tables(stored)
    ]
    return "\n\n".join([*tables, source_line(stored["source"])]) + "\n"


def says(name: str) -> str | None:
    """Write the sentences about ``grids/NAME`` or ``papers/NAME``; None if there are none."""
    stored = load_sheet(name)
    text = ""
    for line in map(markdown, verdicts(stored)):  # a paragraph per baseline, its sentences below it
        alone = line.startswith(("Compared with ", "Of "))
        text += f"\n{line}\n\n" if alone else f"- {line}\n"
    return text.strip("\n") + "\n" if text else None


# the name of a difference, and the seeds' scores of both rows by column
Pair = tuple[str, dict[str, Sequence[float]], dict[str, Sequence[float]]]


def paired(name: str) -> str:
    """Write the difference of the second of two rows to the first, for a sheet of such pairs.

    ``SHEET:ROW:ROW:...`` names the rows.
    """
    name, *wanted = name.split(":")
    stored = load_sheet(name)
    named = {row["name"]: row for row in stored["rows"]}
    rows = [named[row] for row in wanted or named]
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return _over_seeds(
        stored,
        [
            (f"{second['name']} - {first['name']}", _values(first), _values(second))
            for first, second in pairs
        ],
    )


def effects(name: str) -> str:
    """Write the difference of each value of a grid's axes to the axis' first value.

    It is the mean over the points of the other axes, seed by seed.
    """
    stored = load_sheet(name)
    pairs: list[Pair] = []
    for axis in stored["axes"]:
        first, *others = (
            _mean_values([row for row in stored["rows"] if row["point"][axis["key"]] == label])
            for label in axis["labels"]
        )
        for label, values in zip(axis["labels"][1:], others, strict=True):
            pairs.append((f"{axis['key']}: {label} - {axis['labels'][0]}", first, values))
    return _over_seeds(stored, pairs)


def together(names: str) -> str:
    """Write what training tasks together changes, over runs of one task each.

    ``names`` is ``ALONE,SHEET:ROW:ROW``: in the sheet ``ALONE`` the row of a column begins with the
    name of its task; the rows of ``SHEET`` trained all tasks.
    """
    alone, _, rest = names.partition(",")
    sheet, *rows = rest.split(":")
    single, joint = load_sheet(alone), load_sheet(sheet)
    values: dict[str, Sequence[float]] = {
        name: row["cells"][name]["values"]
        for name, column in single["columns"].items()
        for row in single["rows"]
        if row["name"].startswith(column["task"])
    }
    named = {row["name"]: row for row in joint["rows"]}
    pairs: list[Pair] = [
        (f"{named[row]['title']} - one task per run", values, _values(named[row])) for row in rows
    ]
    return f"{_over_seeds(joint, pairs)}\n{source_line(joint['source'])}\n"


def _values(row: Any) -> dict[str, Sequence[float]]:
    return {name: cell["values"] for name, cell in row["cells"].items()}


def _mean_values(rows: Sequence[Any]) -> dict[str, Sequence[float]]:
    """Return the mean over rows, seed by seed."""
    return {
        name: np.mean([row["cells"][name]["values"] for row in rows], axis=0).tolist()
        for name in rows[0]["cells"]
    }


def _over_seeds(stored: StoredSheet, pairs: Sequence[Pair]) -> str:
    """Write the second of each pair minus the first.

    The test is scipy's paired t-test over seeds, which takes the dev rows as fixed. p is corrected
    over the pairs by Holm's method.
    """
    rows, said = [[name] for name, _, _ in pairs], []
    for column in stored["columns"]:
        compared = []
        tests = [ttest_rel(second[column], first[column]) for _, first, second in pairs]
        corrected = holm([test.pvalue for test in tests])
        for row, (name, first, second), test, p in zip(rows, pairs, tests, corrected, strict=True):
            low, high = test.confidence_interval(stored["confidence"])
            value = float(np.mean(second[column]) - np.mean(first[column]))
            gain: Any = {"value": value, "low": low, "high": high, "p_holm": p}
            row.append(sheet_tables.difference_cell(gain))
            compared.append(Compared(name, gain))
        said.append(f"- {markdown(sentence(stored['columns'][column]['title'], compared))}")
    table = Table(("over seeds", *titles(stored)), rows)
    return "\n".join([table.markdown(), "", *said]) + "\n"


def printed(name: str) -> str:
    """Write what a paper prints, from the layout ``configs/NAME.yaml``; nothing is computed."""
    layout = load_layout(ROOT / "configs" / f"{name}.yaml")
    keys = [key for key, row in layout.rows.items() if row.printed]
    columns = {
        column.title: [layout.rows[key].printed[place] for key in keys]
        for place, column in enumerate(layout.columns)
    }
    shown = {title: _as_printed(values) for title, values in columns.items() if any(values)}
    point = f"{layout.curve} = " if layout.curve else ""
    names = [point + (layout.rows[key].title or key) for key in keys]
    table = Table(("", *shown), list(zip(names, *shown.values(), strict=True)))
    note = f"Printed: {layout.source}." if layout.source else ""
    return "\n\n".join(filter(None, [table.markdown(), note])) + "\n"


def _as_printed(values: Sequence[float | None]) -> list[str]:
    """Write each value with its decimals; to a shorter one zeros are added, up to two decimals.

    YAML drops the zeros of a printed 4.30. Values with more than two decimals stay as they are.
    """
    decimals = [0 if v is None else len(str(v).partition(".")[2]) for v in values]
    least = min(2, max(decimals))
    return [
        number(value, f".{max(count, least)}f")
        for value, count in zip(values, decimals, strict=True)
    ]
