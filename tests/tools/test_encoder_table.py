"""docs/encoders.md has the table of today."""

from multitask.models.encoders.hf_layout import LAYOUTS
from tools.encoder_table import EXAMPLES, PAGE, renewed


def test_the_page_has_the_table_of_today():
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page
    assert EXAMPLES.keys() == LAYOUTS.keys()
