# Tested by tests/commands/test_ablate.py
"""Train the runs of a grid, and compare its cells."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from multitask.sweep.engines.base import Settings
from multitask.sweep.grid import Grid, load_grid
from multitask.sweep.pool import train_all
from multitask.sweep.run_sweep import sweep
from multitask.sweep.sweep_directory import finished_cells, plan_runs
from multitask.utils.errors import UserError
from multitask.utils.paths import expand_home


def ablate(
    grid: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    keep_weights: bool = False,
    engine: str = "local",
    **options: Any,
) -> dict[str, list[Path]]:
    """Train every cell of a grid with every seed, print their comparison and write it.

    Call it again to continue after an interruption.

    Args:
        grid: the grid file (docs/ablations.md).
        overrides: config values of every cell, such as ``["data_dir=DIR"]``.
        output: the directory of the runs and the comparison; default: ``runs/NAME-OF-THE-GRID``.
        keep_weights: keep each run's weights, checkpoints and encoder copy.
        engine: ``local``, ``ray`` or ``slurm``.
        options: fields of ``multitask.sweep.engines.base.Settings``, such as ``jobs=2``.

    Returns:
        The finished run directories of each cell.

    Raises:
        UserError: a mistake in the grid, or some runs failed (after the others are done).
    """
    file = expand_home(os.fspath(grid))
    place = Path("runs") / file.stem if output is None else expand_home(os.fspath(output))
    settings = Settings(place, **options)
    return train_grid(
        load_grid(file, list(overrides)), settings, engine=engine, keep_weights=keep_weights
    )


def train_grid(
    grid: Grid, settings: Settings, *, engine: str, keep_weights: bool
) -> dict[str, list[Path]]:
    """Train a grid in ``settings.directory``; see ``ablate``."""
    output = settings.directory
    if grid.probe:
        _check_probe_options(settings, engine, keep_weights)
        from multitask.sweep.probe_grid import probe_all

        train = partial(probe_all, grid, output)
    else:
        train = partial(train_all, engine=engine, settings=settings, keep_weights=keep_weights)
    sweep(grid, output, train)
    return finished_cells(grid, plan_runs(grid, output))


def _check_probe_options(settings: Settings, engine: str, keep_weights: bool) -> None:
    """Raise UserError for an option that a probe grid does not have."""
    refused = {
        "--jobs": settings.slots > 1,
        "--engine": engine != "local",
        "--cpus-per-run": settings.cpus is not None,
        "--gpus-per-run": settings.gpus is not None,
        "--keep-weights": keep_weights,
    }
    for option, given in refused.items():
        if given:
            message = "a probe grid is one process and keeps no weights: leave it out"
            raise UserError(f"{option}: {message}")
