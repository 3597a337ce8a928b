"""Characters of figures: by an installed font that has them, else code points and one warning."""

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from multitask.reporting.figures import fonts
from multitask.reporting.figures.fonts import drawable
from multitask.reporting.figures.style import label, labels, new_figure, new_panel, save_figure
from multitask.utils.errors import warn

pytestmark = pytest.mark.usefixtures("no_warnings", "no_other_font")

CACHED = (fonts._font_with, fonts._installed, fonts._characters)


@pytest.fixture
def no_other_font(monkeypatch):
    """Only the fonts that matplotlib brings along are installed."""
    theirs = [one for one in font_manager.fontManager.ttflist if "mpl-data" in one.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", theirs)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(fonts, "_named", set())
    warn.cache_clear()
    for one in CACHED:
        one.cache_clear()
    yield
    for one in CACHED:
        one.cache_clear()


def square():
    pen = TTGlyphPen(None)
    for move, point in (("moveTo", (0, 0)), ("lineTo", (0, 700)), ("lineTo", (700, 700))):
        getattr(pen, move)(point)
    pen.closePath()
    return pen.glyph()


def install(monkeypatch, file, characters, family):
    """Install a font with these characters in the way of a package: matplotlib's cache lacks it."""
    made = FontBuilder(1000, isTTF=True)
    names = {ord(letter): f"g{number}" for number, letter in enumerate(characters)}
    glyphs = [".notdef", *names.values()]
    made.setupGlyphOrder(glyphs)
    made.setupCharacterMap(names)
    made.setupGlyf(dict.fromkeys(glyphs, square()))
    made.setupHorizontalMetrics(dict.fromkeys(glyphs, (800, 0)))
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": family, "styleName": "Regular"})
    made.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    made.setupPost()
    made.save(file)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(file)])


@pytest.mark.parametrize(
    ("text", "shown", "package"),
    [
        ("plain, café, Привет, مرحبا", "plain, café, Привет, مرحبا", None),
        ("正面", r"\u6b63\u9762", "fonts-noto-cjk"),
        ("ひカ한", r"\u3072\u30ab\ud55c", "fonts-noto-cjk"),
        ("अच", r"\u0905\u091a", "fonts-noto-core"),
        ("🦄 a", r"\U0001f984 a", "fonts-symbola"),
        ("a\U000e0100b\u2067c\x1b", r"abc\x1b", None),
        ("two\nlines", "two\nlines", None),
    ],
)
def test_what_no_font_has_is_a_code_point(text, shown, package, capsys):
    assert drawable(text) == drawable(text) == shown
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == (package is not None)
    if package is not None:
        assert warned[0].startswith("warning: no installed font has the characters ")
        assert text[0] in warned[0] and warned[0].endswith(f"such as the package {package}")


def test_a_warning_comes_once_per_package(capsys):
    for text in ("正", "面", "好 अ", "अ"):
        drawable(text)
    assert capsys.readouterr().err.count("warning: ") == 2


def test_an_installed_font_is_used(monkeypatch, tmp_path, capsys):
    install(monkeypatch, tmp_path / "test.ttf", "正面", "Our Test Font")
    assert label("正面 a") == "正面 a"
    figure, axes = new_panel(3, 2)
    axes.set_xticks([0], [label("正面")])
    axes.set_title("plain")
    save_figure(figure, tmp_path / "a.png")
    (tick,) = axes.get_xticklabels()
    assert tick.get_text() == "正面"
    assert tick.get_fontfamily() == ["sans-serif", "Our Test Font"]
    assert axes.title.get_fontfamily() == ["sans-serif"]
    save_figure(figure, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
    assert not capsys.readouterr().err


def test_a_text_that_is_no_label_is_drawn_too(tmp_path, capsys):
    figure = new_figure(3, 2)
    figure.suptitle("正")
    save_figure(figure, tmp_path / "a.png")
    assert figure.get_suptitle() == r"\u6b63"
    assert "fonts-noto-cjk" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names",
    [
        ["正面", "负面", "中性"],
        ["很长的类别名称甲", "很长的类别名称乙"],
        ["international politics of Asia", "international politics of Europe"],
        ["a $5 price", "a $5 price"],
    ],
)
def test_labels_of_an_axis_can_be_told_apart(names):
    shown = labels(names, width=18)
    assert len(set(shown)) == len(names)
    assert all(len(one) <= 18 + len("0: ") + one.count("\\$") for one in shown)


def test_a_damaged_font_and_one_of_pictures_are_passed_over(monkeypatch, tmp_path):
    (tmp_path / "bad.ttf").write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(tmp_path / "bad.ttf")])
    assert drawable("正") == r"\u6b63"
