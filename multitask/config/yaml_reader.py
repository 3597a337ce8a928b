"""Read YAML text into nodes: plain values, each with its file and line.

The number of values is limited (``multitask.utils.limits``), and aliases count each time they are
used. An error of the YAML library becomes one line with file and line.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import yaml

from multitask.utils.errors import UserError, reason_of
from multitask.utils.limits import CONFIG_NODES

KeyPath = tuple[str | int, ...]
_HALVES = re.compile("[\ud800-\udfff]")  # surrogates: half a character
DEEPEST = 100  # keys in one another
_BREAKS = re.compile("[\n\r\x85\u2028\u2029\ufeff]")  # YAML changes or drops them unless escaped
_SIGN = re.compile(r"[-|>?:,%@`\t]")  # alone in an override it is a separator, not YAML
# the keys of `data` with label values: `007` and `1e2` there are what the file says, not numbers
_LABELS = {("data", key) for key in ("labels", "where", "unlabelled", "padding_label")}
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """YAML 1.2 scalars: ``2e-5`` is a float, ``yes`` and ``on`` are plain strings."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # as PyYAML declares it


class _Dumper(yaml.SafeDumper):
    """Also quotes text that `_Loader` would read as a number, such as ``1e5``.

    Line breaks are escaped in double quotes: other styles of YAML change some of them.
    """

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _BREAKS.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


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


# arguments of PyYAML, each of another type
_DUMP: dict[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "allow_unicode": True}


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


def node_of(value: Any, place: str, path: KeyPath = ()) -> Node:
    """Return the node of values from Python, as if they had been written in YAML.

    A tuple is a list, a path is text. Raises UserError for a value that YAML has not, such as an
    array, or that contains itself.
    """
    where = ": ".join(filter(None, (place, ".".join(map(str, path)))))
    if len(path) > DEEPEST:
        raise UserError(f"{place}: {path[0]}: a value contains itself, or is nested too deeply")
    if isinstance(value, Mapping):
        nodes = {}
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, str | int | float):
                raise UserError(f"{where}: a key must be a word, not {key!r}")
            nodes[str(key)] = node_of(item, place, (*path, str(key)))
        return Node(nodes, place)
    if isinstance(value, list | tuple):
        return Node([node_of(item, place, (*path, i)) for i, item in enumerate(value)], place)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str) and (odd := _HALVES.search(value)):
        raise UserError(f"{where}: half a character (U+{ord(odd[0]):04X}) is in a text")
    for kind in (str, bool, int, float):  # plain ones of NumPy's
        if isinstance(value, kind):
            return Node(kind(value), place)
    if value is not None:
        what = f"expected text, a number, a list or a dict, not {type(value).__name__}"
        raise UserError(f"{where}: {what}")
    return Node(None, place)


def parse(text: str, name: str, *, one_line: bool = False, path: KeyPath = ()) -> Node:
    """Read a YAML document. ``name`` is its file or, if ``one_line``, the override of ``path``.

    In an override ``#`` is an ordinary character. Anchors, tags and document markers are refused
    there, because YAML would silently drop a part of the text.

    Raises UserError with file and line if the text cannot be read.
    """
    if one_line and _SIGN.fullmatch(text.strip(" ")):
        return Node(text.strip(" "), name)
    sign = "#"
    if one_line:
        sign = _unused(text)
    text, loader = text.replace("#", sign), None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:  # empty, or only comments
            return Node(None, name) if one_line else Node({}, f"{name}:1")
        if one_line:
            _refuse_signs(text, name)
        return _Reader(loader, name if one_line else f"{name}:", sign).read(node, path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark and not one_line else ""
        problem = getattr(error, "problem", None) or reason_of(error)
        if "tab character" in problem or (mark and text[mark.index : mark.index + 1] == "\t"):
            problem = "a tab indents it: YAML takes only spaces there, so write spaces instead"
        raise UserError(f"{name}{line}: malformed YAML: {problem.replace(sign, '#')}") from error
    except UnicodeError as error:
        raise UserError(f"{name}: not UTF-8") from error
    except RecursionError:
        message = "a value contains itself, or is nested too deeply"
        raise UserError(f"{name}: malformed YAML: {message}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _unused(text: str) -> str:
    """Return a private character that is not in a text, to replace "#" while YAML is read."""
    letters, codes = map(chr, range(0xE000, 0xF900)), text.lower()  # `\\uE000` is one, too
    return next(x for x in letters if x not in text and f"{ord(x):x}" not in codes)


def _refuse_signs(text: str, name: str) -> None:
    """Raise UserError for an anchor, a tag, a marker or, in a text, a line break in an override."""
    if text.lstrip(" ")[:1] not in ("[", "{") and (broken := _BREAKS.search(text)):
        message = f"{broken[0]!a} in a text: write the text in double quotes, and this as there"
        raise UserError(f"{' '.join(name.split())}: malformed YAML: {message}")
    signs = {
        yaml.AnchorToken: "an anchor (&)",
        yaml.AliasToken: "an alias (*)",
        yaml.TagToken: "a tag (!)",
        yaml.DirectiveToken: "a directive (%)",
        yaml.DocumentStartToken: "a document marker (---)",
        yaml.DocumentEndToken: "a document marker (...)",
    }
    for token in yaml.scan(text, Loader=_Loader):
        if type(token) in signs:
            message = f"{signs[type(token)]} has no use here: put the text in quotes"
            raise UserError(f"{name}: malformed YAML: {message}")


def _words(path: KeyPath) -> list[str]:
    """Split a path into single keys; the keys of a grid are paths themselves."""
    return ".".join(map(str, path)).split(".")


@dataclass
class _Reader:
    """Turns the nodes of a YAML loader into ours.

    Attributes:
        loader: the YAML loader.
        name: the name of the text in messages; line numbers are added after a colon at its end.
        hash_sign: the character that replaces "#".
        count: the nodes so far; there is a limit, because an alias may repeat many.
    """

    loader: Any
    name: str
    hash_sign: str
    count: int = 0

    def place(self, node: Any) -> str:
        line = node.start_mark.line + 1
        return f"{self.name}{line}" if self.name.endswith(":") else self.name

    def read(self, node: Any, path: KeyPath) -> Node:
        self.count += 1
        if self.count > CONFIG_NODES:
            message = f"more than {CONFIG_NODES:,} values, aliases included: use fewer"
            raise UserError(f"{self.name.removesuffix(':')}: {message}")
        place = self.place(node)
        if isinstance(node, yaml.MappingNode):
            return Node(self._mapping(node, path), place)
        if isinstance(node, yaml.SequenceNode):
            items = [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
            return Node(items, place)
        value = self._scalar(node, place)
        if type(value) in (int, float) and not _LABELS.isdisjoint(pairwise(_words(path))):
            value = node.value
        return Node(value, place)

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node)
            simple = isinstance(key_node, yaml.ScalarNode)
            key = self._scalar(key_node, place) if simple else [*key_node.value]
            if not isinstance(key, str | int | float):
                shown = repr(key) if simple else "a list or a mapping"
                raise UserError(f"{place}: a key must be a word, not {shown}")
            key = key if isinstance(key, str) else key_node.value  # `007` and `5E2` as written
            if key in mapping:
                keys = ".".join(map(str, (*path, key)))
                raise UserError(f"{place}: {keys}: the key is given twice; keep one")
            mapping[key] = replace(self.read(value_node, (*path, key)), place=place)
        return mapping

    def _scalar(self, node: Any, place: str) -> Any:
        try:
            value = self.loader.construct_object(node, deep=True)
        except yaml.YAMLError:
            raise
        except Exception as error:  # the constructors of YAML tags raise many kinds
            message = f"{node.value[:80]!r} does not fit its tag ({reason_of(error, 200)})"
            raise UserError(f"{place}: malformed YAML: {message}") from error
        if isinstance(value, str):
            value = value.replace(self.hash_sign, "#")
            if odd := _HALVES.search(value):
                shown = f"U+{ord(odd[0]):04X}"
                raise UserError(f"{place}: malformed YAML: half a character ({shown}) is in a text")
        return value
