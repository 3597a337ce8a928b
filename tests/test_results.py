"""docs/results.md holds what the commands wrote, and nothing typed by hand."""

import importlib.util
import json

from tests.conftest import ROOT


def test_results_page_equals_the_saved_reports():
    spec = importlib.util.spec_from_file_location("make_results", ROOT / "docs" / "make_results.py")
    make_results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_results)
    page = (ROOT / "docs" / "results.md").read_text()
    assert make_results.renewed(page) == page
    assert make_results.load_reports()


def test_saved_reports_come_from_a_clean_commit():
    for file in (ROOT / "docs" / "results").glob("*.json"):
        revision = json.loads(file.read_text())["git_revision"]
        assert revision and not revision.endswith("dirty"), file
