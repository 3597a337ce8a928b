"""Draw every character in figures: by an installed font that has it, else as its code point."""

import contextlib
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

from multitask.utils.errors import warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# how the Unicode names of characters in fonts-noto-cjk begin
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")
# packages of Debian and Ubuntu that were named in a warning
_named: set[str] = set()


def drawable(text: str) -> str:
    r"""Return a text in which characters that no installed font has are code points: ``\u6b63``.

    Characters that only join or vary others are left out. A warning names the package that has a
    font, once per package.
    """
    if text.isascii() and text.isprintable():
        return text
    lacking = [letter for letter in dict.fromkeys(text) if not _is_drawn(letter)]
    for package in dict.fromkeys(map(_package, lacking)):
        _advise(package, [letter for letter in lacking if _package(letter) == package])
    return text.translate({ord(letter): _code_point(letter) for letter in lacking})


def use_fonts(figure: "Figure") -> None:
    """Make all texts of a figure drawable, each character by a font that has it."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(drawable(text.get_text()))
        families = dict.fromkeys(map(_font_with, text.get_text()))
        others = [name for name in families if name and name not in text.get_fontfamily()]
        if others:
            text.set_fontfamily([*text.get_fontfamily(), *others])


def _is_drawn(letter: str) -> bool:
    return letter == "\n" or _font_with(letter) is not None


def _code_point(letter: str) -> str:
    invisible = unicodedata.category(letter) == "Cf" or "VARIATION SELECTOR" in _name(letter)
    return "" if invisible else letter.encode("unicode_escape").decode()


def _name(letter: str) -> str:
    return unicodedata.name(letter, "")


def _package(letter: str) -> str:
    """Name the package of Debian with a font for a character; "" for one that has no picture."""
    kind = unicodedata.category(letter)
    if kind.startswith("C") or not _code_point(letter):
        return ""
    if _name(letter).startswith(EAST_ASIAN):
        return "fonts-noto-cjk"
    return "fonts-symbola" if kind.startswith("S") else "fonts-noto-core"


def _advise(package: str, letters: list[str]) -> None:
    if package and package not in _named:
        _named.add(package)
        shown = "".join(letters[:10]) + ("..." if len(letters) > 10 else "")
        warn(
            f"no installed font has the characters {shown}: figures show code points, such as "
            f"{_code_point(letters[0])}; install a font with them, such as the package {package}"
        )


@cache
def _font_with(letter: str) -> str | None:
    """Return "" if the default font has a character, else a family that has it; None if none has.

    Fonts that matplotlib brings along are for mathematics, apart from the default one.
    """
    import matplotlib
    from matplotlib import font_manager

    if ord(letter) in _characters(font_manager.findfont(font_manager.FontProperties())):
        return ""
    packaged = matplotlib.get_data_path()
    for entry in _installed():
        if not entry.fname.startswith(packaged) and ord(letter) in _characters(entry.fname):
            return entry.name
    return None


@cache
def _installed() -> list[Any]:
    """List the installed fonts, also those that are newer than matplotlib's cache; upright first.

    Text of normal weight is then drawn by the file that has the character.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    for file in sorted(
        {*font_manager.findSystemFonts()} - {font.fname for font in manager.ttflist}
    ):
        with contextlib.suppress(Exception):  # the library raises many kinds for damaged files
            manager.addfont(file)

    def order(entry: Any) -> tuple[bool, bool, str, str]:
        return entry.style != "normal", entry.weight != 400, entry.name, entry.fname

    return sorted(manager.ttflist, key=order)


@cache
def _characters(file: str) -> frozenset[int]:
    """Return the characters of a font file; none if it is damaged or has pictures of one size."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
        return frozenset(font.get_charmap() if font.scalable else ())
    except Exception:  # many kinds, as above
        return frozenset()
