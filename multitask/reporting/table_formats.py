"""A table of plain cells, and its four writers: text for the terminal, Markdown, LaTeX and CSV.

We do not use the writers of pandas: cells are strings that are already rounded, some are marked,
and pandas aligns and escapes them differently and takes 0.7 s to load.
"""

import csv
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def number(value: float | None, pattern: str) -> str:
    """Format a number with a pattern such as ``.2f``; ``-`` for None and NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:{pattern}}"


def score(value: float | None) -> str:
    """Format a score with three digits; ``-`` for None and NaN."""
    return number(value, ".3f")


def signed(value: float | None, digits: int = 3) -> str:
    """Format a difference with its sign (a rounded zero has a plus); ``-`` for None."""
    return "-" if value is None else f"{value:+z.{digits}f}"


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    """Format a score with its interval: ``0.492 [0.463, 0.521]``; without bounds, the score."""
    return score(value) if low is None else f"{score(value)} [{score(low)}, {score(high)}]"


def difference(found: Mapping[str, Any], digits: int = 3) -> str:
    """Format a ``sheet.Difference``, such as ``+0.012 [-0.003, +0.027]``."""
    value, low, high = (signed(found[key], digits) for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def p_value(p: float | None) -> str:
    """Format a p-value, such as ``p 0.123`` or ``p<0.001``; ``p -`` for None."""
    return "p<0.001" if p is not None and p < 0.0005 else f"p {score(p)}"


def duration(seconds: float) -> str:
    """Write a time as ``3 min 20 s`` or ``1 h 5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def shortened(text: str, width: int) -> str:
    """Return the text, or its beginning and a dot for the rest."""
    return text if len(text) <= width else text[: width - 1] + "…"


def markdown(text: str) -> str:
    """Escape a text so that Markdown shows it as it is, on one line, in a table cell too."""
    return _escaped(" ".join(text.split()))


def message(text: str) -> str:
    """Escape a message of the program as ``markdown`` does, but keep `code` in backticks."""
    parts = CODE.split(" ".join(text.split()))
    return "".join(f"`{part}`" if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(line: str) -> str:
    line = html.escape(line, quote=False)
    # A bracket alone is harmless: only "](" makes a link.
    return re.sub(r"([\\`*_|~$#]|(?<=\])\()", r"\\\1", line)


def latex(text: str) -> str:
    """Escape a text so that LaTeX shows it as it is, on one line; ``-1`` gets a minus sign."""
    escaped = "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)


# what a message of the program has in backticks: a key, an option; `split` returns it in between
CODE = re.compile(r"(?<!`)`([^`\s](?:[^`]*[^`\s])?)`(?!`)")
# how a formula begins in spreadsheets (OWASP, "CSV Injection")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Table:
    """Rows under a header. A row's first cell says what the row is.

    Attributes:
        header: the titles of the columns.
        rows: cells of any type, as many in each row as in the header.
        marked: cells that stand out, such as the best of a column: (row, column), counted from 0
            without the header. Text adds ``*``, Markdown and LaTeX write them bold.
        messages: columns whose cells are messages of the program: `code` in backticks is code.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    marked: frozenset[tuple[int, int]] = frozenset()
    messages: frozenset[int] = frozenset()

    def text(self) -> str:
        """Write left-aligned columns, two spaces apart, with a rule under the header."""
        lines = self._written(str, "{} *")
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def markdown(self) -> str:
        """Write a Markdown table."""
        header, *rows = self._written(markdown, "**{}**")
        for column in self.messages:
            for line, row in zip(rows, self.rows, strict=True):
                # a pipe in code needs a backslash too, in a table alone
                line[column] = re.sub(r"(?<!\\)\|", r"\|", message(str(row[column])))
        return markdown_table(header, rows)

    def latex(self) -> str:
        """Write a booktabs tabular: the first column is left-aligned, the others are centred."""
        header, *rows = (
            " & ".join(line) + r" \tabularnewline"
            for line in self._written(latex, r"\textbf{{{}}}")
        )
        columns = "l" + "c" * (len(self.header) - 1)
        top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule"]
        return "\n".join([*top, *rows, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        """Write comma-separated values: numbers in full precision, None as an empty cell.

        A text that a spreadsheet would take for a formula, such as ``=1+1``, gets a ``'`` in front.
        """
        text = io.StringIO()
        rows = [[_no_formula(cell) for cell in row] for row in (self.header, *self.rows)]
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()

    def _written(self, plain: Callable[[str], str], best: str) -> list[list[str]]:
        """Return header and rows in one format; ``best`` is the pattern of a marked cell."""
        rows = [[plain(str(cell)) for cell in row] for row in self.rows]
        for row, column in self.marked:
            rows[row][column] = best.format(rows[row][column])
        return [[plain(title) for title in self.header], *rows]


def _no_formula(cell: Any) -> Any:
    """Mark a text cell that begins like a formula, so that spreadsheets show it as text."""
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", " ")  # `csv` would not quote it
    return f"'{text}" if cell.startswith(FORMULA) else text


@dataclass(frozen=True, repr=False)
class Printed:
    """A result whose ``page``, its table as text, is printed for it."""

    page: str

    def __repr__(self) -> str:
        return self.page


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table whose cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text_page(tables: Iterable[tuple[str, Table]], notes: Iterable[str]) -> str:
    """Write tables for the terminal, each under its title, and the notes below them."""
    parts = [f"{title}:\n{table.text()}" if title else table.text() for title, table in tables]
    return "\n\n".join([*parts, "\n".join(notes)])


def latex_float(tables: Iterable[tuple[str, Table]], caption: Iterable[str]) -> str:
    """Write one LaTeX float with the tables one above the other, none wider than the page.

    It needs the packages booktabs and adjustbox.
    """
    parts = [r"% \usepackage{booktabs,adjustbox}", r"\begin{table*}[t]", r"\centering", r"\small"]
    for title, table in tables:
        parts += [rf"\par\medskip {latex(title)}\par\smallskip"] if title else []
        box = r"\begin{adjustbox}{max width=\textwidth}"
        parts += [box, table.latex(), r"\end{adjustbox}"]
    text = " ".join(map(latex, caption))
    return "\n".join([*parts, rf"\caption{{{text}}}", r"\end{table*}"]) + "\n"
