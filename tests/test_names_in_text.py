"""Files and modules that text names exist: docs, configs, Makefile, docstrings, comments."""

import fnmatch
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")
    ),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "measured").glob("*.md")),
    *sorted((ROOT / "configs").rglob("*.yaml")),
    *sorted((ROOT / "benchmarks").glob("*.sh")),
    *sorted(
        file
        for room in ("multitask", "heads", "pals", "smart", "benchmarks", "tools")
        for file in (ROOT / room).rglob("*.py")
    ),
]
ROOMS = "multitask|heads|pals|smart|benchmarks|tools|tests|configs|docs"
PATH = re.compile(rf"(?<![\w./*$-])((?:{ROOMS})/[\w./*-]*[\w*/])")
MODULE = re.compile(r"(?<![\w./-])((?:multitask|benchmarks|tools)(?:\.(?!yaml|py\b)\w+)+)(?![\w/])")
PLACEHOLDER = re.compile(r"/[A-Z]+\b(?!\.md)|/NAME")  # such as NAME, for the reader to replace
# files that a page shows for the reader to write: the first line of the block is the path
SHOWN_FILE = re.compile(r"^```\w+\n# (\S+)$", re.MULTILINE)
MEASURED = re.compile(r"<!-- measured.*?<!-- end -->", re.DOTALL)  # names of a past commit


def text_of(file: Path) -> str:
    return MEASURED.sub("", file.read_text(encoding="utf-8"))


def shown_files() -> list[str]:
    """List the files that some page shows for the reader to write."""
    pages = (ROOT / "docs").glob("*.md")
    return [name for page in pages for name in SHOWN_FILE.findall(page.read_text(encoding="utf-8"))]


def exists(name: str) -> bool:
    """Return True if the module exists, or the attribute of a module."""
    module, _, attribute = name.rpartition(".")
    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    return "." in name and exists(module) and hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_named_files_exist(file):
    shown = shown_files()
    for name in sorted(set(PATH.findall(text_of(file)))):
        known = PLACEHOLDER.search(name) or fnmatch.filter(shown, name)
        assert known or any(ROOT.glob(name.rstrip("/"))), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_named_modules_exist(file):
    shown = {name.removesuffix(".py").replace("/", ".") for name in shown_files()}
    for name in sorted(set(MODULE.findall(text_of(file))) - shown):
        assert exists(name), name
