# Tested by tests/commands/test_tune.py
"""Search hyperparameters."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from multitask.sweep.engines.base import Settings
from multitask.sweep.search_space import SearchSpace, load_search
from multitask.sweep.tune import tune as run_search
from multitask.sweep.tuning_results import BEST
from multitask.utils.errors import UserError
from multitask.utils.paths import expand_home
from multitask.utils.terminal import silent


def tune(
    search: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    keep_weights: bool = False,
    engine: str = "local",
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
        options: fields of ``multitask.sweep.engines.base.Settings``, such as ``jobs=2``.

    Returns:
        The config of the best trial, or those of the Pareto front.

    Raises:
        UserError: a mistake in the search file, or some trials failed.
    """
    file = expand_home(os.fspath(search))
    place = Path("runs") / f"tune-{file.stem}" if output is None else expand_home(os.fspath(output))
    space, settings = load_search(file, list(overrides)), Settings(place, **options)
    return tune_space(space, settings, engine=engine, keep_weights=keep_weights)


def tune_space(
    space: SearchSpace,
    settings: Settings,
    *,
    engine: str,
    keep_weights: bool,
    say: Callable[[str], None] = silent,
) -> list[Path]:
    """Search in ``settings.directory``; see ``tune``. ``say`` prints a line."""
    if settings.detach:
        raise UserError("--detach: the next trial depends on the last ones: leave it out")
    files = run_search(space, settings, engine=engine, keep=keep_weights, say=say)
    return [file for file in files if BEST.fullmatch(file.name)]
