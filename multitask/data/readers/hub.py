"""Load splits with the `datasets` library: from a saved directory, or from the hub."""

from pathlib import Path
from typing import Any

from multitask.config import Config

# files of a local data set that our readers read, not `datasets` (which uses pandas)
OURS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl"}


def place(config: Config, task: str) -> str:
    """Return the directory of a task's data set, or its id on the hub."""
    data = config.tasks[task].data
    assert data.path is not None  # the config's validator asks for it
    local = config.data_path(data.path)
    return str(local) if local.exists() else data.path


def load_split(config: Config, task: str, split: str) -> Any:
    """Load a split as a `datasets.Dataset`. Raises UserError if this fails."""
    import datasets

    data, where = config.tasks[task].data, place(config, task)
    try:
        if data.format == "hub":
            return _from_hub(where, data.subset, split)
        saved = datasets.load_from_disk(where)
        if not isinstance(saved, datasets.DatasetDict):
            raise ValueError("it has no splits; save a DatasetDict")
        if split not in saved:
            raise ValueError(f"its splits are {', '.join(map(str, saved))}")
        return saved[split]
    except Exception as error:  # the library raises many kinds, all of them about this input
        reason = " ".join(str(error).split())[:300]
        message = f"cannot load the data set {where!r}, split {split!r}: {reason}"
        raise config.error(("tasks", task, "data", "path"), message) from error


def _from_hub(where: str, subset: str | None, split: str) -> Any:
    import datasets

    try:  # for CSV: pandas would read NA, None, null and nan as missing
        return datasets.load_dataset(
            where, subset, split=split, keep_default_na=False, na_values=[""]
        )
    except ValueError:  # not a CSV file
        return datasets.load_dataset(where, subset, split=split)


def files_of_split(config: Config, task: str, split: str) -> list[tuple[Path, str]]:
    """List (file, format) of a split in a local directory; empty if `datasets` must read it."""
    import datasets

    data, where = config.tasks[task].data, place(config, task)
    if data.format != "hub" or not Path(where).is_dir():
        return []
    try:
        builder = datasets.load_dataset_builder(where, data.subset)
    except Exception:  # `load_split` says what is wrong
        return []
    files = [Path(file) for file in (builder.config.data_files or {}).get(split, ())]
    if builder.info.features is not None or any(file.suffix not in OURS for file in files):
        return []
    return [(file, OURS[file.suffix]) for file in files]


def class_names(features: Any, column: str) -> list[str]:
    """Return the class names of a column of classes, or of lists of classes; else none."""
    import datasets

    feature = features.get(column)
    while isinstance(feature, datasets.List | datasets.LargeList):
        feature = feature.feature
    return list(feature.names) if isinstance(feature, datasets.ClassLabel) else []
