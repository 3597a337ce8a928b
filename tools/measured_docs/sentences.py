"""Say in words what the differences of a stored grid or paper's table show."""

from multitask.reporting.table_formats import markdown
from multitask.reporting.verdicts import comparison_verdicts, paper_verdicts
from tools.measured_docs.grid_tables import load_grid, load_paper


def says(name: str) -> str | None:
    """Write the sentences about ``grids/NAME`` or ``papers/NAME``; None if it is not measured."""
    kind, _, file = name.partition("/")
    lines: list[str] = []
    if kind == "grids" and (comparison := load_grid(file)):
        lines = comparison_verdicts(comparison)
    if kind == "papers" and (stored := load_paper(file)):
        lines = paper_verdicts(stored["table"])
    if not lines:
        return None
    text = ""
    for line in map(markdown, lines):  # a paragraph for each baseline, its sentences below it
        alone = line.startswith(("Compared with ", "Of "))
        text += f"\n{line}\n\n" if alone else f"- {line}\n"
    return text.strip("\n") + "\n"
