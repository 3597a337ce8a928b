"""Tables of plain cells as aligned text, Markdown and LaTeX."""

import html
import re
from collections.abc import Sequence

Cells = Sequence[str]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def score(value: float | None) -> str:
    """Three digits, ``-`` where there is no score."""
    return "-" if value is None else f"{value:.3f}"


def signed(value: float | None, digits: int = 3) -> str:
    """A difference with its sign (a rounded zero has a plus), ``-`` where there is none."""
    return "-" if value is None else f"{value:+z.{digits}f}"


def text_table(header: Cells, rows: Sequence[Cells]) -> str:
    """Left-aligned columns, two spaces apart, with a rule under the header."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(shown)


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, in a table cell too: no HTML, no markup, one line."""
    line = html.escape(" ".join(text.split()), quote=False)
    # A bracket alone is harmless: only "](" makes a link.
    return re.sub(r"([\\`*_|~$#]|(?<=\])\()", r"\\\1", line)


def markdown_table(header: Cells, rows: Sequence[Cells]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex(text: str) -> str:
    """Text that LaTeX shows as it is, on one line; the minus of a number is a real one."""
    escaped = "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)


def latex_table(header: Cells, rows: Sequence[Cells]) -> str:
    """A booktabs tabular of cells that are LaTeX already: the first column left, others centred."""
    lines = [" & ".join(line) + r" \tabularnewline" for line in [header, *rows]]
    columns = "l" + "c" * (len(header) - 1)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"])
