"""The rules of the house, checked on the syntax trees of all files."""

import ast
import re

import pytest

from tests.conftest import ROOT
from tests.support.source_tree import (
    calls,
    files_of_tests,
    functions,
    has_code,
    name_of,
    parameters,
    scripts,
    sources,
    tree_of,
)

# alarms, not walls: a file that is better whole says why in a comment `# Long: ...`
LINES_OF_A_FILE = 400
LONG = re.compile(r"^# Long: \S+ \S+", re.MULTILINE)
LINES_OF_A_FUNCTION = 70
PARAMETERS = 12
POSITIONAL_ARGUMENTS = 4
UNTYPED_DICTIONARIES = 60
ROOMS = {
    "api",
    "commands",
    "config",
    "data",
    "inference",
    "models",
    "reporting",
    "store",
    "sweep",
    "tasks",
    "training",
    "utils",
}
# folders of tests that mirror no package of the source
OTHER_TESTS = ("benchmarks", "configs", "faults", "runs", "tools")
TESTED_BY = re.compile(r"# Tested by (tests/\S+\.py)\n")


def test_files_are_short_or_say_why_not():
    files = [*sources(), *scripts(), *files_of_tests()]
    texts = {name_of(file): file.read_text(encoding="utf-8") for file in files}
    result = {
        name
        for name, text in texts.items()
        if len(text.splitlines()) > LINES_OF_A_FILE and not LONG.search(text)
    }
    assert not result


def test_functions_are_short():
    result = {
        f"{name_of(file)}: {name}"
        for file in (*sources(), *scripts())
        for name, function in functions(file)
        if (function.end_lineno or 0) - function.lineno + 1 > LINES_OF_A_FUNCTION
    }
    assert not result


def test_functions_have_few_parameters():
    result = {
        f"{name_of(file)}: {name}"
        for file in (*sources(), *scripts())
        for name, function in functions(file)
        if function.name != "__init__" and len(parameters(function)) > PARAMETERS
    }
    assert not result


def test_calls_name_their_arguments_from_the_fifth_on():
    """Calls of our own functions; constructors are excepted."""
    result = {
        f"{name_of(file)}: {call.function.rpartition('.')[2]}"
        for file in (*sources(), *scripts())
        for call in calls(file)
        if call.positional > POSITIONAL_ARGUMENTS
    }
    assert not result


def test_few_dictionaries_hold_values_of_any_type():
    """Types are named; a dictionary of anything is for any YAML and JSON, and says so."""
    counts = {
        name_of(file): file.read_text(encoding="utf-8").count("dict[str, Any]")
        for file in (*sources(), *scripts())
    }
    result = {name: count for name, count in counts.items() if count}
    assert 0 < sum(result.values()) <= UNTYPED_DICTIONARIES, result


def test_multitask_holds_the_rooms_and_nothing_else():
    directory = ROOT / "multitask"
    rooms = {path.name for path in directory.iterdir() if path.is_dir()} - {"__pycache__"}
    assert rooms == ROOMS
    assert [path.name for path in directory.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("room", ["tasks", "utils"])
def test_rooms_whose_face_is_empty(room):
    assert (ROOT / "multitask" / room / "__init__.py").read_text() == ""


# --- tests/ mirrors the source ---


def mirrored(name: str) -> str:
    """The test file of a source file."""
    directory, _, base = name.removeprefix("multitask/").rpartition("/")
    return f"tests/{directory}/test_{base}" if directory else f"tests/test_{base}"


def test_each_source_file_has_its_test_file_or_names_another():
    """`# Tested by tests/...` in the first line names the contract test that covers the file."""
    untested, wrong = set(), []
    for file in filter(has_code, sources()):
        name, named = name_of(file), TESTED_BY.match(file.read_text(encoding="utf-8"))
        has_test = (ROOT / mirrored(name)).is_file()
        if named is None and not has_test:
            untested.add(name)
        if named is not None and (has_test or not (ROOT / named[1]).is_file()):
            wrong.append(
                f"{name}: {named[1]}" + (f", but it has {mirrored(name)}" if has_test else "")
            )
    assert not wrong
    assert not untested, "write tests/..., or name the test in the first line"


def test_each_test_file_mirrors_a_source_file_or_is_a_contract():
    expected = {mirrored(name_of(file)) for file in sources()}
    for file in sources():
        named = TESTED_BY.match(file.read_text(encoding="utf-8"))
        expected |= {named[1]} if named else set()
    others = tuple(f"tests/{folder}/" for folder in OTHER_TESTS)
    wrong = [
        name
        for name in map(name_of, files_of_tests())
        if "/test_" in name and name.count("/") > 1 and not name.startswith(others)
        if name not in expected
    ]
    assert not wrong, "name a test after its source file"


def test_no_two_modules_have_one_file_name():
    """A reader finds a file by its name alone. That of a command has the command's name."""
    names = [
        file.name
        for file in sources()
        if name_of(file).startswith("multitask/") and file.name not in ("__init__.py", "base.py")
        if not name_of(file).startswith("multitask/commands/")
    ]
    assert not {name for name in names if names.count(name) > 1}


def imports(tree: ast.AST) -> set[str]:
    """Every module that is imported, and each name of a ``from`` import as if it were one."""
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            result |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return result


def imports_a_test(module: str) -> bool:
    """Return True for a module of ``tests`` that holds tests: neither support nor a conftest."""
    first, *rest = module.split(".")
    if first != "tests" or not rest or rest[0] == "support":
        return False
    return "conftest" not in rest and any(part.startswith("test_") for part in rest)


def test_no_test_file_imports_another():
    wrong = {
        name_of(file): modules
        for file in files_of_tests()
        if (modules := sorted(filter(imports_a_test, imports(tree_of(file)))))
    }
    assert not wrong, "conftest.py and tests/support/ hold what is shared"
