"""A page of results as plain data, and that page as Markdown.

report.md and report.html show the same page. Its strings are plain text: the Markdown below and
the HTML templates each escape what they show.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from multitask.reporting.table_formats import Table, markdown


@dataclass(frozen=True)
class Lines:
    """A list of short lines."""

    lines: Sequence[str]
    kind: ClassVar[str] = "lines"


@dataclass(frozen=True)
class Text:
    """One paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Code:
    """A command to type in a shell."""

    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Image:
    """A PNG file in the page's folder; ``alt`` says what it shows to who does not see it."""

    file: Path
    alt: str
    kind: ClassVar[str] = "image"


Block = Table | Lines | Text | Code | Image


@dataclass(frozen=True)
class Section:
    """Blocks under a heading, then smaller sections.

    ``label`` is the short title in a list of contents (default: the title); ``alert`` marks what
    a reader should not miss; ``folded`` is a part that is long and opens on demand.
    """

    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence["Section"] = ()
    label: str = ""
    alert: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Tile:
    """One result at a glance: a score, what it means, and the scores to hold it against.

    ``low`` and ``high`` bound the score's interval; ``references`` are named scores. None is an
    undefined score.
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
    """``folder`` is where the page is written: links to images start there.

    ``legend`` explains the tiles.
    """

    folder: Path
    title: str
    summary: str
    sections: Sequence[Section]
    tiles: Sequence[Tile] = ()
    legend: str = ""


def markdown_page(page: Page) -> str:
    """The page as Markdown, without its tiles."""
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
    """One block as Markdown; images are linked relative to ``folder``."""
    match block:
        case Table():
            return block.markdown()
        case Lines(lines):
            return "\n".join(f"- {markdown(line)}" for line in lines)
        case Text(text):
            return markdown(text)
        case Code(text):
            return f"```sh\n{text}\n```"
        case Image(file, alt):
            return f"![{markdown(alt)}]({quote(file.relative_to(folder).as_posix())})"
