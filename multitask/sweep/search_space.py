"""Read the file of ``tune``: the base config and the values that a search may choose.

base: ../cs224n_minilm.yaml
set: {training.epochs: 3}                                 # overrides of every trial
trials: 20                                                # default
seed: 1                                                   # default; of suggestions and every run
search:
  training.lr: {low: 1.0e-5, high: 1.0e-4, log: true}     # a range, ends included
  tasks.sst.pooling: [cls, mean]                          # a list
  tasks.qqp.head:                                         # values with labels
    plain: siamese_paraphrase
    uv: {name: siamese_paraphrase, features: [u, v, abs_diff]}
sampler: tpe                                              # or random
pruner: median                                            # or halving, none
objectives: []                                            # tasks: a Pareto front, without a pruner
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FiniteFloat, ValidationError

from multitask.config import Config, Strict, load_config, parsed
from multitask.config.describe_config import as_written
from multitask.config.yaml_merge import Override, Tree, load_extended
from multitask.store.prepare_run import flat
from multitask.sweep.grid import add_to_set, base_of, override_at, safe_label
from multitask.utils.errors import suggest
from multitask.utils.limits import CELLS


class SearchFile(Strict):
    """The keys of a search file, as at the top of this module."""

    base: str
    set: dict[str, Any] = {}
    search: dict[str, Any] = Field(min_length=1)
    trials: int = Field(20, ge=1, le=CELLS)
    seed: int = Field(1, ge=0, lt=2**32)
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "halving", "none"] = "median"
    objectives: list[str] = []


class Range(Strict):
    """A range of numbers, both ends included; whole numbers if both ends are whole numbers."""

    low: int | FiniteFloat
    high: int | FiniteFloat
    log: bool = False

    @property
    def whole(self) -> bool:
        """True if the numbers are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def examples(self) -> tuple[int | float, ...]:
        """The ends, and a number between them."""
        between = self.low + (self.high - self.low) / 3
        return (self.low, self.high, int(between) if self.whole else between)

    def those_of(self, values: Sequence[Any]) -> list[int | float]:
        """Return those values that are in the range, as its kind of numbers."""
        numbers = [value for value in values if type(value) in (int, float)]
        number = int if self.whole else float
        return [number(value) for value in numbers if self.low <= value <= self.high]


@dataclass(frozen=True)
class SearchSpace:
    """A search file that was read and checked.

    Attributes:
        file: its keys.
        base: the base config.
        parameters: per config key a range, or the values by label.
        first: what trial 0 has, the base's number or label per key.
    """

    file: SearchFile
    base: Path
    parameters: dict[str, Range | dict[str, Any]]
    _tree: Tree = field(repr=False)
    first: dict[str, Any] = field(default_factory=dict)

    @property
    def resolved(self) -> dict[str, object]:
        """The content of a search file that gives the same search."""
        return {**self.file.model_dump(), "base": str(self.base)}

    def settings(self, chosen: Mapping[str, Any]) -> tuple[Override, ...]:
        """Return the overrides of a trial: ``set``, then the chosen numbers and labels by key."""
        tree, common = self._tree, self.file.set
        overrides = [override_at(tree, ("set", key), key, common[key]) for key in common]
        for key, choice in chosen.items():
            parameter = self.parameters[key]
            value = parameter[choice] if isinstance(parameter, dict) else choice
            overrides.append(override_at(tree, ("search", key), key, value))
        return tuple(overrides)

    def config(self, chosen: Mapping[str, Any]) -> Config:
        """Return a trial's validated config. {} gives the base's values.

        Raises UserError for a combination that is not possible.
        """
        return load_config(self.base, self.settings(chosen))


def load_search(
    path: str | os.PathLike[str], overrides: Sequence[str] | None = None
) -> SearchSpace:
    """Read a search file; validate the config of the base, of each value and each end of a range.

    ``overrides`` are ``key=value`` for every trial, on top of ``set``.

    Raises UserError: one line with file, line, key path and what was expected.
    """
    tree = load_extended(Path(path))
    file = parsed(tree, SearchFile)
    if file.objectives and "pruner" not in tree.value:
        file = file.model_copy(update={"pruner": "none"})
    add_to_set(file.set, tree, overrides)
    base = base_of(file.base, tree)
    space = SearchSpace(file, base, {key: _parameter(file, tree, key) for key in file.search}, tree)
    config = space.config({})
    _check_scores(file, tree, config)
    for key, parameter in space.parameters.items():
        for value in parameter if isinstance(parameter, dict) else parameter.examples:
            space.config({key: value})
        space.first[key] = _base_choice(space, tree, key)
    return space


def _check_scores(file: SearchFile, tree: Tree, config: Config) -> None:
    """Raise UserError unless trials have the scores that the search needs."""
    if "training.holdout" in file.search:
        message = "the holdout scores the trials: it must be the same for all"
        raise tree.error(("search", "training.holdout"), message)
    if not config.training.holdout:
        message = (
            "no training.holdout, so the trials would be selected on dev: set it under `set`, "
            "such as `training.holdout: 0.1`"
        )
        raise tree.error(("base",), message)
    trained = [name for name, task in config.tasks.items() if not task.only_scored]
    for place, name in enumerate(file.objectives):
        if name not in trained or name in file.objectives[:place]:
            message = (
                f"expected each trained task once at most, not {name!r}{suggest(name, trained)}"
            )
            raise tree.error(("objectives", place), message)
    if file.objectives and file.pruner != "none":
        raise tree.error(("pruner",), "several objectives have no pruner: write none")


def _base_choice(space: SearchSpace, tree: Tree, key: str) -> Any:
    """Return the base's value of a parameter, or its label: trial 0 has it."""
    parameter, base = space.parameters[key], space.config({}).resolved()
    values: dict[str, Any] = flat(base)
    shared = key.removeprefix("defaults.")
    keys = [key] if shared == key else [k for k in values if k.split(".", 2)[2:] == [shared]]
    there = [values[each] for each in keys if each in values]
    choices: list[Any] = [*parameter] if isinstance(parameter, dict) else parameter.those_of(there)
    for choice in choices:
        if space.config({key: choice}).resolved() == base:
            return choice
    shown = f", {as_written(there[0])}," if there and not isinstance(there[0], dict) else ""
    message = f"trial 0 has the base's value{shown} and it is not one of these: add it, or name as "
    raise tree.error(("search", key), f"{message}`base` a config that sets {key} to one of them")


def _parameter(file: SearchFile, tree: Tree, key: str) -> Range | dict[str, Any]:
    values, path = file.search[key], ("search", key)
    if key in file.set:
        raise tree.error(path, "the key is in `set` too; keep one")
    if isinstance(values, dict) and {"low", "high"} & set(values):
        span = None
        with suppress(ValidationError):
            span = Range.model_validate(values)
        if span is None or not span.low < span.high or (span.log and span.low <= 0):
            message = "expected low and high, the lower first, and with log: true both above 0"
            raise tree.error(path, message)
        return span
    if not isinstance(values, list | dict) or not values:
        raise tree.error(
            path, "expected {low: , high: }, a list of values, or LABEL: VALUE for each"
        )
    if isinstance(values, dict):
        return {safe_label(tree, (*path, label)): value for label, value in values.items()}
    labelled = {as_written(value): value for value in values}
    if len(labelled) < len(values):
        raise tree.error(path, "a value is listed twice; keep one")
    return labelled
