"""The files and registry lines that the pages show: in force for a test, or in a clone."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

BLOCK = re.compile(r"```(?:python|yaml)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\S+)\n")
LINE = re.compile(r'"(\w+)": "([\w.:]+)",\n')
# package of a target -> module and name of its registry
REGISTRY = "multitask.config.registry"
TABLES = {
    "heads": (REGISTRY, "HEADS"),
    "multitask.models.poolers": (REGISTRY, "POOLERS"),
    "multitask.tasks": (REGISTRY, "TASK_TYPES"),
    "multitask.data.inputs": (REGISTRY, "INPUTS"),
    "multitask.training.trackers": (REGISTRY, "TRACKERS"),
    "multitask.sweep.engines": ("multitask.sweep.engines.base", "ENGINES"),
    "multitask.reporting.figures": ("multitask.reporting.figures.figure_registry", "FIGURES"),
}


def shown_blocks() -> Iterator[str]:
    """Yield the blocks of Python and YAML of the pages."""
    for page in ("tasks.md", "task-types.md", "extending.md"):
        yield from BLOCK.findall((ROOT / "docs" / page).read_text())


def shown_files() -> Iterator[tuple[str, str]]:
    """Yield name and text of the page's files; the first line, which is the name, is left out."""
    for text in shown_blocks():
        if named := FILE.match(text):
            yield named[1], text[named.end() :]


def shown_lines() -> Iterator[tuple[str, str, str, str]]:
    """Yield module and table, name and target of the page's registry lines."""
    for text in shown_blocks():
        if not FILE.match(text):
            name, target = LINE.fullmatch(text).groups()
            yield *TABLES[target.partition(":")[0].rpartition(".")[0]], name, target


def use_worked_examples(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's files below ``directory``, and set its registry lines.

    A package then also has the modules that the page puts in it, under the names of the page.
    """
    for module, table, name, target in shown_lines():
        monkeypatch.setitem(getattr(importlib.import_module(module), table), name, target)
    for name, text in shown_files():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if file.suffix == ".py" and "/" in name:
            package = importlib.import_module(".".join(Path(name).parts[:-1]))
            if str(file.parent) not in package.__path__:
                monkeypatch.setattr(package, "__path__", [*package.__path__, str(file.parent)])


def add_worked_examples(clone: Path) -> None:
    """Add the page's files and registry lines to a clone, as a contributor does.

    Text for a file that is there already goes to its end. ``levels.py``, a script for a user's own
    data, is left out.
    """
    for name, text in shown_files():
        if "/" in name:
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            with (clone / name).open("a", encoding="utf-8") as file:
                file.write(text)
    for module, table, name, target in shown_lines():
        file = clone / f"{module.replace('.', '/')}.py"
        text = file.read_text(encoding="utf-8")
        start = text.index(f"\n{table} = {{")
        end = text.index("\n}", start)
        line = f'\n    "{name}": "{target}",'
        file.write_text(text[:end] + line + text[end:], encoding="utf-8")
