"""The syntax trees of the source files, and what their functions and calls look like."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

PACKAGES = ("multitask", "heads", "pals", "smart")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(file: Path) -> str:
    """A file's path below the project's directory."""
    return file.relative_to(ROOT).as_posix()


@cache
def sources() -> tuple[Path, ...]:
    """Every source file."""
    below = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    return (*sorted(below), ROOT / "run_multitask.py")


@cache
def scripts() -> tuple[Path, ...]:
    """Every file of benchmarks and tools."""
    return tuple(sorted(f for name in ("benchmarks", "tools") for f in (ROOT / name).rglob("*.py")))


@cache
def files_of_tests() -> tuple[Path, ...]:
    """Every file of tests, with what they share."""
    return tuple(sorted((ROOT / "tests").rglob("*.py")))


@cache
def tree_of(file: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"))


def has_code(file: Path) -> bool:
    """Return False for a file that is empty or holds a docstring alone."""
    return not all(isinstance(node, ast.Expr) for node in tree_of(file).body)


def functions(file: Path) -> Iterator[tuple[str, Function]]:
    """Every function of a file, methods and inner ones too, by its dotted name."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = f"{prefix}{child.name}" if named else prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, child
            yield from below(child, f"{name}." if named else prefix)

    yield from below(tree_of(file), "")


def parameters(function: Function) -> list[str]:
    """The names of a function's parameters, without ``self`` and ``cls``."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def module_name(file: Path) -> str:
    """The dotted name under which a source file is imported; that of a tool is its file's name."""
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name.removeprefix("tools.")


@cache
def own_functions() -> frozenset[str]:
    """The dotted names of our functions outside of classes: no constructor is among them."""
    result = set()
    for file in (*sources(), *scripts()):
        for node in tree_of(file).body:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and node.args.vararg is None:  # those of `*names` have no keywords
                result.add(f"{module_name(file)}.{node.name}")
    return frozenset(result)


@dataclass(frozen=True)
class Call:
    """A call of one of our functions."""

    line: int
    function: str  # its dotted name; of a method the name alone
    positional: int  # how many arguments have no keyword


def calls(file: Path) -> Iterator[Call]:
    """Every call of our own functions: by an imported name, within a module, or on ``self``."""
    tree, module = tree_of(file), module_name(file)
    known = {name.rpartition(".")[2]: name for name in own_functions() if _is_in(name, module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            known |= {alias.asname or alias.name: alias.name for alias in node.names}
    methods = {
        child.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
        if isinstance(child, ast.FunctionDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, *rest = ast.unparse(node.func).split(".")
            name = ".".join((known.get(first, first), *rest))
            method = first == "self" and rest[:1] and len(rest) == 1 and rest[0] in methods
            if method or name in own_functions():
                yield Call(node.lineno, rest[0] if method else name, len(node.args))


def _is_in(name: str, module: str) -> bool:
    return name.rpartition(".")[0] == module
