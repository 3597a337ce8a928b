# Tested by tests/commands/test_ablate.py
"""Train the runs of a grid and compare its cells; search hyperparameters."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from multitask.sweep.engines.base import Settings
from multitask.utils.errors import UserError
from multitask.utils.paths import expand_home
from multitask.utils.terminal import silent

PathLike = str | os.PathLike[str]


def ablate(
    grid: PathLike,
    overrides: Sequence[str] = (),
    *,
    output: PathLike | None = None,
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
    from multitask.sweep.grid import load_grid
    from multitask.sweep.pool import train_all
    from multitask.sweep.run_sweep import sweep
    from multitask.sweep.sweep_directory import finished_cells, plan_runs

    file = expand_home(os.fspath(grid))
    loaded = load_grid(file, list(overrides))
    settings = sweep_settings(output or Path("runs") / file.stem, engine, options)
    train: Callable[..., Any] = partial(
        train_all, engine=engine, settings=settings, keep_weights=keep_weights
    )
    if loaded.probe:
        from multitask.sweep.probe_grid import probe_all

        if keep_weights or engine != "local" or settings != Settings(settings.directory):
            message = "a probe grid is one process and keeps no weights: leave out --keep-weights"
            raise UserError(f"{file}: {message}, --engine and the options of engines")
        train = partial(probe_all, loaded, settings.directory)
    sweep(loaded, settings.directory, train)
    return finished_cells(loaded, plan_runs(loaded, settings.directory))


def tune(
    search: PathLike,
    overrides: Sequence[str] = (),
    *,
    output: PathLike | None = None,
    keep_weights: bool = False,
    engine: str = "local",
    say: Callable[[str], None] = silent,
    **options: Any,
) -> list[Path]:
    """Train the trials of a search, and write its table and the configs of the best ones.

    Call it again to continue after an interruption.

    Args:
        search: the search file (docs/tuning.md).
        overrides: config values of every trial, such as ``["data_dir=DIR"]``.
        output: the directory of the trials and the results; default:
            ``runs/tune-NAME-OF-THE-FILE``.
        keep_weights: keep the weights, checkpoints and encoder copy of finished trials.
        engine: ``local``, ``ray`` or ``slurm``.
        say: prints a line about the search.
        options: fields of ``multitask.sweep.engines.base.Settings``, such as ``jobs=2``.

    Returns:
        The config of the best trial, or those of the Pareto front.

    Raises:
        UserError: a mistake in the search file, or some trials failed.
    """
    from multitask.sweep.search_space import load_search
    from multitask.sweep.tune import tune as run_search
    from multitask.sweep.tuning_results import BEST

    file = expand_home(os.fspath(search))
    space = load_search(file, list(overrides))
    settings = sweep_settings(output or Path("runs") / f"tune-{file.stem}", engine, options)
    if settings.detach:
        raise UserError("--detach: the next trial depends on the last ones: leave it out")
    files = run_search(space, settings, engine=engine, keep=keep_weights, say=say)
    return [file for file in files if BEST.fullmatch(file.name)]


def sweep_settings(output: PathLike, engine: str, options: Mapping[str, Any]) -> Settings:
    """Return the settings of an engine. Raises UserError for an option of another one."""
    given = {option: value for option, value in options.items() if value is not None}
    others = {"address": "ray", "slurm": "slurm", "slurm_setup": "slurm", "detach": "slurm"}
    for option, needed in others.items():
        if given.get(option) and engine != needed:
            flag = option.replace("_", "-")
            raise UserError(f"--{flag}: only for --engine {needed}: leave it out")
    return Settings(expand_home(os.fspath(output)), **given)
