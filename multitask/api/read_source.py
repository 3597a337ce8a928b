"""Read the config that a Python program gives: a file, a dict or a ``Config``."""

from collections.abc import Sequence
from pathlib import Path

from multitask.api.row_files import Rows, row_files
from multitask.config import Config, load_config
from multitask.config.read_config import listed_overrides
from multitask.config.yaml_merge import Source, load_tree
from multitask.utils.errors import UserError


def read_source(
    source: Source | Config | None, overrides: Sequence[str] = (), rows: Rows | None = None
) -> Config:
    """Load a config. Its tasks read ``rows`` from files that are written next to the run.

    The files are in the directory ``rows``, next to the run directory.

    Args:
        source: a YAML file, a dict of its keys and values, or a config. None: a classification task
            for each of ``rows``.
        overrides: config values to change, such as ``["training.epochs=1"]``.
        rows: a table per task, or per task and split: ``{"sst": {"train": T, "dev": T}}``. A table
            is a ``datasets.Dataset``, a list of dicts, or anything that ``pyarrow.table`` takes.

    Raises:
        UserError: a mistake in the config or in the rows.
    """
    changes = listed_overrides(overrides)
    if source is None:
        if not rows:
            raise UserError("no config and no rows: give one of them")
        source = {"tasks": {task: {"head": "classification"} for task in rows}}
    if isinstance(source, Config):
        if not changes and not rows:
            return source
        source = source.resolved()
    if not rows:
        return load_config(source, changes)
    files = row_files(rows, load_tree(source, changes))

    def naming(directory: Path) -> Config:
        settings = [setting for file in files for setting in file.settings(directory)]
        return load_config(source, [*changes, *settings])

    directory = Path(naming(Path()).output_dir).absolute().parent / "rows"
    config = naming(directory)
    for file in files:
        file.write(directory)
    return config
