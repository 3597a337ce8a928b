"""Sizes, labels and style of figures."""

import ast
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.image import imread

from multitask.reporting.figures import style
from multitask.reporting.figures.style import (
    drawable,
    label,
    labels,
    legend_below,
    mark_stages,
    new_figure,
    new_panel,
    readable_on,
    save_figure,
    write_pictures,
)
from multitask.utils.errors import UserError, warn
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("no_warnings", "no_other_font")


@pytest.mark.parametrize("name", ["cividis", "Blues"])
def test_the_numbers_of_a_map_can_be_read_on_every_colour(name):
    import matplotlib

    for colour in matplotlib.colormaps[name](np.linspace(0, 1, 101))[:, :3]:
        text = 1.0 if readable_on(colour) == "white" else 0.0
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        high, low = max(luminance, text), min(luminance, text)
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_character_that_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    figure = new_figure(3, 2)
    figure.subplots().set_title("emoji 👩‍🔬, 中文")
    save_figure(figure, tmp_path / "f.png")
    assert imread(tmp_path / "f.png").std() > 0.01


def legend(labels, first=()):
    figure = new_figure(10, 3)
    for axes, names in zip(figure.subplots(1, 2), labels, strict=True):
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
    legend_below(figure, first)
    return figure


def test_the_legend_holds_each_label_once_and_the_wanted_ones_first():
    (result,) = legend([["a", "b"], ["c", "b"]], first=["c", "a", "absent"]).legends
    assert [text.get_text() for text in result.get_texts()] == ["c", "a", "b"]
    assert not legend([[], []]).legends


@pytest.mark.parametrize("length", [1, 20, 40])
def test_a_legend_of_long_labels_stays_inside_the_figure(length):
    labels = [f"{i}{'m' * length}" for i in range(7)]
    figure = legend([labels, []])
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent().transformed(figure.transFigure.inverted())
    assert box.x0 >= 0 and box.x1 <= 1


def test_stages_are_lines_with_names_that_start_no_mathematics():
    axes = new_figure(3, 2).subplots()
    mark_stages(axes, [(3, "a $ long name of a stage"), (9, "b")])
    assert [line.get_xdata()[0] for line in axes.lines] == [3, 9]
    assert [text.get_text() for text in axes.texts] == [r"a \$ long name…", "b"]


@pytest.mark.parametrize("text", ["{}", "[[]]", "{", '{"vocab_size": 3}', "[" * 100_000])
def test_pictures_replace_no_json_file_of_another_kind(text, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"config.json exists and holds other values: choose ano"):
        write_pictures(tmp_path / "config", "x", {}, '{"texts": []}')
    assert file.read_text() == text
    file.write_text('{"texts": [1]}')
    write_pictures(tmp_path / "config", "x", {}, '{"texts": []}')
    assert file.read_text() == '{"texts": []}'


def test_pictures_without_their_numbers_are_of_something_else(tmp_path):
    (tmp_path / "a.png").write_text("mine")
    with pytest.raises(UserError, match=r"a\.png exists and belongs to no a\.json: choose another"):
        write_pictures(tmp_path / "a", "x", {"": new_figure(1, 1)}, '{"texts": []}')
    assert (tmp_path / "a.png").read_text() == "mine" and not (tmp_path / "a.json").exists()
    (tmp_path / "a.json").write_text('{"texts": []}')
    write_pictures(tmp_path / "a", "x", {"": new_figure(1, 1)}, '{"texts": []}')
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


LOOKS = "color colors facecolor edgecolors cmap fontsize labelsize size s alpha dpi capsize".split()
LOOKS += "linewidth linewidths markersize markeredgecolor markeredgewidth".split()


def test_only_style_says_how_figures_look():
    for file in set((ROOT / "multitask").rglob("*.py")) - {Path(style.__file__)}:
        source = file.read_text()
        if "matplotlib" not in source and "figures import style" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword) and node.arg in LOOKS:
                assert not isinstance(node.value, ast.Constant), f"{file}: {node.arg}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("savefig", "rcParams", "rc_context"), file


CACHED = (style._font_with, style._installed, style._characters)


@pytest.fixture
def no_other_font(monkeypatch):
    """Only the fonts that matplotlib brings along are installed."""
    theirs = [one for one in font_manager.fontManager.ttflist if "mpl-data" in one.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", theirs)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(style, "_named", set())
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
