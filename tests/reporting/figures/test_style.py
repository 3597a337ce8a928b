"""Sizes, labels and style of figures."""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from multitask.reporting.figures import style
from multitask.reporting.figures.style import (
    labels,
    legend_below,
    mark_stages,
    new_figure,
    readable_on,
    save_figure,
    write_pictures,
)
from multitask.utils.errors import UserError, warn
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("no_warnings")


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
    draw("emoji 👩‍🔬, 中文", tmp_path / "f.png")


def legend(panels, first=()):
    figure = new_figure(10, 3)
    for axes, names in zip(figure.subplots(1, 2), panels, strict=True):
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
    legend_below(figure, first)
    return figure


def test_a_label_longer_than_the_figure_is_not_cut(tmp_path):
    draw("a title of many letters " * 5, tmp_path / "f.png")
    assert imread(tmp_path / "f.png").shape[1] > 3 * 3 * style.DPI


def test_the_legend_holds_each_label_once_and_the_wanted_ones_first():
    (result,) = legend([["a", "b"], ["c", "b"]], first=["c", "a", "absent"]).legends
    assert [text.get_text() for text in result.get_texts()] == ["c", "a", "b"]
    assert not legend([[], []]).legends


@pytest.mark.parametrize("length", [1, 20, 40])
def test_a_legend_of_long_labels_stays_inside_the_figure(length):
    figure = legend([[f"{i}{'m' * length}" for i in range(7)], []])
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
    with pytest.raises(UserError, match=r"config\.json was not written by this command"):
        write_pictures(tmp_path / "config", "x", {}, '{"task": "a"}')
    assert file.read_text() == text
    for mine in ('{"task": "a"}', '[{"task": "b"}]'):
        file.write_text(mine)
        write_pictures(tmp_path / "config", "x", {}, '{"task": "c"}')
        assert file.read_text() == '{"task": "c"}'


def test_pictures_without_their_numbers_are_of_something_else(tmp_path):
    (tmp_path / "a.png").write_text("mine")
    with pytest.raises(UserError, match=r"a\.png was not written"):
        write_pictures(tmp_path / "a", "x", {"": new_figure(1, 1)}, '{"task": "a"}')
    assert (tmp_path / "a.png").read_text() == "mine" and not (tmp_path / "a.json").exists()
    (tmp_path / "a.json").write_text('{"task": "a"}')
    write_pictures(tmp_path / "a", "x", {"": new_figure(1, 1)}, '{"task": "a"}')
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_only_style_chooses_colours_and_saves():
    for file in set((ROOT / "multitask").rglob("*.py")) - {Path(style.__file__)}:
        source = file.read_text()
        if "matplotlib" in source or "figures import style" in source:
            assert not re.search(r"\"#[0-9A-Fa-f]{6}\"|savefig|rcParams|rc_context", source), file


@pytest.fixture
def no_other_font(monkeypatch):
    """Only the fonts that matplotlib brings along are installed."""
    theirs = [one for one in font_manager.fontManager.ttflist if "mpl-data" in one.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", theirs)
    style.fonts.cache_clear()
    warn.cache_clear()
    yield
    style.fonts.cache_clear()


def draw(text, file):
    figure = new_figure(3, 2)
    title = figure.subplots().set_title(text)
    save_figure(figure, file)
    assert imread(file).std() > 0.01
    return title


@pytest.mark.usefixtures("no_other_font")
@pytest.mark.parametrize(
    ("texts", "warnings"), [(("正面", "अच"), 1), (("plain, café, Привет, مرحبا",), 0)]
)
def test_missing_characters_are_one_warning(texts, warnings, tmp_path, capsys):
    for text in texts:
        draw(text, tmp_path / "a.png")
    assert capsys.readouterr().err.count("warning: ") == warnings


@pytest.mark.usefixtures("no_other_font")
def test_an_installed_font_of_the_list_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(style, "FALLBACKS", ("STIXGeneral", "No Such Font"))
    assert draw("plain", tmp_path / "a.png").get_fontfamily() == ["sans-serif", "STIXGeneral"]


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
