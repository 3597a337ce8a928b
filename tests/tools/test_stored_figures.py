"""The images of the docs show the stored results, drawn as the code draws them now."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from multitask.reporting.figures import style
from multitask.reporting.figures.style import save_figure
from tests.support.figure_rules import faults
from tools import stored_figures
from tools.measured_docs.store import DOCS

FIGURES = stored_figures.figures()


@pytest.mark.parametrize("name", FIGURES)
def test_a_stored_image_is_up_to_date(name):
    drawn = BytesIO()
    save_figure(FIGURES[name], drawn)
    with Image.open(DOCS / "images" / f"{name}.png") as stored, Image.open(drawn) as now:
        if stored.info["Software"] != now.info["Software"]:
            pytest.skip(f"drawn by {stored.info['Software']}, which may place text elsewhere")
        assert stored.size == now.size, "run `python -m tools.stored_figures`"
        apart = np.abs(np.asarray(stored, dtype=float) - np.asarray(now, dtype=float))
        other = int((apart.max(axis=-1) > 32).sum())  # pixels; the edge of a letter may differ
        assert other <= 20, "run `python -m tools.stored_figures`"


@pytest.mark.parametrize("name", FIGURES)
def test_a_stored_image_can_be_read(name):
    assert not faults(FIGURES[name])


def test_each_fault_of_a_figure_is_found():
    figure = style.new_figure(14, 10)
    first, *_ = places = figure.subplots(3, 6).ravel()
    for axes in places[1:]:
        style.quiet_frame(axes)
    first.text(0.5, 0.5, "-0.00")
    first.text(0.5, 0.5, "small", fontsize=3)
    first.set(xlim=(0, 10), ylim=(60, 110))
    first.plot([0, 1, 2], [70, 80, 90], label="runs/short")
    first.plot([0, 1, 2], [np.nan] * 3, color="red", label="missing")
    style.legend_below(figure)
    found = " ".join(faults(figure))
    for fault in (
        "too small", "overlap", "negative zero", "18 panels", "frame", "passes a full score",
        "20 % of its panel: runs/short", "without a mark: missing", "path in the legend: runs/short"
    ):  # fmt: skip
        assert fault in found


def test_every_image_is_on_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("**/*.md"))
    assert all(f"images/{name}.png" in pages for name in FIGURES)
