"""Generate docs/configuration.md from the models of ``multitask.config``.

python -m tools.config_reference > docs/configuration.md
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from itertools import pairwise, starmap
from pathlib import Path
from string import Template
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from multitask.config import Choice, Config, fields_of, model_in
from multitask.config.registry import (
    INPUTS,
    KINDS,
    SUPPLIED,
    TRACKERS,
    head_type,
    input_type,
    resolve,
    type_in_words,
)
from multitask.tasks.glue import FILES as GLUE_FILES

BEGINNING = Path(__file__).with_suffix(".md")  # the part of the page that is written by hand
METHODS = {
    "gradient_surgery": "How joint steps combine the gradients of the tasks in the shared "
    "encoder; see [SMART and gradient surgery](smart.md#gradient-surgery).",
    "adapter": "Parameters of one task inside the encoder's layers ([PALs and adapters](pals.md)).",
    "pooling": "Turns the token vectors of a sentence into one vector.",
    "projection": "An optional layer between pooling and head.",
    "head": "Turns vectors into scores, one vector per sequence of the `input`.",
    "sampler": "Which task is trained in which step.",
}


def page() -> str:
    """Return the page as Markdown."""
    parts = [BEGINNING.read_text("utf-8"), *starmap(_block, _models("", Config))]
    return "\n".join([*parts, *map(_methods, KINDS)])


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield every block of keys with its key path, the outermost first."""
    yield path, model
    for name, field in fields_of(model).items():
        inner = model_in(field.annotation)
        if inner is not None and inner is not Choice:
            below = f"{path}.{name}" if path else name
            yield from _models(f"{below}.NAME" if _is_mapping(field) else below, inner)


def _is_mapping(field: FieldInfo) -> bool:
    return getattr(field.annotation, "__origin__", None) is dict


def _block(path: str, model: type[BaseModel]) -> str:
    meanings = _meanings(model)
    rows = [
        [f"`{name}`", _type(path, name, field), _default(field), meanings[name]]
        for name, field in fields_of(model).items()
    ]
    title = f"## `{path}`" if path else "## Top level"
    table = _table(["key", "type", "default", "meaning"], rows)
    return f"{title}\n\n{inspect.getdoc(model)}\n\n{table}"


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field; `$pooling` in it becomes the registered poolings."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    registered = {**KINDS, "glue_file": GLUE_FILES, "tracker": TRACKERS}
    names = {kind: ", ".join(each) for kind, each in registered.items()}
    names["input"] = " ".join(f"`{n}`: {_summary(type(input_type(n)))}" for n in INPUTS)
    meanings = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                meanings[name.rstrip("_")] = Template(" ".join(text.split())).substitute(names)
    return meanings


def _type(path: str, name: str, field: FieldInfo) -> str:
    model = model_in(field.annotation)
    null = " or null" if type(None) in get_args(field.annotation) else ""
    if model is Choice:
        return f"name, or name and options{null}"
    if model is not None:
        title = f"{path}.{name}" if path else name
        if _is_mapping(field):
            return f"mapping from name to [block](#{_anchor(f'{title}.NAME')})"
        inside = [get_origin(item) for item in get_args(field.annotation)]
        many = "list of " if list in inside else ""
        return f"{many}[block](#{_anchor(title)}){null}"
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(item, attribute)}"
        for item in field.metadata
        for attribute, sign in signs.items()
        if getattr(item, attribute, 2**63) != 2**63  # the largest seed is of no interest
    ]
    words = type_in_words(field.annotation)
    if bounds:
        words = words.removesuffix(" or null") + f" {', '.join(bounds)}{null}"
    return words


def _anchor(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "its defaults"
    return _shown(field.default.name if isinstance(field.default, Choice) else field.default)


def _shown(value: Any) -> str:
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(value)}`"


def _methods(kind: str) -> str:
    rows = []
    for name in KINDS[kind]:
        factory = resolve(kind, name)
        what = _summary(factory)
        declared = []
        if kind == "head":
            predicts = head_type(name)
            forms = [n for n in INPUTS for v in (True, False) if factory.reads(input_type(n), v)]
            declared = [", ".join(forms), predicts.predicts, ", ".join(predicts.selects)]
        rows.append([f"`{name}`", *declared, what, _options(kind, factory)])
    heads = ["input", "predicts", "metrics"] if kind == "head" else []
    table = _table([kind, *heads, "what it does", "options"], rows)
    return f"## `{kind}`\n\n{METHODS[kind]}\n\n{table}"


def _summary(factory: Any) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((inspect.getdoc(factory) or "").partition("\n\n")[0].split())


def _options(kind: str, factory: Any) -> str:
    shown = []
    meanings = _arguments(factory)
    for name, parameter in inspect.signature(factory).parameters.items():
        if name not in SUPPLIED[kind]:
            meaning = meanings.get(name, "")
            words = type_in_words(parameter.annotation)
            required = parameter.default is inspect.Parameter.empty
            default = "required" if required else f"default {_shown(parameter.default)}"
            shown.append(f"`{name}` ({words}, {default}): {meaning}")
    return "<br>".join(shown) or "none"


def _arguments(factory: Any) -> dict[str, str]:
    """Return the ``Args:`` entries of a docstring; those of a class override its parents'."""
    meanings = {}
    documented = inspect.getmro(factory) if inspect.isclass(factory) else (factory,)
    for parent in reversed(documented):
        text = inspect.cleandoc(parent.__doc__ or "")
        section = re.search(r"^Args:\n((?: .*\n?|\n)*)", text, re.MULTILINE)
        for entry in re.split(r"\n(?= {4}\w)", section[1].rstrip()) if section else []:
            name, _, meaning = entry.partition(":")
            meanings[name.strip()] = " ".join(meaning.replace("``", "`").split())
    return meanings


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


if __name__ == "__main__":
    print(page(), end="")
