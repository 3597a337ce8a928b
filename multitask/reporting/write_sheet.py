"""Write the files of a comparison and of a paper's table."""

import json
from pathlib import Path

from multitask.reporting.comparison_page import comparison_page
from multitask.reporting.figures.dots import draw_all
from multitask.reporting.html_page import write_html
from multitask.reporting.sheet import FACTS, Comparison, PaperTable, check_comparison
from multitask.reporting.sheet_tables import (
    csv_text,
    latex_text,
    markdown_text,
    paper_csv,
    paper_latex,
    paper_markdown,
)
from multitask.utils.files import remove_scraps, write_text
from multitask.utils.outputs import check_replaced

PAPER_FACTS = "paper.json"


def write_comparison(directory: Path, comparison: Comparison) -> list[Path]:
    """Write comparison.json, table.md, .csv and .tex, the figures and report.html.

    Returns their paths. Raises UserError for a damaged log of a run, and for a file of others.
    """
    check_comparison(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    texts = {
        FACTS: json.dumps(comparison, indent=1, ensure_ascii=False) + "\n",
        "table.md": markdown_text(comparison),
        "table.csv": csv_text(comparison),
        "table.tex": latex_text(comparison),
    }
    for name, text in texts.items():
        write_text(directory / name, text)
    figures = draw_all(directory, comparison)
    page = directory / "report.html"
    write_html(comparison_page(directory, comparison), page)
    return [*(directory / name for name in texts), *figures, page]


def check_paper_table(directory: Path) -> None:
    """Raise UserError if a paper's table would replace files that none has written."""
    names = ("paper.md", "paper.csv", "paper.tex", "paper_scores.png", "paper_gain.png")
    check_replaced(directory / PAPER_FACTS, ("statistic", "columns", "rows"), names)


def write_paper_table(directory: Path, table: PaperTable) -> list[Path]:
    """Write paper.json, .md, .csv and .tex; returns their paths."""
    check_paper_table(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    texts = {
        PAPER_FACTS: json.dumps(table, indent=1, ensure_ascii=False) + "\n",
        "paper.md": paper_markdown(table),
        "paper.csv": paper_csv(table),
        "paper.tex": paper_latex(table),
    }
    for name, text in texts.items():
        write_text(directory / name, text)
    return [directory / name for name in texts]
