"""The files and registry lines that docs/extending.md shows: in force for a test, or in a clone."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from multitask.config import registry
from tests.conftest import ROOT

BLOCK = re.compile(r"```(?:python|yaml)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\S+)\n")
LINE = re.compile(r'"(\w+)": "([\w.:]+)",\n')
TABLES = {"models.poolers": "POOLERS", "tasks": "TASK_TYPES"}


def shown_files() -> Iterator[tuple[str, str]]:
    """Yield name and text of the page's files; the first line, which is the name, is left out."""
    for text in BLOCK.findall((ROOT / "docs" / "extending.md").read_text()):
        if named := FILE.match(text):
            yield named[1], text[named.end() :]


def shown_lines() -> Iterator[tuple[str, str, str]]:
    """Yield the table, the name and the target of the page's registry lines."""
    for text in BLOCK.findall((ROOT / "docs" / "extending.md").read_text()):
        if not FILE.match(text):
            name, target = LINE.fullmatch(text).groups()
            room = target.partition(":")[0].rpartition(".")[0].removeprefix("multitask.")
            yield TABLES.get(room, "HEADS"), name, target


def use_worked_examples(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's files below ``directory``, and set its registry lines.

    A package then also has the modules that the page puts in it, under the names of the page.
    """
    for table, name, target in shown_lines():
        monkeypatch.setitem(getattr(registry, table), name, target)
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
    file = clone / "multitask" / "config" / "registry.py"
    text = file.read_text(encoding="utf-8")
    for table, name, target in shown_lines():
        start = text.index(f"\n{table} = {{")
        end = text.index("\n}", start)
        text = f'{text[:end]}\n    "{name}": "{target}",{text[end:]}'
    file.write_text(text, encoding="utf-8")
