"""The table of docs/robustness.md has the numbers that `make faults` printed."""

import re

from tests.conftest import ROOT


def test_the_docs_show_the_saved_output():
    printed = (ROOT / "docs/results/faults.txt").read_text()
    page = (ROOT / "docs/robustness.md").read_text(encoding="utf-8").partition("## Measured")[2]
    counts = re.findall(r"^ *([\d,]+)  (.+)$", printed, re.MULTILINE)
    rows = re.findall(r"^\| (.+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert [(number, kind) for kind, number in rows] == counts
    commits = [re.findall(r"commit\s+(\w+)", text) for text in (printed, page)]
    assert commits[0] == commits[1] and len(counts) > 10
