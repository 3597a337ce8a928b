"""Write the files of a comparison and of a paper's table."""

import json
from collections.abc import Mapping
from pathlib import Path

from multitask.reporting import sheet_tables
from multitask.reporting.comparison_page import comparison_page
from multitask.reporting.figures.dots import draw_all
from multitask.reporting.html_page import write_html
from multitask.reporting.sheet import FACTS, Comparison, PaperTable, check_comparison
from multitask.store.files import remove_scraps, write_text
from multitask.store.outputs import check_replaced

PAPER_FACTS = "paper.json"


def write_comparison(directory: Path, comparison: Comparison) -> list[Path]:
    """Write comparison.json, table.md, .csv and .tex, the figures and report.html.

    Returns their paths. Raises UserError for a damaged log of a run, and for a file of others.
    """
    check_comparison(directory)
    texts = {
        "table.md": sheet_tables.markdown_text(comparison),
        "table.csv": sheet_tables.csv_text(comparison),
        "table.tex": sheet_tables.latex_text(comparison),
    }
    files, page = _write(directory, FACTS, comparison, texts), directory / "report.html"
    files += draw_all(directory, comparison)
    write_html(comparison_page(directory, comparison), page)
    return [*files, page]


def check_paper_table(directory: Path) -> None:
    """Raise UserError if a paper's table would replace files that none has written."""
    names = ("paper.md", "paper.csv", "paper.tex", "paper_scores.png", "paper_gain.png")
    check_replaced(directory / PAPER_FACTS, ("statistic", "columns", "rows"), names)


def write_paper_table(directory: Path, table: PaperTable) -> list[Path]:
    """Write paper.json, .md, .csv and .tex; returns their paths."""
    check_paper_table(directory)
    texts = {
        "paper.md": sheet_tables.paper_markdown(table),
        "paper.csv": sheet_tables.paper_csv(table),
        "paper.tex": sheet_tables.paper_latex(table),
    }
    return _write(directory, PAPER_FACTS, table, texts)


def _write(directory: Path, facts: str, sheet: object, texts: Mapping[str, str]) -> list[Path]:
    """Write the sheet as JSON, which says whose the files are, and then its texts."""
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    made = {facts: json.dumps(sheet, indent=1, ensure_ascii=False) + "\n", **texts}
    for name, text in made.items():
        write_text(directory / name, text)
    return [directory / name for name in made]
