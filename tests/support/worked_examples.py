"""The files and registry lines that docs/extending.md shows, put in force for a test."""

import importlib
import re
from pathlib import Path

import pytest

from multitask.config import registry
from tests.conftest import ROOT

BLOCK = re.compile(r"```(python|yaml)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\S+)\n")
LINE = re.compile(r'"(\w+)": "([\w.:]+)",\n')
TABLES = {"models.poolers": registry.POOLERS, "tasks": registry.TASK_TYPES}


def use_worked_examples(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's files below ``directory``, and set its registry lines.

    A package then also has the modules that the page puts in it, under the names of the page.
    """
    for _, text in BLOCK.findall((ROOT / "docs" / "extending.md").read_text()):
        named = FILE.match(text)
        if not named:
            name, target = LINE.fullmatch(text).groups()
            room = target.partition(":")[0].rpartition(".")[0].removeprefix("multitask.")
            monkeypatch.setitem(TABLES.get(room, registry.HEADS), name, target)
            continue
        file = directory / named[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if file.suffix == ".py" and "/" in named[1]:
            package = importlib.import_module(".".join(Path(named[1]).parts[:-1]))
            if str(file.parent) not in package.__path__:
                monkeypatch.setattr(package, "__path__", [*package.__path__, str(file.parent)])
