"""A page of results as plain data, and its Markdown.

report.md and report.html show the same page. Its strings are plain text: the functions below and
the HTML templates escape them. Paragraphs and lines are messages of the program, whose `code` in
backticks is shown as code.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from multitask.reporting.table_formats import Table, markdown, message


@dataclass(frozen=True)
class Lines:
    """A list of short lines.

    Attributes:
        lines: plain text, one item each.
    """

    lines: Sequence[str]


@dataclass(frozen=True)
class Text:
    """One paragraph.

    Attributes:
        text: plain text.
    """

    text: str


@dataclass(frozen=True)
class Code:
    """A command to type in a shell, or lines of another language.

    Attributes:
        text: the lines.
        language: the name of the language in Markdown.
    """

    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Image:
    """An image.

    Attributes:
        file: a PNG file in the page's folder.
        alt: a description for readers who cannot see the image.
    """

    file: Path
    alt: str


Block = Table | Lines | Text | Code | Image


@dataclass(frozen=True)
class Section:
    """Blocks under a heading, then subsections.

    Attributes:
        title: the heading.
        blocks: the content, in order.
        parts: the subsections.
        label: a shorter title for the table of contents; default: the title.
        alert: highlight the section.
        folded: show only the heading until the reader opens it.
    """

    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence["Section"] = ()
    label: str = ""
    alert: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Tile:
    """One result at a glance: a score and the scores to compare it with.

    Attributes:
        title: the task.
        measure: the metric.
        score: the score; None if it is undefined.
        low, high: the bounds of its interval.
        references: scores of the baselines by name.
        flags: short remarks. One with `code` in backticks is advice: it names a key to change.
    """

    title: str
    measure: str
    score: float | None
    low: float | None = None
    high: float | None = None
    references: dict[str, float | None] = field(default_factory=dict)
    flags: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A page of results.

    Attributes:
        folder: the directory of the page; links to images start there.
        title: the heading.
        summary: a sentence below it.
        sections: the content.
        tiles: the results at the top (HTML only).
        legend: an explanation of the tiles.
    """

    folder: Path
    title: str
    summary: str
    sections: Sequence[Section]
    tiles: Sequence[Tile] = ()
    legend: str = ""


def tables_page(
    title: str,
    tables: Iterable[tuple[str, Table]],
    notes: Sequence[str],
    settings: Sequence[Block] = (),
) -> str:
    """Write a Markdown page of titled tables; below them how to read them, and the settings."""
    sections = [Section(name, [table]) for name, table in tables]
    sections.append(Section("How to read this", [Lines(notes)]))
    sections += [Section("Settings", settings)] if settings else []
    return markdown_page(Page(Path(), title, "", sections))


def markdown_page(page: Page) -> str:
    """Write the page as Markdown, without its tiles."""
    parts = [f"# {markdown(page.title)}", *([markdown(page.summary)] if page.summary else [])]
    for section in page.sections:
        parts += _section(section, 2, page.folder)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, level: int, folder: Path) -> list[str]:
    heading = f"{'#' * level} {markdown(section.title)}"
    blocks = [markdown_block(block, folder) for block in section.blocks]
    smaller = [text for part in section.parts for text in _section(part, level + 1, folder)]
    return [heading, *blocks, *smaller]


def markdown_block(block: Block, folder: Path) -> str:
    """Write one block as Markdown; links to images are relative to ``folder``."""
    match block:
        case Table():
            return block.markdown()
        case Lines(lines):
            return "\n".join(f"- {message(line)}" for line in lines)
        case Text(text):
            return message(text)
        case Code(text, language):
            return f"```{language}\n{text}\n```"
        case Image(file, alt):
            return f"![{markdown(alt)}]({quote(file.relative_to(folder).as_posix())})"
