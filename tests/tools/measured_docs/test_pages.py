"""The measured tables of docs/ are made of the stored files, and nothing is typed by hand."""

import json

from tests.conftest import ROOT
from tools.measured_docs import run_tables
from tools.measured_docs.pages import measured_pages, renew
from tools.measured_docs.store import RESULTS


def test_the_pages_equal_the_saved_files():
    names = {page.name for page in measured_pages()}
    assert names >= {"results.md", "ablation-results.md", "multitask-minibert.md"}
    for page in measured_pages():
        text = page.read_text()
        assert renew(text) == text, page.name
    assert run_tables.load_reports()


def test_every_saved_grid_is_on_a_page():
    text = "".join(page.read_text() for page in measured_pages())
    for folder in ("grids", "papers"):
        for file in (RESULTS / folder).glob("*.json"):
            assert f"<!-- measured: sheet {folder}/{file.stem} -->" in text, file.name
    for folder in ("epochs", "importance", "layers"):
        for file in (RESULTS / folder).glob("*.json"):
            assert f"<!-- measured: {folder} {file.stem} -->" in text, file.name
    for file in (RESULTS / "exports").glob("*.md"):
        assert f"<!-- measured: excerpt exports/{file.stem} -->" in text, file.name


def test_saved_files_come_from_clean_commits():
    texts = [file for folder in ("written", "exports") for file in (RESULTS / folder).glob("*.md")]
    for file in texts:
        assert "-dirty" not in file.read_text() and "git revision: None" not in file.read_text()
    found = 0
    for file in RESULTS.rglob("*.json"):
        stored = json.loads(file.read_text())
        source = stored.get("source", stored)
        known = {"commits", "commit", "git_revision"} & set(source)
        revisions = [source[key] for key in known]
        found += bool(known)
        for revision in revisions[0] if known == {"commits"} else revisions:
            assert revision and not revision.endswith(("None", "dirty")), file
    assert found > 100 and texts


def test_a_changed_number_is_noticed():
    page = (ROOT / "docs" / "results.md").read_text()
    assert renew(page.replace("0.493 ± 0.003", "0.593 ± 0.003")) == page != ""
    assert "0.493 ± 0.003" in page
