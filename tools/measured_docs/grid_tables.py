"""Tables of grids (`ablate`, `report`) and of papers (`table`)."""

import json
from typing import Any

from scipy.stats import ttest_rel

from multitask.reporting.comparison import score_tables
from multitask.reporting.comparison.significance import holm
from multitask.reporting.comparison.verdicts import Compared, sentence
from multitask.reporting.paper.paper_files import paper_markdown
from multitask.reporting.table_formats import Table, markdown, markdown_table
from tools.measured_docs.store import RESULTS, StoredComparison, StoredPaper, source_line

GRIDS = RESULTS / "grids"
PAPERS = RESULTS / "papers"
# The tables of the multi-task mini-BERT paper: row, cell of configs/papers/multitask_minibert.yaml,
# printed values
MINIBERT_TABLE_1 = [
    ('"STS finetuned" (a misprint: SST)', "sst_finetuned", "sst", 0.528),
    ("QQP finetuned", "qqp_finetuned", "qqp", 0.838),
    ("STS-B Finetuned", "sts_finetuned", "sts", 0.421),
]
MINIBERT_TABLE_2 = [
    ("SST-Finetuned BERT", "sst_finetuned", (0.528, 0.510, 0.283)),
    ("MultiTask BERT", "multitask", (0.480, 0.835, 0.679)),
    ("SBert(MAX,MAX,MAX)", "max_max_max", (0.358, 0.742, 0.630)),
    ("SBert(MEAN,MEAN,MEAN)", "mean_mean_mean", (0.342, 0.826, 0.657)),
    ("SBert(CLS,MEAN,MEAN)", "cls_mean_mean", (0.500, 0.866, 0.767)),
    ("Original PALs", "pals", (0.491, 0.869, 0.580)),
]


def load_grid(name: str) -> StoredComparison | None:
    """Load a stored comparison; return None if it was not measured yet."""
    file = GRIDS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def load_paper(name: str) -> StoredPaper | None:
    """Load a stored table of a paper; return None if it was not measured yet."""
    file = PAPERS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def _notes(comparison: StoredComparison) -> list[str]:
    """Write what a reader must know, such as missing runs: one list of lines, or nothing."""
    notes = "\n".join(f"- {note}" for note in comparison["notes"])
    return [notes] if notes else []


def grid(name: str) -> str | None:
    """Write all tables of a grid, and their source."""
    comparison = load_grid(name)
    if comparison is None:
        return None
    parts = [
        f"{markdown(title)}:\n\n{table.markdown()}"
        for title, table in score_tables.titled_tables(comparison)
    ]
    return "\n\n".join([*parts, *_notes(comparison), source_line(comparison["source"])]) + "\n"


def scores(name: str) -> str | None:
    """Write a grid's dev scores with the difference of the mean and the time, and their source.

    The grid's page has the rest: the held-out rows, and the difference of each task.
    """
    comparison = load_grid(name)
    if comparison is None:
        return None
    score_table = score_tables.score_table(comparison)
    header, rows = [*score_table.header], [[*row] for row in score_table.rows]
    difference = (
        f"mean: {score_tables.difference_title(comparison).replace('Difference', 'difference')}"
    )
    for title, other in (
        (difference, score_tables.difference_table(comparison)),
        ("time of an epoch", score_tables.time_table(comparison)),
    ):
        if other is not None:
            last = {name: cells[-1] for name, *cells in other.rows}
            header.append(title)
            rows = [[*row, last.get(row[0], "-")] for row in rows]
    table = Table(header, rows, score_table.marked).markdown()
    return "\n\n".join([table, *_notes(comparison), source_line(comparison["source"])]) + "\n"


def paired(name: str) -> str | None:
    """Write the difference of the second of two groups to the first, for a grid of such pairs.

    The test is scipy's paired t-test over seeds, which takes the dev rows as fixed. p is corrected
    over the pairs by Holm's method.
    """
    comparison = load_grid(name)
    if comparison is None:
        return None
    groups = comparison["groups"]
    pairs = list(zip(groups[::2], groups[1::2], strict=True))
    rows = [[f"{second['name']} - {first['name']}"] for first, second in pairs]
    said = []
    for column, title in enumerate(score_tables.columns(comparison)):
        compared = []
        entries: list[list[Any]] = [
            [score_tables.entries(comparison, group)[column] for group in pair] for pair in pairs
        ]
        tests = [ttest_rel(second["values"], first["values"]) for first, second in entries]
        corrected = holm([test.pvalue for test in tests])
        for row, (first, second), test, p in zip(rows, entries, tests, corrected, strict=True):
            low, high = test.confidence_interval(comparison["confidence"])
            gain: Any = {
                "value": second["mean"] - first["mean"],
                "low": low,
                "high": high,
                "p_holm": p,
            }
            row.append(score_tables.difference_cell(gain))
            compared.append(Compared(row[0], gain))
        said.append(f"- {markdown(sentence(title, compared))}")
    table = Table(("over seeds", *score_tables.columns(comparison)), rows)
    return "\n".join([table.markdown(), "", *said]) + "\n"


def minibert(_: str) -> str | None:
    """Write the two tables of the multi-task mini-BERT paper, our values next to the printed."""
    comparison = load_grid("multitask_minibert")
    if comparison is None:
        return None
    groups = {group["name"]: group for group in comparison["groups"]}

    def measured(cell: str, task: str) -> str:
        entry = groups[cell]["tasks"].get(task) if cell in groups else None
        if entry is None or entry["mean"] is None:
            return "-"
        return f"{entry['mean']:.3f}" + (f" ± {entry['sd']:.3f}" if entry["sd"] else "")

    first = [[label, f"{printed:.3f}", measured(cell, task)]
             for label, cell, task, printed in MINIBERT_TABLE_1]  # fmt: skip
    tasks = ("sst", "qqp", "sts")
    second = [
        [label, *(text for task, value in zip(tasks, printed, strict=True)
                  for text in (f"{value:.3f}", measured(cell, task)))]
        for label, cell, printed in MINIBERT_TABLE_2
    ]  # fmt: skip
    titles = ("SST DEV", "QQP DEV", "STS-B DEV")
    header = ["Method", *(text for title in titles for text in (f"{title}, printed", "ours"))]
    return "\n\n".join([
        "Table 1, BERT single-task fine-tuning (dev):",
        markdown_table(("Method", "printed", "ours"), first),
        "Table 2, multi-task BERT models (dev):",
        markdown_table(header, second),
        *_notes(comparison),
        source_line(comparison["source"]),
    ]) + "\n"  # fmt: skip


def paper(name: str) -> str | None:
    """Write a paper's table with our values in it, and their source."""
    stored = load_paper(name)
    return None if stored is None else _as_page(stored)


def ours(name: str) -> str | None:
    """Write our scores and differences of a paper's table; its page has the rest."""
    stored = load_paper(name)
    if stored is None:
        return None
    table = stored["table"]
    for cell in filter(None, (cell for row in table["rows"] for cell in row["cells"])):
        cell.update({"printed": None, "epoch_seconds": None, "dev_seconds": None})
    table.update({"source": None, "averages": []})
    return _as_page(stored)


def _as_page(stored: StoredPaper) -> str:
    """Write the tables and their notes; the verdicts are a block of their own (``says``)."""
    stored["table"]["verdicts"] = []
    text = paper_markdown(stored["table"]).partition("\n\n")[2].replace("## ", "### ")
    return f"{text}\n{source_line(stored['source'])}\n"
