"""Read YAML into one plain tree that remembers the file and line of every value.

``extends:`` merges other files underneath, ``key.path=value`` overrides go on top, ``defaults:``
is merged underneath every task, and a task set to ``null`` is removed. No torch, no schema here:
``multitask.config`` validates the tree.
"""

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from multitask.utils.errors import UserError, suggest

KeyPath = tuple[str | int, ...]
# keys that name a method: a plain name, or a mapping of its name and options
CHOICES = frozenset(
    {"adapter", "pooling", "eval_pooling", "projection", "head", "sampler", "gradient_surgery"}
)
# keys whose mapping is one value: another file's replaces it as a whole
WHOLE = frozenset({("data", "labels"), ("encoder", "seen_corpora")})
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """YAML 1.2 scalars: ``2e-5`` is a float, ``yes`` and ``on`` are plain strings."""

    yaml_implicit_resolvers: dict[str, Any] = {}


class _Dumper(yaml.SafeDumper):
    """Also quotes what is text to YAML 1.1 and a number to `_Loader`, such as ``1e5``."""


def _resolver(tag: str, pattern: str, first: str) -> None:
    for side in (_Loader, _Dumper):
        side.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_resolver("bool", r"^(true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolver("int", r"^[-+]?[0-9]+$", "-+0123456789")
_resolver("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", "-+.0123456789")
_resolver("float", r"^[-+]?\.(inf|nan)$", "-+.")
_resolver("null", r"^(~|null|Null|NULL|)$", "~nN")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def dump_yaml(value: Any) -> str:
    """Plain values as YAML that ``load_tree`` reads back as they are."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def dump_override(key: str, value: Any) -> str:
    """``key.path=value``, which ``load_tree`` reads back as the value is."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=True,
        width=math.inf,
    )
    return f"{key}={text.removesuffix('...' + chr(10)).strip(' ' + chr(10))}"


@dataclass
class Tree:
    """A plain tree of dicts, lists and scalars with a 'file:line' for every key path."""

    value: Any = field(default_factory=dict)
    sources: dict[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """The source of ``path``, or of its nearest parent that was written somewhere."""
        while path and path not in self.sources:
            path = path[:-1]
        return self.sources.get(path, "")

    def error(self, path: KeyPath, message: str) -> UserError:
        """``FILE:LINE: KEY.PATH: MESSAGE`` as an exception to raise."""
        parts = (self.where(path), ".".join(map(str, path)), message)
        return UserError(": ".join(part for part in parts if part))


def load_tree(path: str | os.PathLike[str], overrides: list[str] | None = None) -> Tree:
    """Read a YAML file with its ``extends``, apply overrides, then spread ``defaults``.

    Raises UserError with file, line and key path for anything that cannot be read.
    """
    tree = load_extended(Path(path))
    for override in overrides or []:
        tree = _merge(tree, _parse_override(override))
    return _spread_defaults(tree)


def load_extended(path: Path, chain: tuple[Path, ...] = ()) -> Tree:
    """A YAML file on top of the files it extends, nothing else done to it.

    Raises UserError with file, line and key path for anything that cannot be read.
    """
    if path.resolve() in chain:
        raise UserError(f"{path}: extends itself (through {' -> '.join(map(str, chain))})")
    tree = _load_file(path)
    if not isinstance(tree.value, dict):
        raise UserError(f"{path}:1: expected keys and values at the top level")
    parents = tree.value.pop("extends", [])
    parents = [parents] if isinstance(parents, str) else parents
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        raise tree.error(("extends",), "expected a file name or a list of file names")
    merged = Tree()
    for parent in parents:
        file = path.parent / parent
        if not file.is_file():
            raise tree.error(("extends",), f"no such file: {file}")
        merged = _merge(merged, load_extended(file, (*chain, path.resolve())))
    return _merge(merged, tree)


def _load_file(path: Path) -> Tree:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a UTF-8 text file"
        raise UserError(f"{path}: cannot read the config file: {reason}") from error
    return _parse(text, str(path))


def _parse(text: str, name: str, one_line: bool = False) -> Tree:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:  # nothing but comments
            return Tree(None if one_line else {}, {(): name if one_line else f"{name}:1"})
        tree = Tree()
        tree.value = _construct(loader, node, (), name if one_line else f"{name}:", tree.sources)
        return tree
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and not one_line else ""
        raise UserError(f"{name}{line}: malformed YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{name}: malformed YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise UserError(f"{name}: malformed YAML: a value contains itself") from None
    finally:
        loader.dispose()


def _construct(loader: Any, node: Any, path: KeyPath, name: str, sources: dict) -> Any:
    """Build plain values from a YAML node, noting the line of every key path."""
    line = node.start_mark.line + 1
    sources.setdefault(path, f"{name}{line}" if name.endswith(":") else name)
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            here = key_node.start_mark.line + 1
            source = f"{name}{here}" if name.endswith(":") else name
            if not isinstance(key, str | int | float):
                raise UserError(f"{source}: a key must be a word, not {key!r}")
            key = key if isinstance(key, str) else str(key)
            if key in mapping:
                keys = ".".join(map(str, (*path, key)))
                raise UserError(f"{source}: {keys}: the key stands twice; keep one")
            sources[(*path, key)] = source
            mapping[key] = _construct(loader, value_node, (*path, key), name, sources)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(loader, item, (*path, index), name, sources)
            for index, item in enumerate(node.value)
        ]
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as error:  # a number of thousands of digits, an explicit wrong tag
        raise UserError(f"{sources[path]}: malformed YAML: {error}") from error


def is_override(word: str) -> bool:
    """Whether an argument is a key=value, not a directory with ``=`` in its name."""
    return re.match(r"[\w.]+=", word) is not None and not Path(word).is_dir()


def read_override(override: str) -> tuple[str, Tree]:
    """The key path, such as ``tasks.sst.pooling``, and the value of an override, read as YAML.

    Raises UserError when it is not ``key.path=value``.
    """
    key, equals, text = override.partition("=")
    keys = key.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"command line: {override!r}: expected key.path=value")
    if keys == ["extends"]:
        raise UserError(f"command line: {override!r}: `extends` belongs in a file")
    source = f"command line: {override}"
    return ".".join(keys), _parse(text, source, one_line=True)


def _parse_override(override: str) -> Tree:
    """``tasks.sst.pooling=mean`` as a tree."""
    key, inner = read_override(override)
    keys, value, source = key.split("."), inner.value, f"command line: {override}"
    sources = {(*keys, *path): source for path in inner.sources}
    for depth in range(1, len(keys) + 1):
        sources[tuple(keys[:depth])] = source
    for part in reversed(keys):
        value = {part: value}
    return Tree(value, sources)


def _merge(base: Tree, over: Tree) -> Tree:
    """``over`` on top of ``base``: mappings merge, everything else replaces."""
    sources = dict(base.sources)
    _check_removed(base, over)
    value = _merge_values(base.value, over.value, (), sources, over.sources)
    return Tree(value, sources)


def _check_removed(base: Tree, over: Tree) -> None:
    """Raise UserError for a task that is set to null and was never there: a slip of the pen."""
    there, removed = (
        tree.value.get("tasks") if isinstance(tree.value, dict) else None for tree in (base, over)
    )
    if isinstance(there, dict) and isinstance(removed, dict):
        for name, task in removed.items():
            if task is None and name not in there:
                hint = suggest(str(name), tuple(map(str, there)))
                raise over.error(("tasks", name), f"no such task to leave out{hint}")


def _merge_values(
    base: Any,
    over: Any,
    path: KeyPath,
    sources: dict[KeyPath, str],
    over_sources: dict[KeyPath, str],
) -> Any:
    choice = bool(path) and path[-1] in CHOICES
    if choice and isinstance(base, str) and isinstance(over, dict):
        base = {"name": base}  # `head: abs_diff` under `head: {features: ...}`
    both = isinstance(base, dict) and isinstance(over, dict) and path[-2:] not in WHOLE
    # another method's options must not survive a change of its name
    if both and not (choice and base.get("name") != over.get("name", base.get("name"))):
        merged = dict(base)
        for key, value in over.items():
            below = (*path, key)
            if key in base:
                merged[key] = _merge_values(base[key], value, below, sources, over_sources)
            else:
                merged[key] = value
                _copy_sources(below, sources, over_sources)
        if path in over_sources and path not in sources:
            sources[path] = over_sources[path]
        return merged
    for known in [known for known in sources if known[: len(path)] == path]:
        del sources[known]
    _copy_sources(path, sources, over_sources)
    return over


def _copy_sources(path: KeyPath, into: dict[KeyPath, str], origin: dict[KeyPath, str]) -> None:
    into.update({key: source for key, source in origin.items() if key[: len(path)] == path})


def _spread_defaults(tree: Tree) -> Tree:
    """Merge ``defaults`` underneath every task and drop the tasks that are null."""
    defaults = tree.value.pop("defaults", None) or {}
    tasks = tree.value.get("tasks")
    if not isinstance(defaults, dict):
        raise tree.error(("defaults",), "expected the keys of a task")
    if not isinstance(tasks, dict):
        return tree
    spread = Tree({}, {})
    origin = {
        path[1:]: source for path, source in tree.sources.items() if path[:1] == ("defaults",)
    }
    for name, task in tasks.items():
        if task is None:
            continue
        below: KeyPath = ("tasks", name)
        own = {path[2:]: source for path, source in tree.sources.items() if path[:2] == below}
        merged = _merge(Tree(defaults, origin), Tree(task, own))
        spread.value[name] = merged.value
        for path, source in {**merged.sources, **own}.items():
            spread.sources[(*below, *path)] = source
    kept = {
        path: source
        for path, source in tree.sources.items()
        if path[:1] != ("tasks",) or len(path) == 1
    }
    return Tree({**tree.value, "tasks": spread.value}, {**kept, **spread.sources})
