"""Sizes, labels and style of figures."""

import ast
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from multitask.reporting.figures import style
from multitask.reporting.figures.style import (
    legend_below,
    mark_stages,
    new_figure,
    readable_on,
    save_figure,
    write_pictures,
)
from multitask.utils.errors import UserError
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
