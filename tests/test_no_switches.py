"""No code decides by the name of a task type or of an input.

It asks the type (``TaskType``) or the input (``Input``) instead, so that a new one needs no edit
there. Only registries have the names; a type is named in `tasks/`, an input in `data/inputs/`.
"""

import ast
from collections.abc import Collection, Iterator

import pytest

from multitask.config.registry import INPUTS, TASK_TYPES
from tests.conftest import ROOT
from tests.support.source_tree import name_of, sources, tree_of

# What holds a task type, or its name.
MENTIONS = {"label_type", "task_type"}
INPUTS_NAMED = ("multitask/data/inputs/", "multitask/config/registry.py")
# the tool writes data files, whose columns have such names
ALLOWED = (
    "multitask/tasks/",
    "multitask/config/registry.py",
    "multitask/data/by_type.py",
    "multitask/reporting/figures/figure_registry.py",
    "tools/same_results_files.py",
)
CLASSES = {target.rpartition(":")[2] for target in TASK_TYPES.values()}


FILES = [
    file
    for file in (*sources(), *sorted((ROOT / "tools").rglob("*.py")))
    if not name_of(file).startswith(ALLOWED)
]


def mentions(node: ast.AST, known: Collection[str] = ()) -> bool:
    """Return True for an expression that is a task type or its name, or holds one.

    ``known`` are the variables that hold one.
    """
    match node:
        case ast.Name(id=name):
            return name in MENTIONS or name in known
        case ast.Attribute(attr="name", value=value):
            return mentions(value, known)
        case ast.Attribute(attr=name):
            return name in MENTIONS
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key in MENTIONS
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_]):
            return key in MENTIONS
        case ast.Call(func=ast.Name(id="str"), args=[value]) | ast.NamedExpr(value=value):
            return mentions(value, known)
        case ast.Call(func=function):
            return mentions(function)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(mentions(part, known) for part in parts)
    return False


def holders(function: ast.AST) -> set[str]:
    """The variables that are given a task type or its name somewhere in a function."""
    result: set[str] = set()
    before = -1
    while len(result) > before:  # a variable may be given what another one holds
        before = len(result)
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=targets, value=value):
                    result |= set().union(*(given(target, value, result) for target in targets))
                case ast.NamedExpr(target=target, value=value):
                    result |= given(target, value, result)
                case ast.arg(arg=name, annotation=ast.expr() as annotation):
                    result |= (
                        {name} if ast.unparse(annotation).strip("\"'") == "TaskType" else set()
                    )
    return result


def given(target: ast.AST, value: ast.AST, known: Collection[str]) -> set[str]:
    """The names in ``target`` that an assignment of ``value`` gives a task type."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return set().union(*(given(*pair, known) for pair in pairs))
    return {target.id} if isinstance(target, ast.Name) and mentions(value, known) else set()


def switches(node: ast.AST, known: Collection[str] = ()) -> Iterator[int]:
    """The lines where a task type decides: comparisons, matches, look-ups, and tables by name."""
    if isinstance(node, ast.Module | ast.FunctionDef | ast.Lambda):
        known = () if isinstance(node, ast.Module) else {*known, *holders(node)}
    if switched(node, known):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from switches(child, known)


def switched(node: ast.AST, known: Collection[str]) -> bool:
    """Return True if a task type decides in this very expression or statement."""
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [mentions(side, known) for side in (left, *others)]
            # two types compared with each other are no switch: they are the same or not
            return any(sides) and not all(sides)
        case ast.Match(subject=subject):
            return mentions(subject, known)
        case ast.Subscript(slice=key):
            return mentions(key, known)
        case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[key, *_]):
            return mentions(key, known)
        case ast.Call(func=ast.Attribute(attr="startswith" | "endswith", value=value)):
            return mentions(value, known)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
            return bool({ast.unparse(one) for one in ast.walk(classes)} & CLASSES)
        case ast.Dict(keys=[_, _, *_] as keys):
            return all(isinstance(key, ast.Constant) and key.value in TASK_TYPES for key in keys)
    return False


@pytest.mark.parametrize(
    "code",
    [
        "if result['label_type'] == 'class': pass",
        "if head.task_type in ('tags', 'span'): pass",
        "if reader.task_type.name != 'number': pass",
        "def f():\n    kind = task_type(name)\n    if kind.name == 'views': pass",
        "def f():\n    kind, other = reader.task_type, 1\n    found = TABLE[kind.name]",
        "def f(kind: TaskType): return kind.name == 'views'",
        "match report['label_type']:\n    case 'class': pass",
        "found = READERS[result['label_type']]",
        "found = READERS.get(head.task_type, plain)",
        "found = READERS[(label_type, split)]",
        "if str(label_type).startswith('n'): pass",
        "if isinstance(kind, Regression): pass",
        "READERS = {'class': read_class, 'number': read_number}",
        "def f():\n    kind = reader.task_type\n    name = kind.name\n    return name == 'span'",
        "if (one := reader.task_type) is other: pass",
    ],
)
def test_a_switch_is_noticed(code):
    assert list(switches(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "kind = task_type(result['label_type'])",
        "if isinstance(reader.task_type, RowLabels): pass",
        "if one.task_type != other.task_type: pass",
        "entry = {'label_type': reader.task_type.name, 'metric': metric}",
        "found = report['label_type']",
        "def f():\n    kind = reader.task_type\n    return TABLE[figure_name(kind, task)]",
        "def f():\n    here = reader.task_type\ndef g(here):\n    return here == 1",
        "entry.get('label_type')",
    ],
)
def test_what_asks_the_type_is_no_switch(code):
    assert not list(switches(ast.parse(code)))


def test_no_file_switches_by_task_type():
    result = [f"{name_of(file)}:{line}" for file in FILES for line in switches(tree_of(file))]
    assert not result, "ask the TaskType, or the head"


def test_a_type_is_reached_by_the_registry_alone():
    """No module outside of `tasks/` imports the class of a type."""
    result = [
        f"{name_of(file)}:{node.lineno}"
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ImportFrom) and CLASSES & {alias.name for alias in node.names}
    ]
    assert not result


def names_an_input(node: ast.AST) -> bool:
    """Return True for an expression that is the ``input`` of a task, or names of inputs."""
    match node:
        case ast.Constant(value=str(value)):
            return value in INPUTS
        case ast.Attribute(attr="input"):
            return True
        case ast.Subscript(slice=ast.Constant(value="input")):
            return True
        case ast.Tuple(elts=[_, *_] as parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(names_an_input, parts))
    return False


def input_switches(tree: ast.AST) -> Iterator[int]:
    """The lines where the name of an input decides."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                decides = any(map(names_an_input, (left, *others)))
            case ast.Match(subject=key) | ast.Subscript(slice=key):
                decides = isinstance(key, ast.Attribute) and names_an_input(key)
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                decides = isinstance(key, ast.Attribute) and names_an_input(key)
            case ast.Dict(keys=[_, *_] as keys):
                decides = all(isinstance(key, ast.Constant) and key.value in INPUTS for key in keys)
            case _:
                decides = False
        if decides:
            yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "if entry.input == 'cross': pass",
        "if config.tasks[task].input in PAIRS: pass",
        "if 'siamese' == name: pass",
        "if report['input'] != 'single': pass",
        "COLUMNS = {'single': 1, 'cross': 2}",
        "columns = COLUMNS[entry.input]",
        "columns = COLUMNS.get(entry.input, 1)",
        "match entry.input:\n    case 'cross': pass",
    ],
)
def test_a_switch_by_input_is_noticed(code):
    assert list(input_switches(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    ["row = {'input': entry.input}", "form = input_type(entry.input)", "input_of(entry).sides"],
)
def test_what_asks_the_input_is_no_switch(code):
    assert not list(input_switches(ast.parse(code)))


def test_no_file_switches_by_input():
    result = [
        f"{name_of(file)}:{line}"
        for file in sources()
        if not name_of(file).startswith(INPUTS_NAMED)
        for line in input_switches(tree_of(file))
    ]
    assert not result, "ask the Input (multitask/data/inputs)"
