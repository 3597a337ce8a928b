"""The limits are what the docs say. The tests of what is bounded are beside what reads it."""

import re

from multitask.utils import limits
from tests.conftest import ROOT


def test_the_docs_have_every_limit():
    page = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,.]+) \|$", page, re.MULTILINE)
    written = {name: float(value.replace(",", "")) for name, value in rows}
    assert written == {name: value for name, value in vars(limits).items() if name.isupper()}
