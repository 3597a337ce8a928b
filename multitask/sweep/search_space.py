"""Read the file of ``tune``: the base config and the values that a search may choose.

base: ../cs224n_minilm.yaml
set: {training.epochs: 3}                                 # overrides of every trial
trials: 20
seed: 1
search:
  training.lr: {low: 1.0e-5, high: 1.0e-4, log: true}     # a range, ends included
  tasks.sst.pooling: [cls, mean]                          # a list
  tasks.qqp.head:                                         # values with labels
    plain: siamese_paraphrase
    uv: {name: siamese_paraphrase, features: [u, v, abs_diff]}
sampler: tpe                                              # or random
pruner: median                                            # or halving, none
objectives: [sst, sts]                                    # a Pareto front; without a pruner
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from multitask.config import Config, Strict, explain, load_config
from multitask.config.yaml_merge import Override, Tree, load_extended
from multitask.sweep.grid import override_at, safe_label
from multitask.utils.errors import no_file, suggest
from multitask.utils.limits import CELLS
from multitask.utils.paths import expand_home


class SearchFile(Strict):
    """The keys of a search file, as at the top of this module."""

    base: str
    set: dict[str, Any] = {}
    search: dict[str, Any] = Field(min_length=1)
    trials: int = Field(ge=1, le=CELLS)
    seed: int = Field(ge=0, lt=2**32)
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "halving", "none"] = "median"
    objectives: list[str] = []


class Range(Strict):
    """A range of numbers, both ends included; whole numbers if both ends are whole numbers."""

    low: int | float
    high: int | float
    log: bool = False


@dataclass(frozen=True)
class SearchSpace:
    """A search file that was read and checked.

    Attributes:
        file: its keys.
        base: the base config.
        parameters: per config key a range, or the values by label.
    """

    file: SearchFile
    base: Path
    parameters: dict[str, Range | dict[str, Any]]
    _tree: Tree = field(repr=False)

    def settings(self, chosen: Mapping[str, Any]) -> tuple[Override, ...]:
        """Return the overrides of a trial: ``set``, then the chosen numbers and labels by key."""
        common = [override_at(self._tree, ("set", key), key, v) for key, v in self.file.set.items()]
        for key, choice in chosen.items():
            parameter = self.parameters[key]
            value = parameter[choice] if isinstance(parameter, dict) else choice
            common.append(override_at(self._tree, ("search", key), key, value))
        return tuple(common)

    def config(self, chosen: Mapping[str, Any]) -> Config:
        """Return a trial's validated config; {} gives trial 0, the base's values."""
        return load_config(self.base, self.settings(chosen))


def load_search(path: str | os.PathLike[str]) -> SearchSpace:
    """Read a search file; validate the config of the base, of each value and each end of a range.

    Raises UserError: one line with file, line, key path and what was expected.
    """
    tree = load_extended(Path(path))
    try:
        file = SearchFile.model_validate(tree.value)
    except ValidationError as error:
        raise explain(error, tree, SearchFile) from error
    written_in = Path(tree.where(("base",)).rpartition(":")[0])
    base = (written_in.parent / expand_home(file.base)).absolute()
    if not base.is_file():
        raise tree.error(("base",), no_file(base))
    space = SearchSpace(file, base, {key: _parameter(file, tree, key) for key in file.search}, tree)
    config = space.config({})
    for place, name in enumerate(file.objectives):
        if name not in config.tasks:
            message = f"no task is named {name!r}{suggest(name, list(config.tasks))}"
            raise tree.error(("objectives", place), message)
    if file.objectives and "pruner" in tree.value and file.pruner != "none":
        raise tree.error(("pruner",), "several objectives have no pruner: write none")
    for key, parameter in space.parameters.items():
        ends = parameter if isinstance(parameter, dict) else (parameter.low, parameter.high)
        for value in ends:
            space.config({key: value})
    return space


def _parameter(file: SearchFile, tree: Tree, key: str) -> Range | dict[str, Any]:
    values, path = file.search[key], ("search", key)
    if key in file.set:
        raise tree.error(path, "the key is in `set` too; keep one")
    if isinstance(values, dict) and {"low", "high"} & set(values):
        return _range(tree, key, values)
    if not isinstance(values, list | dict) or not values:
        raise tree.error(
            path, "expected {low: , high: }, a list of values, or LABEL: VALUE for each"
        )
    if isinstance(values, dict):
        return {safe_label(tree, (*path, label)): value for label, value in values.items()}
    return {v if isinstance(v, str) else json.dumps(v): v for v in values}


def _range(tree: Tree, key: str, values: dict[str, Any]) -> Range:
    path = ("search", key)
    try:
        span = Range.model_validate(values)
    except ValidationError as error:
        raise tree.error(path, "a range has low, high and, if you like, log: true") from error
    if not (math.isfinite(span.low) and math.isfinite(span.high) and span.low < span.high):
        raise tree.error(path, f"low must be less than high, not {span.low} and {span.high}")
    if span.log and span.low <= 0:
        raise tree.error((*path, "low"), "a range with log: true starts above 0")
    return span
