"""Write the files of a sheet: a comparison, or a paper's table."""

import json
from pathlib import Path

from multitask.reporting import sheet_tables
from multitask.reporting.comparison_page import comparison_page
from multitask.reporting.figures.dots import draw_all, draw_paper_table
from multitask.reporting.html_page import write_html
from multitask.reporting.page import tables_page
from multitask.reporting.sheet import Sheet
from multitask.reporting.table_formats import latex_float
from multitask.store.files import remove_scraps, write_text
from multitask.store.outputs import check_output


def write_sheet(directory: Path, sheet: Sheet) -> list[Path]:
    """Write JSON, Markdown, CSV, LaTeX and figures; of a comparison also report.html.

    Returns their paths. Raises UserError for a damaged log of a run, and for a directory of others.
    """
    check_output(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    facts, stem = ("paper.json", "paper") if sheet["paper"] else ("comparison.json", "table")
    texts = {
        facts: json.dumps(sheet, indent=1, ensure_ascii=False) + "\n",  # says whose the files are
        f"{stem}.md": sheet_tables.markdown_text(sheet),
        f"{stem}.csv": sheet_tables.csv_text(sheet),
        f"{stem}.tex": sheet_tables.latex_text(sheet),
    }
    if tables := sheet_tables.metric_tables(sheet):
        shown = [f"Every metric on dev: {sheet_tables.SHOWN['mean']}."]
        texts["metrics.md"] = tables_page("Every metric", tables, shown)
        texts["metrics.tex"] = latex_float(tables, shown)
    for name, text in texts.items():
        write_text(directory / name, text)
    files = [directory / name for name in texts]
    if sheet["paper"]:
        return [*files, *draw_paper_table(directory, sheet)]
    files += [*draw_all(directory, sheet), directory / "report.html"]
    write_html(comparison_page(directory, sheet), files[-1])
    return files
