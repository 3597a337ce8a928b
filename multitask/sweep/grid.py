"""Read the grid file of ``ablate``: cells, their overrides and names.

base: ../cs224n_minilm.yaml     # a config, relative to the file that names it
set: {training.epochs: 3}       # overrides of every cell
seeds: [1, 2, 3]
grid:                           # every combination, in order
  tasks.sst.pooling: [cls, mean, max]
  tasks.qqp.head:               # values with labels; the labels name the cells
    plain: siamese_paraphrase
    uv: {name: siamese_paraphrase, features: [u, v, abs_diff]}
cells:                          # named cells, each combined with every point of the grid
  siamese: {}
  longer: {training.epochs: 6}
baseline: siamese-cls-plain     # default: the first cell
tasks: [sst, [qqp, sts]]        # train each cell once per entry, without the base's other tasks
margin: 0.01                    # intervals within ± 0.01 are called equal; default: none are
probe: false                    # true: only train heads, on the frozen encoder (probe_grid.py)
"""

import contextlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from multitask.config import Config, Strict, load_config, parsed
from multitask.config.yaml_merge import Override, Tree, load_extended, read_override
from multitask.config.yaml_reader import KeyPath, Node, dump_override
from multitask.reporting.sheet import Axis
from multitask.store.prepare_run import flat
from multitask.utils.errors import UserError, no_file, suggest
from multitask.utils.limits import CELL_NAME, CELLS, SEEDS
from multitask.utils.paths import expand_home, file_key

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
# the keys of two special axes: named cells and tasks
NAMED = "cells"
TASKS = "tasks"
# keys that a grid or a search sets for every run
KEYS_OF_A_RUN = {
    "seed": "the seed of a run is in `seeds` of a grid, `seed` of a search, at the top of the file",
    "output_dir": "every run has its own `output_dir`: give --output DIR",
}
# keys of a task in which cells of a probe grid may differ, as they do not change the encoder
PROBED = ("pooling", "projection", "head", "head_lr", "dropout")
# keys of a task that no task of a probe grid may have, and why
OTHER_POOLING = "a probe is scored with the pooling that it trains on: leave this out"
UNPROBED = {
    "share_head": "a probe trains each head alone: leave tasks that share one out",
    "evaluate_only": "a probe trains the head: leave tasks that are only evaluated out",
    "eval_pooling": OTHER_POOLING,
    "share_pooling": OTHER_POOLING,
    "adapter": "acts inside the encoder, so vectors of the frozen one have nothing of it",
}


class GridFile(Strict):
    """The keys of a grid file, as at the top of this module.

    With ``tasks``, cells are named `TASK-CELL`, and compared task by task.
    """

    base: str
    set: dict[str, Any] = {}
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(min_length=1, max_length=SEEDS)
    grid: dict[str, object] = {}
    cells: dict[str, dict[str, object]] = {}
    tasks: list[str | list[str]] = []
    baseline: str | None = None
    margin: float | None = Field(None, gt=0)
    probe: bool = False


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    Attributes:
        name: the name, which is safe for a directory.
        settings: the overrides, in order.
        point: the label on each axis, by the axis' key.
    """

    name: str
    settings: tuple[Override, ...]
    point: dict[str, str]

    @property
    def task(self) -> str:
        """The label of the task if tasks are trained apart, else ''."""
        return self.point.get(TASKS, "")

    @property
    def row(self) -> str:
        """The name in comparisons: the cell's name without the task."""
        return self.name.removeprefix(f"{self.task}-") if self.task else self.name


@dataclass
class Grid:
    """A grid.

    Attributes:
        base: the base config.
        axes: the axes, in order; the key of named cells is ``cells``, that of ``tasks`` ``tasks``.
        cells: the cells, in order.
        seeds: the seeds of each cell.
        baseline: the row (see ``Cell``) that the others are compared with.
        margin: differences whose interval is within ± it are called equal; None: none are.
        probe: True for a probe grid.
        resolved: the content of a grid file that gives the same grid.
        _tree: the grid file with line numbers, for errors.
    """

    base: Path
    axes: list[Axis]
    cells: list[Cell]
    seeds: list[int]
    baseline: str
    margin: float | None
    probe: bool
    resolved: dict[str, object]
    _tree: Tree = field(repr=False)

    def config(self, cell: Cell, seed: int, output_dir: Path) -> Config:
        """Return the validated config of a run. Raises UserError with the grid file's line."""
        with self.placed(cell):
            config = load_config(self.base, cell.settings)
        return config.model_copy(update={"seed": seed, "output_dir": str(output_dir)})

    @contextlib.contextmanager
    def placed(self, cell: Cell) -> Iterator[None]:
        """Name the cell in an error whose place is not in the grid file."""
        try:
            yield
        except UserError as error:
            if error.place in {setting.place for setting in cell.settings}:
                raise
            place = self._tree.where(("base",))
            raise UserError(f"{place}: cell {cell.name}: {error}") from error


def load_grid(path: str | os.PathLike[str], overrides: list[str] | None = None) -> Grid:
    """Read a grid file, make its cells and validate each cell's config.

    Args:
        path: the grid file; ``extends`` works as in a config.
        overrides: ``key=value`` for every cell, on top of ``set``.

    Raises:
        UserError: one line with file, line, key path and what was expected.
    """
    tree = load_extended(Path(path))
    file = parsed(tree, GridFile)
    add_to_set(file.set, tree, overrides)
    if len(set(file.seeds)) < len(file.seeds):
        raise tree.error(("seeds",), "a seed is listed twice; keep one")
    base = base_of(file.base, tree)
    axes, cells = _expand(file, tree, _apart(file, tree, base))
    names = list(dict.fromkeys(cell.row for cell in cells))
    baseline = names[0] if file.baseline is None else file.baseline
    if baseline not in names:
        raise tree.error(("baseline",), f"no cell is named {baseline!r}{suggest(baseline, names)}")
    grid = Grid(
        base=base,
        axes=axes,
        cells=cells,
        seeds=file.seeds,
        baseline=baseline,
        margin=file.margin,
        probe=file.probe,
        resolved={**file.model_dump(), "base": str(base), "baseline": baseline},
        _tree=tree,
    )
    configs = [grid.config(cell, file.seeds[0], Path()) for cell in cells]
    if file.probe:
        if file.tasks:
            raise tree.error(("tasks",), "a probe grid trains each task's head alone: leave it out")
        _check_probe(grid, configs, tree)
    return grid


def _check_probe(grid: Grid, configs: list[Config], tree: Tree) -> None:
    """Raise UserError unless all cells have the same encoder and data, and independent tasks."""
    first, *others = configs
    with grid.placed(grid.cells[0]):
        if first.init_from is not None and first.init_from.take != "encoder":
            message = "a probe trains a new pooling and head: set `take: encoder`"
            raise first.error(("init_from", "take"), message)
        for name, task in first.tasks.items():
            for key, message in UNPROBED.items():
                if getattr(task, key):
                    raise first.error(("tasks", name, key), message)
    values = flat(first.resolved())
    for cell, config in zip(grid.cells[1:], others, strict=True):
        probed = {f"tasks.{task}.{key}" for task in config.tasks for key in PROBED}
        for key, value in {**dict.fromkeys(values), **flat(config.resolved())}.items():
            if value != values.get(key) and ".".join(key.split(".")[:3]) not in probed:
                raise tree.error(
                    ("probe",),
                    f"cell {cell.name} has another {key}: cells of a probe grid may differ in "
                    f"{', '.join(PROBED)} of tasks only; put what is the same for all cells under "
                    "`set`",
                )


def add_to_set(values: dict[str, Any], tree: Tree, overrides: Sequence[str] | None) -> None:
    """Add ``key=value`` of the command line to the values of ``set``."""
    for override in overrides or []:
        key, inner = read_override(override)
        values.pop(key, None)  # the last override counts, in value and in order
        values[key] = inner.value
        tree.root.value.setdefault("set", Node({}, "")).value[key] = Node(None, "command line")


def base_of(name: str, tree: Tree) -> Path:
    """Return the base config, relative to the file that names it (which may be extended)."""
    written_in = Path(tree.where(("base",)).rpartition(":")[0])
    base = (written_in.parent / expand_home(name)).absolute()
    if not base.is_file():
        raise tree.error(("base",), no_file(base))
    return base


def _apart(file: GridFile, tree: Tree, base: Path) -> list[tuple[str, list[Override]]]:
    """Return, per entry of ``tasks``, its label and the overrides that remove the other tasks."""
    if not file.tasks:
        return [("", [])]
    tasks = list(load_config(base).tasks)
    entries = []
    for place, entry in enumerate(file.tasks):
        names = [entry] if isinstance(entry, str) else entry
        path: KeyPath = ("tasks", place)
        for name in names or [""]:
            if name not in tasks:
                raise tree.error(path, f"{base.name} has no task {name!r}{suggest(name, tasks)}")
        others = [f"{TASKS}.{name}" for name in tasks if name not in names]
        entries.append((names[0], [override_at(tree, path, key, None) for key in others]))
    return entries


def _expand(
    file: GridFile, tree: Tree, apart: list[tuple[str, list[Override]]]
) -> tuple[list[Axis], list[Cell]]:
    """Return the axes and the cells: tasks x named cells x points of the grid, in order."""
    if not file.grid and not file.cells:
        raise tree.error((), "no cells: give `grid` (values by key) or `cells` (overrides by name)")
    everywhere = tuple(override_at(tree, ("set", key), key, file.set[key]) for key in file.set)
    named = [
        (
            safe_label(tree, ("cells", name)),
            [override_at(tree, ("cells", name, key), key, values[key]) for key in values],
        )
        for name, values in file.cells.items()
    ] or [("", [])]
    choices = {key: _choices(file, tree, key) for key in file.grid}
    count = len(apart) * len(named) * math.prod(map(len, choices.values()))
    if count > CELLS:
        raise tree.error(("grid",), f"{count:,} cells, at most {CELLS:,} are possible")
    cells: dict[str, Cell] = {}
    points = itertools.product(apart, named, itertools.product(*choices.values()))
    for (task, dropped), (name, overrides), chosen in points:
        labels = [label for label, *_ in chosen]
        label = "-".join(part for part in (task, name, *labels) if part)
        place: KeyPath = ("cells", name) if name else ("grid",)
        if len(label) > CELL_NAME or file_key(label) in cells:  # some disks fold cases
            message = f"a name of at most {CELL_NAME} characters that no other cell has"
            raise tree.error(
                place, f"cell {label}: give values labels (LABEL: VALUE), for {message}"
            )
        # tasks are removed last, so that no setting adds one again
        settings = (*everywhere, *overrides, *(setting for *_, setting in chosen), *dropped)
        point = ({TASKS: task} if task else {}) | ({NAMED: name} if name else {})
        point |= dict(zip(choices, labels, strict=True))
        cells[file_key(label)] = Cell(label, settings, point)
    labelled: dict[str, Mapping[str, object]] = {
        TASKS: dict(zip((label for label, _ in apart), file.tasks, strict=False)),
        NAMED: file.cells,
        **{key: {label: value for label, value, _ in of} for key, of in choices.items()},
    }
    axes: list[Axis] = [
        {"key": key, "labels": [*values], "values": [*values.values()]}
        for key, values in labelled.items()
        if values
    ]
    return axes, list(cells.values())


def override_at(tree: Tree, path: KeyPath, key: str, value: Any) -> Override:
    """Return the override ``key=value`` that is written at ``path``."""
    parts = key.split(".")
    if not all(parts) or "=" in key or key != key.strip():
        raise tree.error(path, "expected a config key such as tasks.sst.pooling")
    if key == "extends":
        raise tree.error(path, "a run cannot extend a file: name it as `base`")
    if parts[0] in KEYS_OF_A_RUN:
        raise tree.error(path, KEYS_OF_A_RUN[parts[0]])
    return Override(dump_override(key, value), tree.where(path))


def safe_label(tree: Tree, path: KeyPath) -> str:
    name = str(path[-1])
    if not SAFE_NAME.fullmatch(name):
        message = f"{name!r} names a directory: use letters, digits and . _ + -"
        raise tree.error(path, message)
    return name


def _choices(file: GridFile, tree: Tree, key: str) -> list[tuple[str, Any, Override]]:
    """Return the values of a key of the grid: label in the cells' names, value and override."""
    values = file.grid[key]
    path: KeyPath = ("grid", key)
    if not isinstance(values, list | dict) or not values:
        raise tree.error(path, "expected a list of values, or LABEL: VALUE for each")
    if any(key in overrides for overrides in (file.set, *file.cells.values())):
        raise tree.error(path, "the key is in `set` or `cells` too; keep one")
    if key in (NAMED, TASKS):
        raise tree.error(path, f"`{key}` is not an axis: name the cells under `cells`")
    named, short_key = isinstance(values, dict), _short_key(key, list(file.grid))
    choices = []
    for place, value in dict(values if named else enumerate(values)).items():
        here: KeyPath = (*path, place)
        label = safe_label(tree, here) if named else _label(tree, here, value, short_key)
        choices.append((label, value, override_at(tree, here, key, value)))
    return choices


def _label(tree: Tree, path: KeyPath, value: Any, short_key: str) -> str:
    """Label a value: ``mean`` for a text; ``epochs_3`` for a number, true, false or null."""
    if isinstance(value, list | dict):
        raise tree.error(path, "a list or a mapping needs a label: write LABEL: VALUE for each")
    if not isinstance(value, str):
        return f"{short_key}_{json.dumps(value)}"
    label = re.sub(r"[^A-Za-z0-9_.+-]+", "-", value).strip("-.")
    if not SAFE_NAME.fullmatch(label):
        raise tree.error(path, "the value needs a label: write LABEL: VALUE for each")
    return label


def _short_key(key: str, keys: list[str]) -> str:
    """Return the shortest end of a key that is unique in the grid: ``lr``, ``sst.max_rows``."""
    parts = key.split(".")
    ends = (".".join(parts[-length:]) for length in range(1, len(parts)))
    return next((e for e in ends if sum(f".{k}".endswith(f".{e}") for k in keys) == 1), key)
