"""Characters of figures: by an installed font that has them, else one warning."""

import pytest
from matplotlib import font_manager

from multitask.reporting.figures import fonts
from multitask.reporting.figures.style import labels, new_panel, save_figure
from multitask.utils.errors import warn

pytestmark = pytest.mark.usefixtures("no_warnings", "no_other_font")


@pytest.fixture
def blank_figures():
    """These figures are drawn."""


@pytest.fixture
def no_other_font(monkeypatch):
    """Only the fonts that matplotlib brings along are installed."""
    theirs = [one for one in font_manager.fontManager.ttflist if "mpl-data" in one.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", theirs)
    fonts.families.cache_clear()
    warn.cache_clear()
    yield
    fonts.families.cache_clear()


def draw(text, file):
    figure, axes = new_panel(3, 2)
    axes.set_title(text)
    save_figure(figure, file)
    return axes.title


def test_a_missing_character_is_one_warning(tmp_path, capsys):
    for text in ("正面", "अच"):
        draw(text, tmp_path / "a.png")
    assert capsys.readouterr().err.count("warning: ") == 1


def test_characters_of_the_default_font_are_no_warning(tmp_path, capsys):
    draw("plain, café, Привет, مرحبا", tmp_path / "a.png")
    assert not capsys.readouterr().err


def test_an_installed_font_of_the_list_is_used(monkeypatch, tmp_path):
    (theirs,) = [f for f in font_manager.fontManager.ttflist if f.name == "STIXGeneral"][:1]
    monkeypatch.setattr(fonts, "FALLBACKS", (theirs.name, "No Such Font"))
    title = draw("plain", tmp_path / "a.png")
    assert title.get_fontfamily() == ["sans-serif", theirs.name]


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
