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
from multitask.config.yaml_tree import KeyPath, load_tree
from multitask.utils.names import EMBEDDED


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
