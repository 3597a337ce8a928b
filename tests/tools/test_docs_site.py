"""`make docs`: every link, anchor and image of the site is there, and every page that it adds."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import multitask
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("mkdocs") is None, reason="mkdocs is absent: pip install -r requirements-docs.txt"
    ),
]


def build(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *map(str, options)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as `make docs` builds it, in another directory."""
    directory = tmp_path_factory.mktemp("site")
    done = build("--site-dir", directory)
    assert done.returncode == 0, done.stderr[-4000:]
    return directory


def test_every_page_and_preset_has_its_page(site):
    pages = [f"{file.stem}.html" for file in (ROOT / "docs").glob("*.md") if file.stem != "README"]
    configs = ROOT / "configs"
    presets = [file.relative_to(configs).with_suffix(".html") for file in configs.rglob("*.yaml")]
    every = [*pages, "index.html", *(Path("presets") / preset for preset in presets)]
    assert [page for page in map(str, every) if not (site / page).is_file()] == []


def test_a_preset_with_stored_runs_shows_its_report(site):
    page = (site / "presets" / "cs224n_minilm.html").read_text()
    assert 'id="report-of-seed-1"' in page and "runs/siamese-1" in page


def test_the_reference_has_every_function(site):
    page = (site / "api.html").read_text()
    headings = re.findall(r"<h3[^>]*>.*?</h3>", page, re.DOTALL)
    words = " ".join(re.sub(r"<[^>]*>", " ", heading) for heading in headings).split()
    assert {f"multitask.{name}" for name in multitask.__all__} <= set(words)


def test_no_page_fetches_a_script_a_font_or_a_style(site):
    """The diagrams of Mermaid are the one exception: the theme loads them for a reader online."""
    fetched = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="?https?://')
    assert [str(page) for page in site.rglob("*.html") if fetched.search(page.read_text())] == []


def test_tables_and_lists_are_no_paragraphs(site):
    """GitHub reads some tables and lists that MkDocs does not."""
    broken = re.compile(r"<p>(?:\||- |\d+\. |```)")
    assert [str(page) for page in site.rglob("*.html") if broken.search(page.read_text())] == []


@pytest.mark.parametrize("wrong", ["[x](none.md)", "[x](#none)", "![x](none.png)"])
def test_a_broken_link_anchor_or_image_stops_the_build(wrong, tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        f"docs_dir: {tmp_path / 'docs'}\n"
        "hooks: []\nnav: null\nplugins: [search]\n"
    )
    for text, fails in (("# A page\n", False), (f"# A page\n\n{wrong}\n", True)):
        page.write_text(text)
        done = build("--config-file", config, "--site-dir", tmp_path / "site")
        assert (done.returncode != 0) is fails, done.stderr[-2000:]
