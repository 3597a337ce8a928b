"""The rules of the house, checked on the syntax trees of all files."""

import ast
from pathlib import Path

from tests.conftest import ROOT

TESTS = sorted((ROOT / "tests").rglob("*.py"))
# it runs at an older commit, whose imports it has
AT_AN_OLDER_COMMIT = {"tests/old_run/make.py"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> set[str]:
    """Every module that is imported, and each name of a ``from`` import as if it were one."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def imports_a_test(module: str) -> bool:
    """Whether a module is one of ``tests`` that holds tests: neither support nor a conftest."""
    first, *rest = module.split(".")
    if first != "tests" or not rest or rest[0] == "support":
        return False
    return "conftest" not in rest and any(part.startswith("test_") for part in rest)


def test_no_test_file_imports_another():
    wrong = {
        name: modules
        for file in TESTS
        if (name := name_of(file)) not in AT_AN_OLDER_COMMIT
        and (modules := sorted(filter(imports_a_test, imports(ast.parse(file.read_text())))))
    }
    assert not wrong, "conftest.py and tests/support/ hold what is shared"
