"""Draw other scripts than Latin in figures: matplotlib takes each character from the first font
of a list that has it."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from multitask.utils.errors import warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# fonts with many characters, as Debian, Windows and macOS name them
FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Devanagari",
    "Symbola",
    "Segoe UI Symbol",
)
MISSING = re.compile(r"Glyph \d+ \(.*\) missing from")


@cache
def families() -> list[str]:
    """List the default family and the installed ones of ``FALLBACKS``."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ["sans-serif", *(name for name in FALLBACKS if name in installed)]


def use_fonts(figure: "Figure") -> None:
    """Let all texts of a figure take characters from the installed fonts of ``FALLBACKS``."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontfamily(families())


@contextmanager
def missing_characters_are_said() -> Iterator[None]:
    """Replace matplotlib's warning per character by one that says what to install."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        yield
    for each in raised:
        if not MISSING.match(str(each.message)):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if any(MISSING.match(str(each.message)) for each in raised):
        warn(
            "no installed font has some characters, which figures show as boxes: install fonts "
            "such as the packages fonts-noto-cjk, fonts-noto-core and fonts-symbola, and remove "
            "matplotlib's font cache (~/.cache/matplotlib)"
        )
