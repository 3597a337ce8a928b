"""A page as Markdown: headings by depth, every kind of block, and text that is no markup."""

from pathlib import Path

import pytest

from multitask.reporting.page import (
    Code,
    Image,
    Lines,
    Page,
    Section,
    Text,
    Tile,
    markdown_block,
    markdown_page,
)
from multitask.reporting.table_formats import Table

FOLDER = Path("/runs/a run")


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (Table(("a", "b"), [("1", "2")]), Table(("a", "b"), [("1", "2")]).markdown()),
        (Lines(["one", "two_three"]), "- one\n- two\\_three"),
        (Text("a | b"), "a \\| b"),
        (Code("python run_multitask.py a_b"), "```sh\npython run_multitask.py a_b\n```"),
        (Image(FOLDER / "figures" / "a b.png", "loss_x"), "![loss\\_x](figures/a%20b.png)"),
    ],
    ids=["table", "lines", "text", "code", "image"],
)
def test_a_block(block, text):
    assert markdown_block(block, FOLDER) == text


def test_sections_go_deeper_and_tiles_are_left_out():
    inner = Section("Third", [Text("deep")])
    outer = Section("Second", [Text("one"), Text("two")], [inner, inner], folded=True)
    page = Page(FOLDER, "A *title*", "In short.", [outer, Section("Last")], [Tile("t", "m", 0.5)])
    assert markdown_page(page).split("\n\n") == [
        "# A \\*title\\*",
        "In short.",
        "## Second",
        "one",
        "two",
        *["### Third", "deep"] * 2,
        "## Last\n",
    ]


def test_a_page_without_a_summary_has_no_gap():
    assert markdown_page(Page(FOLDER, "T", "", [])) == "# T\n"
