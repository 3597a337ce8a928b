"""The measured tables of docs/ are made of the stored files, and nothing is typed by hand."""

import json

from tests.conftest import ROOT
from tools.measured_docs import run_tables, text_excerpts
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
    for file in (RESULTS / "grids").glob("*.json"):
        assert f"grid {file.stem} -->" in text, file.name
    for file in (RESULTS / "papers").glob("*.json"):
        assert f"paper {file.stem} -->" in text, file.name
    for file in run_tables.EPOCHS.glob("*.json"):
        assert f"<!-- measured: epochs {file.stem} -->" in text, file.stem
    for file in run_tables.IMPORTANCE.glob("*.json"):
        assert f"<!-- measured: importance {file.stem} -->" in text, file.stem
    for file in run_tables.LAYERS.glob("*.json"):
        assert f"<!-- measured: layers {file.stem} -->" in text, file.stem
    for file in text_excerpts.EXPORTS.glob("*.md"):
        assert f"exported {file.stem} -->" in text, file.name


def test_saved_files_come_from_clean_commits():
    for file in run_tables.EPOCHS.glob("*.json"):
        assert not json.loads(file.read_text())["commit"].endswith(("None", "dirty")), file
    runs = (RESULTS, run_tables.CONTRASTIVE, run_tables.TRIALS)
    for file in [file for folder in runs for file in folder.glob("*.json")]:
        revision = json.loads(file.read_text())["git_revision"]
        assert revision and not revision.endswith("dirty"), file
    for file in (
        *(RESULTS / "written").glob("*.md"),
        *text_excerpts.EXPORTS.glob("*.md"),
    ):
        assert "-dirty" not in file.read_text() and "git revision: None" not in file.read_text()
    folders = (RESULTS / "grids", RESULTS / "papers", run_tables.IMPORTANCE)
    for file in [file for folder in folders for file in folder.glob("*.json")]:
        for revision in json.loads(file.read_text())["source"]["commits"]:
            assert revision != "None" and not revision.endswith("dirty"), file


def test_a_changed_number_is_noticed():
    page = (ROOT / "docs" / "results.md").read_text()
    assert renew(page.replace("0.493 ± 0.003", "0.593 ± 0.003")) == page != ""
    assert "0.493 ± 0.003" in page
