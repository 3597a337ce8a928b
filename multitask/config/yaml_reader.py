"""Read YAML text into nodes: plain values, each with its file and line.

The number of values is limited (``multitask.utils.limits``), and aliases count each time they are
used. An error of the YAML library becomes one line with file and line.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import yaml

from multitask.utils.errors import UserError, reason_of
from multitask.utils.limits import CONFIG_NODES

KeyPath = tuple[str | int, ...]
_HALVES = re.compile("[\ud800-\udfff]")  # surrogates: half a character
_BREAKS = re.compile("[\n\r\x85\u2028\u2029\ufeff]")  # YAML changes or drops them unless escaped
# the keys of `data` with label values: `007` and `1e2` there are what the file says, not numbers
_LABELS = {("data", key) for key in ("labels", "where", "unlabelled", "padding_label")}
# the scalars of YAML 1.2, where ``2e-5`` is a number and ``yes`` is text: patterns and values
_SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"(~|null|Null|NULL|)\Z", lambda _: None),
    "bool": (r"(true|True|TRUE|false|False|FALSE)\Z", lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]{1,1000}\Z", int),
    "float": (
        r"[-+]?(\.inf|\.nan|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)\Z",
        lambda text: float(text.replace(".i", "i").replace(".n", "n")),
    ),
    "str": ("", str),
}
_TAG = "tag:yaml.org,2002:"
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """Reads ``_SCALARS`` in place of PyYAML's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # as PyYAML declares it


class _Dumper(yaml.SafeDumper):
    """Also quotes text that `_Loader` would read as a number, such as ``1e5``.

    Line breaks are escaped in double quotes: other styles of YAML change some of them.
    """

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _BREAKS.search(data) else None
        return self.represent_scalar(f"{_TAG}str", data, style)


for _kind, (_pattern, _) in _SCALARS.items():
    for _side in (_Loader, _Dumper):
        _side.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), [None])
_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_multi_representer(PurePath, lambda dumper, path: dumper.represent_str(str(path)))


def _plainly(dumper: Any, value: Any) -> yaml.Node:
    """Write a value of NumPy, or an ordered dict, as the plain one that it is."""
    plain = next(kind for kind in (str, int, float, dict) if isinstance(value, kind))
    return dumper.represent_data(plain(value))


for _kind_of in (str, int, float, dict):
    _Dumper.add_multi_representer(_kind_of, _plainly)

# arguments of PyYAML, each of another type
_DUMP: Mapping[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "allow_unicode": True}


def dump_yaml(value: Any) -> str:
    """Return plain values as YAML; ``load_tree`` reads the same values back."""
    return yaml.dump(value, **_DUMP, width=100)


def dump_override(key: str, value: Any) -> str:
    """Return ``key.path=value`` for the command line; ``load_tree`` reads the same value back."""
    text = yaml.dump(value, **_DUMP, default_flow_style=True, width=math.inf)
    return f"{key}={text.removesuffix('...' + chr(10)).strip(' ' + chr(10))}"


@dataclass(slots=True)
class Node:
    """A value and where it was written; a mapping or a list holds nodes."""

    value: Any  # a scalar, {key: Node} or [Node]
    place: str  # file:line, or the override of the command line

    def plain(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def node_of(values: Mapping[str, Any], place: str) -> Node:
    """Return the node of values from Python, as if they had been written in YAML.

    A tuple is a list, a path is text. Raises UserError for a value that YAML has not, such as an
    array, or that contains itself.
    """
    try:
        return parse(dump_yaml(values), place, lines=False)
    except yaml.representer.RepresenterError as error:
        problem = f"{type(error.args[1]).__name__}: {reason_of(Exception(error.args[1]), 60)}"
        raise UserError(
            f"{place}: expected text, numbers, lists and dicts, not {problem}"
        ) from error
    except RecursionError:
        raise UserError(f"{place}: a value is nested too deeply") from None


def parse(text: str, name: str, path: KeyPath = (), *, lines: bool = True) -> Node:
    """Read a YAML document: a file or, without ``lines``, another text that errors call ``name``.

    ``path`` is the key path of its value. Raises UserError with file and line if the text cannot be
    read.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:  # empty, or only comments
            return Node({}, f"{name}:1")
        return _Reader(name, lines).read(root, path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark and lines else ""
        problem = getattr(error, "problem", None) or reason_of(error)
        if "tab character" in problem or (mark and text[mark.index : mark.index + 1] == "\t"):
            problem = "a tab indents it: YAML takes only spaces there, so write spaces instead"
        raise UserError(f"{name}{line}: malformed YAML: {problem}") from error
    except UnicodeError as error:
        raise UserError(f"{name}: not UTF-8") from error
    except RecursionError:
        message = "a value contains itself, or is nested too deeply"
        raise UserError(f"{name}: malformed YAML: {message}") from None


def parse_value(text: str, place: str, path: KeyPath) -> Node:
    """Read the value of an override: YAML if it begins as a list, a mapping or a quoted text.

    Everything else is one number, word or text, in which no character has a special meaning.
    """
    text = text.strip(" ")
    if text[:1] in ("[", "{", '"', "'"):
        return parse(text, place, path, lines=False)
    tag = _Loader("").resolve(yaml.ScalarNode, text, (True, False))
    return _Reader(place, lines=False).read(yaml.ScalarNode(tag, text), path)


@dataclass
class _Reader:
    """Turns the nodes of PyYAML into ours.

    Attributes:
        name: the name of the text in messages.
        lines: True if line numbers follow the name.
        count: the nodes so far; there is a limit, because an alias may repeat many.
    """

    name: str
    lines: bool
    count: int = 0

    def read(self, node: yaml.Node, path: KeyPath) -> Node:
        self.count += 1
        if self.count > CONFIG_NODES:
            message = f"more than {CONFIG_NODES:,} values, aliases included: use fewer"
            raise UserError(f"{self.name}: {message}")
        place = self._place(node)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.read(item, (*path, i)) for i, item in enumerate(node.value)], place)
        if isinstance(node, yaml.ScalarNode):
            text, kind = self._text(node), node.tag.removeprefix(_TAG)
            pattern, value_of = _SCALARS.get(kind, ("(?!)", str))
            if not re.match(pattern, text):
                message = f"{text[:80]!r} does not fit its tag {kind}"
                raise UserError(f"{place}: malformed YAML: {message}")
            value = value_of(text)
            words = ".".join(map(str, path)).split(".")  # the keys of a grid are paths themselves
            is_label = type(value) in (int, float) and not _LABELS.isdisjoint(pairwise(words))
            return Node(text if is_label else value, place)
        mapping: dict[str, Node] = {}
        for key_node, value_node in node.value:
            place_of_key, key = self._place(key_node), key_node.value  # `007` and `5E2` as written
            if not isinstance(key_node, yaml.ScalarNode):
                raise UserError(f"{place_of_key}: a key must be a word, not a list or a mapping")
            if key in mapping:
                keys = ".".join(map(str, (*path, key)))
                raise UserError(f"{place_of_key}: {keys}: the key is given twice; keep one")
            self._text(key_node)
            mapping[key] = Node(self.read(value_node, (*path, key)).value, place_of_key)
        return Node(mapping, place)

    def _place(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}" if self.lines else self.name

    def _text(self, node: yaml.ScalarNode) -> str:
        if _HALVES.search(node.value):
            raise UserError(f"{self._place(node)}: malformed YAML: {node.value!a} is not UTF-8")
        return node.value
