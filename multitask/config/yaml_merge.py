"""Merge a config's YAML files and overrides into plain values that know their file and line.

- A file overrides the files in its ``extends:``. A file that is not next to it is looked up in
  ``configs/`` of the clone.
- A ``key.path=value`` overrides the files.
- ``defaults:`` applies to every task that does not set the key itself.
- A task set to ``null`` is removed.

This module has no schema and no torch: ``multitask.config`` validates the tree.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multitask.config.yaml_reader import KeyPath, Node, node_of, parse, parse_value
from multitask.utils.errors import AS_UTF8, UserError, no_file, suggest
from multitask.utils.limits import CONFIG_BYTES, CONFIG_FILES, read_bounded
from multitask.utils.paths import expand_home

# keys that name a method: a name, or a mapping with name and options
CHOICES = frozenset(
    {"adapter", "pooling", "eval_pooling", "projection", "head", "sampler", "gradient_surgery"}
)
# mappings that another file replaces instead of merging keys
REPLACED = frozenset({("data", "labels"), ("encoder", "seen_corpora")})
FROM_PYTHON = "config"  # the place of values that are in no file
PRESETS = Path(__file__).parents[2] / "configs"  # of the clone, or of an installed wheel


@dataclass(frozen=True)
class Override:
    """A value that replaces the one of a config file.

    Attributes:
        text: ``key.path=value``.
        place: where it was written: file and line, or the command line.
    """

    text: str
    place: str

    @property
    def key(self) -> str:
        return self.text.partition("=")[0]


Overrides = Sequence[str | Override]  # a text is of the command line
# a YAML file, or its keys and values, whose `extends` is relative to the current directory
Source = str | os.PathLike[str] | Mapping[str, Any]


@dataclass
class Tree:
    """Plain values, and the places they were read from."""

    value: Any = field(default_factory=dict)  # plain dicts, lists and scalars
    root: Node = field(default_factory=lambda: Node({}, ""))  # the same values with their places
    defaults: Node | None = None  # the value of `defaults:`
    overridden: frozenset[str] = frozenset()  # the places of the overrides

    def where(self, path: KeyPath) -> str:
        """Return the place of ``path``, or of its nearest parent that a file sets."""
        return _reached(self.root, path)[0].place

    def is_default(self, path: KeyPath) -> bool:
        """Return True if the task itself does not set ``path``."""
        node, depth = _reached(self.root, path)
        if depth < len(path) or self.defaults is None:
            return depth < len(path)
        shared, depth = _reached(self.defaults, path[2:])
        return depth == len(path) - 2 and shared is node

    def is_overridden(self, path: KeyPath) -> bool:
        """Return True if an override sets ``path``, in the task itself or in ``defaults``."""
        node, depth = _reached(self.root, path)
        return depth == len(path) and node.place in self.overridden

    def without_type(self, path: KeyPath) -> KeyPath:
        """Leave out the name of a type, which pydantic adds if a value may have several types."""
        node, depth = _reached(self.root, path)
        return path if isinstance(node.value, dict) else path[:depth]

    def error(self, path: KeyPath, message: str) -> UserError:
        """Return the exception ``FILE:LINE: KEY.PATH: MESSAGE``."""
        parts = (self.where(path), ".".join(map(str, path)), message)
        return UserError(": ".join(part for part in parts if part), place=parts[0])


def _reached(node: Node, path: KeyPath) -> tuple[Node, int]:
    """Return the node at ``path``, or its deepest existing parent, and the depth reached."""
    for depth, key in enumerate(path):
        inside: Any = node.value
        if isinstance(inside, list):
            inside = dict(enumerate(inside))
        if not isinstance(inside, dict) or key not in inside:
            return node, depth
        node = inside[key]
    return node, len(path)


def load_tree(source: Source, overrides: Overrides | None = None) -> Tree:
    """Read a YAML file, or its values, with its ``extends``; apply overrides, then ``defaults``.

    Raises UserError with file, line and key path if something cannot be read.
    """
    if isinstance(source, Mapping):
        root = _on_parents(node_of(source, FROM_PYTHON), Path(), [])
    else:
        root = load_extended(Path(source)).root
    placed = [_with_place(override) for override in overrides or []]
    for override in placed:
        root = _on_top(root, _parse_override(override))
    overridden = frozenset(override.place for override in placed)
    for override in placed:
        _check_default(root, override, overridden)
    return _spread_defaults(root, overridden)


def load_extended(path: Path) -> Tree:
    """Read a YAML file with its ``extends``, without applying ``defaults``.

    Raises UserError with file, line and key path if something cannot be read.
    """
    root = _extended(_found(path, str(path)), [])
    return Tree(root.plain(), root)


def _found(file: Path, name: str) -> Path:
    """Return a file, or the preset of this name if there is none: it works from any directory.

    ``demo.yaml`` and ``configs/demo.yaml`` are one preset.
    """
    parts = Path(name).parts
    preset = PRESETS.joinpath(*(parts[1:] if parts[:1] == (PRESETS.name,) else parts))
    return preset if not os.path.lexists(file) and preset.is_file() else file


def _extended(path: Path, read: list[Path]) -> Node:
    """Read a file and the files it extends; ``read`` has those that were read before."""
    read.append(path)
    if len(read) > CONFIG_FILES:
        raise UserError(f"{path}: extends itself, or more than {CONFIG_FILES} files are extended")
    try:
        text = read_bounded(path, CONFIG_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = f"not a UTF-8 text file: {AS_UTF8}"
        if isinstance(error, OSError):
            reason = f"{error.strerror}{'' if path.exists() else _nearest(path)}"
        raise UserError(f"{path}: cannot read the config file: {reason}") from error
    node = parse(text, str(path))
    if not isinstance(node.value, dict):
        raise UserError(f"{path}:1: expected keys and values at the top level")
    return _on_parents(node, path.parent, read)


def _on_parents(node: Node, directory: Path, read: list[Path]) -> Node:
    """Override what a file extends, relative to its directory, with the file's own values."""
    extends = node.value.pop("extends", Node([], ""))
    parents = extends.plain()
    parents = [parents] if isinstance(parents, str) else parents
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        message = "expected a file name or a list of file names"
        raise UserError(f"{extends.place}: extends: {message}")
    merged: Node | None = None
    for parent in parents:
        file = _found(directory / expand_home(parent), parent)
        if not file.is_file() and not file.is_symlink():
            raise UserError(f"{extends.place}: extends: {no_file(file)}{_nearest(Path(parent))}")
        merged = _on_top(merged, _extended(file, read))
    return _on_top(merged, node)


def _on_top(base: Node | None, over: Node) -> Node:
    """Override ``base``, if there is one, with ``over``; a text as ``encoder`` is its name.

    Raises UserError if a task that does not exist is set to null: probably a typo.
    """
    encoder = over.value.get("encoder")
    if encoder is not None and isinstance(encoder.value, str):
        over.value["encoder"] = Node({"name": encoder}, encoder.place)
    if base is None:
        return over
    there, tasks = (node.value.get("tasks", Node(None, "")).value for node in (base, over))
    for name, task in tasks.items() if isinstance(there, dict) and isinstance(tasks, dict) else ():
        if task.value is None and name not in there:
            message = f"no such task to leave out{suggest(name, tuple(there))}"
            raise UserError(f"{task.place}: tasks.{name}: {message}", place=task.place)
    return _merge(base, over)


def _nearest(path: Path) -> str:
    """Return ' (did you mean ...?)' with the file of the nearest name: next to it, or a preset."""
    files = [*path.parent.glob("*.yaml"), *PRESETS.rglob("*.yaml")]
    near = difflib.get_close_matches(path.stem, [file.stem for file in files], n=1, cutoff=0.7)
    alike = [file for file in files if file.stem in near]
    if not alike:
        return ""
    # names such as `minilm.yaml` are in several directories
    best = max(alike, key=lambda file: file.parent.name == path.parent.name)
    if best.is_relative_to(PRESETS):
        best = Path(PRESETS.name, best.relative_to(PRESETS))
    return f" (did you mean {str(best)!r}?)"


def is_override(word: str) -> bool:
    """Return True for an argument ``key=value`` that is not a directory with ``=`` in its name."""
    return re.match(r"[\w.]+=", word) is not None and not os.path.isdir(word)  # noqa: PTH112


def _with_place(override: str | Override) -> Override:
    if isinstance(override, Override):
        return override
    return Override(override, f"command line: {override}")


def read_override(override: str | Override) -> tuple[str, Tree]:
    """Return the key path of an override, such as ``tasks.sst.pooling``, and its value.

    Raises UserError if it is not ``key.path=value``.
    """
    override = _with_place(override)
    key, equals, text = override.text.partition("=")
    keys = key.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"command line: {override.text!r}: expected key.path=value")
    if keys == ["extends"]:
        raise UserError(f"command line: {override.text!r}: `extends` belongs in a file")
    node = parse_value(text, override.place, tuple(keys))
    return ".".join(keys), Tree(node.plain(), node)


def _parse_override(override: Override) -> Node:
    """Turn ``tasks.sst.pooling=mean`` into nested mappings."""
    key, tree = read_override(override)
    node = tree.root
    for part in reversed(key.split(".")):
        node = Node({part: node}, override.place)
    return node


def nested(overrides: Overrides) -> Any:
    """Return what overrides set as plain values, as a config file has them."""
    root = Node({}, "")
    for override in overrides:
        root = _merge(root, _parse_override(_with_place(override)))
    return root.plain()


def _check_default(root: Node, override: Override, overridden: frozenset[str]) -> None:
    """Raise UserError for an override of a default that tasks of the files replace in silence.

    Every task does, or the override is null, which is to take the value from all of them.
    """
    first, *path = override.key.strip().split(".")
    tasks = root.value.get("tasks", Node(None, "")).value
    if first != "defaults" or not path or not isinstance(tasks, dict):
        return
    null = read_override(override)[1].value is None
    used = {name: task for name, task in tasks.items() if task.value is not None}
    own = {}
    for name, task in used.items():
        node, depth = _reached(task, tuple(path))
        # a mapping takes other values in, but not null
        if depth == len(path) and (null or not isinstance(node.value, dict)):
            own[name] = node
    if len(own) < len(used):
        own = {
            name: node
            for name, node in own.items()
            if null and node.value is not None and node.place not in overridden
        }
    if own:
        keys = ", ".join(f"tasks.{name}.{'.'.join(path)}" for name in own)
        message = f"has no effect on {', '.join(own)}, which set it too: set also {keys}"
        raise UserError(f"{override.place}: {message}", place=override.place)


def _merge(base: Node, over: Node, path: KeyPath = (), *, mine: bool = False) -> Node:
    """Override ``base`` with ``over``: merge mappings, replace everything else.

    A merged mapping has the place of ``base``; a method, or any mapping if ``mine``, that of
    ``over``, whose options count.
    """
    below, above = base.value, over.value
    choice = bool(path) and path[-1] in CHOICES
    if choice and isinstance(below, str) and isinstance(above, dict):
        below = {"name": base}  # `head: abs_diff` under `head: {features: ...}`
    if not (isinstance(below, dict) and isinstance(above, dict)) or path[-2:] in REPLACED:
        return over
    if choice and "name" in above and above["name"].value != below.get("name", base).value:
        return over  # the options of one method do not fit another
    merged = dict(below)
    for key, node in above.items():
        merged[key] = _merge(below[key], node, (*path, key), mine=mine) if key in below else node
    return Node(merged, over.place if mine or choice else base.place)


def _spread_defaults(root: Node, overridden: frozenset[str]) -> Tree:
    """Apply ``defaults`` to every task and remove the tasks that are null."""
    keys = dict(root.value)
    defaults = keys.pop("defaults", Node(None, ""))
    if defaults.value is None:
        defaults = Node({}, defaults.place)
    if not isinstance(defaults.value, dict):
        message = f"{defaults.place}: defaults: expected the keys of a task"
        raise UserError(message, place=defaults.place)
    tasks = keys.get("tasks")
    if tasks is not None and isinstance(tasks.value, dict):
        used = {name: task for name, task in tasks.value.items() if task.value is not None}
        spread = {name: _merge(defaults, task, mine=True) for name, task in used.items()}
        keys["tasks"] = Node(spread, tasks.place)
    root = Node(keys, root.place)
    return Tree(root.plain(), root, defaults, overridden)
