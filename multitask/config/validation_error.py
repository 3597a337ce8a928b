"""Turn a validation error of pydantic into one line about the YAML file."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from multitask.config.base import model_in
from multitask.config.config import Config
from multitask.config.synonyms import keys_called
from multitask.config.task_config import TaskConfig
from multitask.config.yaml_merge import CHOICES, Tree
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError, suggest

_EXPECTED = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
}


def _fields_at(path: KeyPath, model: Any) -> Mapping[str, Any]:
    """Return the fields of the model at a key path below ``model``, to suggest a valid key."""
    if model is Config and path[:1] == ("tasks",):
        path, model = path[2:], TaskConfig
    for part in path:
        if isinstance(part, str) and model is not None:  # a list has the model of its items
            field = model.model_fields.get(part)
            model = field and model_in(field.annotation)
    return {} if model is None else model.model_fields


def full_keys(key: str) -> list[str]:
    """Return the full keys that end with a key, else those that others call so.

    Those of a task are below ``defaults``. The name may say a value: ``use_gpu`` is
    ``device=cuda``.
    """
    sections: dict[tuple[str, ...], type[BaseModel]] = {(): Config, ("defaults",): TaskConfig}
    for above, model in list(sections.items()):
        for name, field in model.model_fields.items():
            inner = model_in(field.annotation)
            if inner is not None and name not in (*CHOICES, "tasks", "stages"):
                sections[*above, name] = inner
    exact = [
        ".".join((*above, key)) for above, model in sections.items() if key in model.model_fields
    ]
    return exact or keys_called(key)


def _meant(path: KeyPath, keys: Sequence[str]) -> str:
    """Return ' (did you mean ...?)' for an unknown key, where ``keys`` are known."""
    places = [place.partition("=")[0] for place in full_keys(str(path[-1]))]
    # a key of this mapping, such as `max_length` of a task, before that of all
    here = [last for place in places if (last := place.rpartition(".")[2]) in keys]
    if here:
        places = [".".join(map(str, (*path[:-1], here[0])))]
    if places:
        return f" (did you mean {' or '.join(places)}?)"
    return suggest(str(path[-1]), tuple(keys))


def explain(error: ValidationError, tree: Tree, model: type[BaseModel]) -> UserError:
    """Return the first mistake as one line: file, line, key path and what was expected."""
    problems = error.errors(include_url=False)
    # report an unknown key first: it is often a misspelling of the missing one
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path: KeyPath = tuple(problem["loc"])
    kind = problem["type"]
    if kind == "extra_forbidden":
        keys = tuple(_fields_at(path[:-1], model))
        if path[:-1] == ():
            keys = (*keys, *(("defaults",) if model is Config else ()), "extends")
        return tree.error(path, f"unknown key{_meant(path, keys)}")
    if kind == "missing":
        hint = ""
        if path[:1] == ("tasks",) and tree.where(path[:2]) in tree.overridden:
            others = [name for name in tree.value["tasks"] if name != path[1]]
            hint = f"; to change a task, name one of {', '.join(others)}" if others else ""
        return tree.error(path[:-1], f"the key {path[-1]!r} is missing{hint}")
    shown = repr(problem["input"])
    shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    message = _EXPECTED.get(kind) or problem["msg"].removeprefix("Value error, ")
    if kind == "at_key":
        path = (*path, problem["ctx"]["key"])
    if kind == "model_type" and path[-1] in CHOICES:
        message = "expected a name, or a name and options"
    if kind == "too_long":
        message = f"at most {problem['ctx']['max_length']:,} are possible"
    if kind not in ("value_error", "at_key", "too_short", "too_long"):
        message = f"{message.replace('Input should be', 'should be')}, not {shown[:80]}"
    if kind == "too_short":
        message = f"at least one {str(path[-1]).removesuffix('s')} is needed"
    return tree.error(path, message)
