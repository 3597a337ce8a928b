"""Each line of the registry with each of its options at values that are not the default.

The options are read from the constructor's signature. A value follows from the option's type and
default: the first near one that the constructor takes. HINTS has the values that cannot follow.
"""

import inspect
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import torch
from torch import nn

from multitask.config.registry import KINDS, SUPPLIED, build, resolve
from multitask.data.task_sampler import Sizes
from multitask.utils.errors import UserError

CLASSES = 3
DIM, LAYERS, TASKS = 32, 3, ("one", "two")
REQUIRED = inspect.Parameter.empty

# values of texts, lists of texts and mappings: "GENERATOR" becomes a masked language model
HINTS: dict[tuple[str, str, str], list[Any]] = {
    ("head", "classification", "class_weights"): ["balanced"],
    ("head", "multi_label", "positive_weights"): ["sqrt"],
    ("head", "siamese_paraphrase", "features"): [["u", "v", "product"]],
    ("head", "diffcse", "generator"): ["GENERATOR"],
    ("adapter", "lora", "targets"): [["key", "attention.output", "up"]],
    ("pooling", "concat", "parts"): [["max", {"name": "avg_first_last", "first": 0}, "cls"]],
    ("sampler", "round_robin", "oversample"): [{"while_train_score_below": 0.5}],
    ("sampler", "fixed", "weights"): [{"one": 1.0, "two": 3.0}],
}


class Line(NamedTuple):
    """A line of the registry.

    Attributes:
        kind: `head`, `pooling` and so on.
        name: the registered name.
        options: the options to build it with.
    """

    kind: str
    name: str
    options: dict[str, Any]

    @property
    def entry(self) -> dict[str, Any]:
        """The value of the config key."""
        return {"name": self.name, **self.options}


def lines(kind: str) -> list[Line]:
    """All lines of a kind: each with its defaults, then with each option at each other value."""
    return [line for name in KINDS[kind] for line in variants(kind, name)]


def variants(kind: str, name: str) -> list[Line]:
    """List a method with its defaults, then with each option at each other value."""
    options = options_of(kind, name)
    required = {
        option: values(kind, name, parameter)[0]
        for option, parameter in options.items()
        if parameter.default is REQUIRED
    }
    build(kind, name, required, context(kind))  # raises if it does not fit the tiny encoder
    every = [required]
    for option, parameter in options.items():
        given = ({**required, option: one} for one in values(kind, name, parameter, required))
        every += [one for one in given if one not in every]
    return [Line(kind, name, one) for one in every]


def options_of(kind: str, name: str) -> dict[str, inspect.Parameter]:
    """The options of a method, which are the arguments that the program does not supply."""
    parameters = inspect.signature(resolve(kind, name)).parameters
    return {key: one for key, one in parameters.items() if key not in SUPPLIED[kind]}


def values(
    kind: str, name: str, parameter: inspect.Parameter, required: Mapping[str, Any] = {}
) -> list[Any]:
    """Values of an option that differ from its default: one per type, all other ones of a choice.

    Raises AssertionError, which says what to do, if one of its types gives none.
    """
    option, default = parameter.name, parameter.default
    hints = HINTS.get((kind, name, option), [])
    chosen = list(hints)
    for part in types_in(parameter.annotation):
        groups = candidates(part, default)
        if not groups and part is not types.NoneType and not any(fits(one, part) for one in hints):
            raise AssertionError(
                f"{kind} {name!r}: no value of {option!r} follows from its type {part}: "
                "add one to HINTS in tests/support/option_values.py"
            )
        for group in groups:
            taken = [v for v in group if accepts(kind, name, {**required, option: v})]
            assert taken, f"{kind} {name!r}: {option} takes none of {group}"
            chosen += [one for one in taken[:1] if one not in chosen]
    return chosen


def types_in(annotation: Any) -> list[Any]:
    """The types of a union, or the type alone."""
    union = get_origin(annotation) in (Union, types.UnionType)
    return list(get_args(annotation)) if union else [annotation]


def candidates(part: Any, default: Any) -> list[list[Any]]:
    """Groups of near values that are not the default; one of each group is enough."""
    inner = get_args(part)
    if get_origin(part) is Literal:
        return [[value] for value in inner if value != default]
    if part is types.NoneType:
        return [] if default is None else [[None]]
    if part is bool:
        return [[value for value in (True, False) if value is not default]]
    if part in (int, float) and isinstance(default, bool):
        return []
    number = default if isinstance(default, int | float) else None
    if part is int:
        near = [1, 2, 3] if number is None else [number + 1, number - 1, number * 2, number // 2]
        return [[value for value in near if value != number]]
    if part is float:
        near = [0.1, 0.5, 1.5] if not number else [number * 2, number / 2, number + 0.1]
        return [near]
    if get_origin(part) in (list, tuple) and inner[0] in (int, float):
        ranges = [range(first, first + size) for size in range(1, CLASSES + 1) for first in (1, 0)]
        near = [[inner[0](number) for number in numbers] for numbers in ranges]
        return [[value for value in near if value != default]]
    return []


def fits(value: Any, part: Any) -> bool:
    """Return True if a value has a type, roughly; a tuple is read from a list."""
    plain = get_origin(part) or part
    return plain in (Any, REQUIRED) or isinstance(value, list if plain is tuple else plain)


def accepts(kind: str, name: str, options: Mapping[str, Any]) -> bool:
    """Return True if the constructor takes these options."""
    try:
        build(kind, name, options, context(kind))
    except UserError:
        return False
    return True


@cache
def context(kind: str) -> dict[str, Any]:
    """Return what the program supplies to a constructor, for the tiny encoder."""
    from multitask.models.encoders.bert import BertEncoder

    encoder = BertEncoder(vocab_size=60, dim=DIM, num_layers=LAYERS, heads=4, positions=16)
    every = {
        "dim": DIM,
        "num_layers": LAYERS,
        "maps": encoder.linear_maps(),
        "pooler_weights": (torch.zeros(DIM, DIM), torch.zeros(DIM)),
        "encoder_dim": DIM,
        "num_labels": CLASSES,
        "class_counts": [5, 3, 2],
        "row_count": 10,
        "low": 0.0,
        "high": 5.0,
        "word_embedding": nn.Embedding(60, DIM),
        "norm_eps": 1e-12,
        "mlm_weights": None,
        "autocast": None,
        "encoder": encoder,
        "sizes": Sizes(rows=dict.fromkeys(TASKS, 8), steps=dict.fromkeys(TASKS, 2)),
        "joint": False,
    }
    return {key: every[key] for key in SUPPLIED[kind]}
