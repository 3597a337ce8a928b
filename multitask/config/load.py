"""From a YAML file, or a run directory, to its config."""

import os
from pathlib import Path

from pydantic import (
    ValidationError,
)

from multitask.config.checks import check_names, check_references
from multitask.config.config import Config
from multitask.config.explain import explain
from multitask.config.sharing import inherit
from multitask.config_file import KeyPath, load_tree
from multitask.errors import UserError
from multitask.names import EMBEDDED


def load_config(path: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """Read, merge and validate a YAML file.

    Raises UserError: one line with file, line, key path and what was expected.
    """
    tree = load_tree(path, overrides)
    inherit(tree)
    try:
        config = Config.model_validate(tree.value)
    except ValidationError as error:
        raise explain(error, tree, Config) from error
    config._tree = tree
    check_names(config)
    check_references(config)
    if config.data_dir != EMBEDDED:
        config.data_dir = _absolute(config, ("data_dir",), config.data_dir)
    if config.init_from is not None:
        config.init_from.run = _absolute(config, ("init_from", "run"), config.init_from.run)
        for option in ("reinit_layers", "from_scratch"):
            if getattr(config.encoder, option):
                message = "`init_from` brings the weights of all layers: leave one of the two out"
                raise config.error(("encoder", option), message)
    if not config.output_dir:
        config.output_dir = str(Path("runs") / Path(path).stem)
    return config


def _absolute(config: Config, path: KeyPath, name: str) -> str:
    try:
        return str(Path(name).expanduser().absolute())
    except RuntimeError:  # ~USER
        raise config.error(path, f"no home directory for {name!r}: write the whole path") from None


def load_saved_config(
    run_dir: str | os.PathLike[str], overrides: list[str] | None = None
) -> Config:
    """The resolved config of a run, with weights or without. Raises UserError: no run there."""
    return load_config(_saved_config(Path(run_dir)), overrides)


def load_run_config(run_dir: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """The resolved config of a run that has weights.

    Raises UserError: no run there, or one without evaluated weights yet.
    """
    directory = Path(run_dir)
    file = _saved_config(directory)
    if not (directory / "best.json").is_file():
        report = directory / "report.json"
        if report.is_file() and '"probe": true' in report.read_text(encoding="utf-8"):
            message = f"heads of a probe grid keep no weights: train {file} with output_dir=DIR"
            raise UserError(f"{directory}: {message}")
        raise UserError(f"{directory}: the run has no evaluated weights yet: go on with --resume")
    if not (directory / "encoder").is_dir():
        raise UserError(
            f"{directory}: the run's weights were removed, as `ablate` does without "
            f"--keep-weights: train {file} again, with output_dir=DIR"
        )
    return load_config(file, overrides)


def _saved_config(directory: Path) -> Path:
    file = directory / "config.yaml"
    if not file.is_file():
        raise UserError(f"{directory}: no run there (config.yaml is missing)")
    return file
