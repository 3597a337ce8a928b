"""A page of results as one self-contained HTML file: no network, no script, no font.

The templates are in ``multitask/reporting/templates``: ``base.html.j2`` is the layout of every
page, ``report.html.j2`` has tiles of scores above the sections. Jinja escapes every text, and the
content security policy of a page forbids scripts and requests.
"""

import base64
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from multitask.reporting.figures.style import DPI
from multitask.reporting.page import Page, Tile
from multitask.reporting.table_formats import CODE, Table, score
from multitask.store.files import write_text

# longer cells may wrap
SHORT_CELL = 32
_INTERVAL = r"\[[+-]?[\d.]+, [+-]?[\d.]+\]"
NUMBER = re.compile(rf"([+-]?[\d,.]+( %)?( ± ([\d.]+|-))?( p[ <][\d.]+)?(\s{_INTERVAL})?|-|)")


def write_html(page: Page, file: Path, template: str = "report.html.j2") -> None:
    """Write the page with a template of ``multitask/reporting/templates``."""
    write_text(file, fill(template, page=page))


def fill(template: str, **values: Any) -> str:
    """Fill a template of ``multitask/reporting/templates`` with ``values``."""
    return _template(template).render(**values)


def stream(template: str, **values: Any) -> Iterator[str]:
    """Yield the parts of a filled template as they are made, so that a browser can show them."""
    return map(str, _template(template).generate(**values))  # not Markup, which escapes in a sum


def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (anchor, column_kinds, data_uri, png_size, positions, score)
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters["code_parts"] = CODE.split
    return environment.get_template(name)


def anchor(title: str) -> str:
    """Return a heading's id: ``dev-scores`` for ``Dev scores``."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def column_kinds(table: Table) -> list[str]:
    """Return each column's kind: ``number`` (right-aligned), ``short`` (one line), ``long``."""
    kinds = []
    for cells in zip(*table.rows, strict=True):
        column = [str(cell) for cell in cells]
        if all(map(NUMBER.fullmatch, column)) and any(column):
            kinds.append("number")
        else:
            kinds.append("short" if max(map(len, column)) <= SHORT_CELL else "long")
    return kinds or ["short"] * len(table.header)


def data_uri(png: bytes) -> str:
    """Return a data URI of a PNG file's content."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def png_size(png: bytes) -> tuple[int, int]:
    """Return width and height on the page in CSS pixels, 96 per inch of the figure."""
    width, height = struct.unpack(">16x2I", png[:24])
    return round(width * 96 / DPI), round(height * 96 / DPI)


def positions(tile: Tile) -> dict[str, float]:
    """Return the positions of the tile's scores on its scale, in percent from the left.

    The scale goes from 0 to 1, or further if a score does; ``start`` and ``end`` are its ends.
    """
    named = {"score": tile.score, "low": tile.low, "high": tile.high, **tile.references}
    shown = {name: value for name, value in named.items() if value is not None}
    start, end = min([0.0, *shown.values()]), max([1.0, *shown.values()])
    places = {name: 100 * (value - start) / (end - start) for name, value in shown.items()}
    return {"start": start, "end": end, **places}
