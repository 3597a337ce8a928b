"""The images of the docs show the stored results, drawn as the code draws them now."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from multitask.reporting.figures.style import save_figure
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


def test_every_image_is_on_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("**/*.md"))
    assert all(f"images/{name}.png" in pages for name in FIGURES)
