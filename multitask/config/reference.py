"""The page of every key of a YAML file, made from the models of ``multitask.config``.

python -m multitask.config.reference > docs/configuration.md
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from multitask.config import Choice, Config, model_in
from multitask.config.registry import KINDS, SUPPLIED, resolve, task_type, type_in_words

INTRO = """\
# Configuration

Every key of a YAML file: its type, its default and what it means. This page is generated
(`python -m multitask.config.reference > docs/configuration.md`); a test keeps it in step.

A mistake (an unknown key, a wrong type, a value out of range) is one line with the file, the line,
the key path and what was expected. `python run_multitask.py check CONFIG` validates everything
and prints the plan without training. The resolved configuration of a run is saved as
`RUN/config.yaml`; training from that file gives the same run.

Scalars are read as in YAML 1.2: `2e-5` is a number, `no` is text, true and false are written
`true` and `false`. `null` is no value.

## Files on top of files: `extends`

    extends: cs224n.yaml        # or a list of files; a later one goes on top
    training:
      epochs: 5

The path is relative to the file that names it. Keys are merged; a list, a scalar and the mappings
`labels` and `seen_corpora` are replaced whole. A task set to `null` is removed. A method with
another name (`adapter`, `pooling`, `projection`, `head`, `sampler`) drops the options of the one
before.

## What tasks share: `defaults`

    defaults:
      batch_size: 32
      data: {format: tsv, id: id}

`defaults` takes any key of a task and is merged underneath every task, after all files and
overrides: what a task says itself counts, in whichever file it says so.

## On the command line

    python run_multitask.py configs/cs224n.yaml data_dir=DIR tasks.sst.pooling=mean \\
        tasks.sts.head='{name: cosine_regression, linear: true}' tasks.qqp=null

A `key.path=value` goes on top of the files; the value is read as YAML.

## Methods and their options

`adapter`, `pooling`, `projection`, `head` and `sampler` are a name, or a name and options:

    head: siamese_paraphrase
    head: {name: siamese_paraphrase, features: [u, v, abs_diff]}

The names and their options stand [below](#adapter).
"""

METHODS = {
    "gradient_surgery": "How joint steps combine the tasks' gradients of the shared encoder; see "
    "[SMART and gradient surgery](smart.md#gradient-surgery).",
    "adapter": "A task's own part inside the encoder's layers ([PALs and adapters](pals.md)).",
    "pooling": "From a sentence's token vectors to one vector.",
    "projection": "An optional layer between pooling and head.",
    "head": "From vectors to scores. A head that takes a pair needs `input: siamese`, one that "
    "takes a vector `input: single` or `input: cross`, one that takes views (contrastive) "
    "`input: single`, `siamese` or `triplet`.",
    "sampler": "Which task is trained in which step.",
}


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRO, *(_block(path, model) for path, model in _models("", Config))]
    parts += [_methods(kind) for kind in KINDS]
    return "\n".join(parts)


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Every block with its key path, outermost first."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        if inner is not None and inner is not Choice:
            below = f"{path}.{name}" if path else name
            yield from _models(f"{below}.NAME" if _is_mapping(field) else below, inner)


def _is_mapping(field: FieldInfo) -> bool:
    return getattr(field.annotation, "__origin__", None) is dict


def _block(path: str, model: type[BaseModel]) -> str:
    rows = [
        [f"`{name}`", _type(path, name, field), _default(field), field.description or ""]
        for name, field in model.model_fields.items()
    ]
    title = f"## `{path}`" if path else "## Top level"
    table = _table(["key", "type", "default", "meaning"], rows)
    return f"{title}\n\n{inspect.getdoc(model)}\n\n{table}"


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
        if getattr(item, attribute, 2**63) != 2**63  # the largest seed says nothing
    ]
    words = type_in_words(field.annotation)
    if bounds:
        words = words.removesuffix(" or null") + f" {', '.join(bounds)}{null}"
    return words


def _anchor(title: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "its own defaults"
    return _shown(field.default.name if isinstance(field.default, Choice) else field.default)


def _shown(value: Any) -> str:
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(value)}`"


def _methods(kind: str) -> str:
    rows = []
    for name in KINDS[kind]:
        factory = resolve(kind, name)
        text = inspect.getdoc(factory) or ""
        what = " ".join(text.partition("\n\n")[0].split())
        declared = []
        if kind == "head":
            predicts = task_type(factory.task_type)
            declared = [factory.takes, predicts.predicts, ", ".join(predicts.selects)]
        rows.append([f"`{name}`", *declared, what, _options(kind, factory)])
    heads = ["takes", "predicts", "metrics"] if kind == "head" else []
    table = _table([kind, *heads, "what it does", "options"], rows)
    return f"## `{kind}`\n\n{METHODS[kind]}\n\n{table}"


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
    """The entries of the docstrings' ``Args:`` sections, a class's own above its parents'."""
    found = {}
    documented = inspect.getmro(factory) if inspect.isclass(factory) else (factory,)
    for parent in reversed(documented):
        text = inspect.cleandoc(parent.__doc__ or "")
        section = re.search(r"^Args:\n((?: .*\n?|\n)*)", text, re.MULTILINE)
        for entry in re.split(r"\n(?= {4}\w)", section[1].rstrip()) if section else []:
            name, _, meaning = entry.partition(":")
            found[name.strip()] = " ".join(meaning.replace("``", "`").split())
    return found


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


if __name__ == "__main__":
    print(page(), end="")
