"""Load splits with the `datasets` library: from a saved directory, or from the hub.

The library resolves, downloads and unpacks the files of a data set. Its CSV, TSV and JSON-lines
files are then read by our readers: pandas would turn `007` into 7 and fill up short rows.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multitask.config import Config, DataConfig
from multitask.data.readers.parquet import arrow_columns, arrow_features, parquet_features
from multitask.data.readers.places import place_of
from multitask.data.readers.separated import SEPARATORS
from multitask.data.readers.tables import joined, read_table
from multitask.tasks.label_reader import label_text
from multitask.utils.errors import UserError, reading, reason_of, warn
from multitask.utils.look_alikes import looks_like

# the builders of `datasets` whose files our readers read
PLAIN = ("csv", "json")
# those whose files may declare features, and the function that reads them
SCHEMAS = {"parquet": parquet_features, "arrow": arrow_features}
# what the card of a data set may say about these files, for our readers too
KNOWN = ("name", "version", "data_dir", "data_files", "description", "features")
KNOWN_CSV = ("sep", "delimiter", "names", "column_names")
# more rows than any file has
MANY = 10**12


def place(config: Config, task: str) -> str:
    """Return the directory of a task's data set, or its id on the hub."""
    data = config.tasks[task].data
    assert data.path is not None  # the config's validator asks for it
    local = config.data_path(data.path)
    return str(local) if local.exists() else data.path


def load_columns(config: Config, task: str, split: str) -> dict[str, list]:
    """Read a split as columns by name. Raises UserError if this fails."""
    data, where = config.tasks[task].data, place(config, task)
    with _loading(config, task, split):
        where, builder = _open(where, data)
        if _form(builder) is not None:
            return _read(builder, split, data)
        table = _load(where, builder, data, split)
    with reading(f"{where}[{split}]"):
        return arrow_columns(table.with_format("arrow")[:])


def features_of(config: Config, task: str, split: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the features that a split and each of its files declare, with their names.

    Raises UserError if the split cannot be loaded.
    """
    data, where = config.tasks[task].data, place(config, task)
    with _loading(config, task, split):
        where, builder = _open(where, data)
        if _form(builder) is not None:
            return [(split, builder.info.features or {})]
        if builder is not None and builder.name in SCHEMAS:
            card, files = builder.info.features or {}, _files(builder)
            read = SCHEMAS[builder.name]
            parts = dict.fromkeys(p.splitname for p in _parts(split, dict.fromkeys(files, MANY)))
            every = [pair for part in parts for pair in files[part]]
            return [(f"the card of {where}", card), *((name, read(file)) for name, file in every)]
        loaded = _load(where, builder, data, split)
        saved = (
            [] if builder is not None else [Path(entry["filename"]) for entry in loaded.cache_files]
        )
        return [(split, loaded.features), *((str(file), arrow_features(file)) for file in saved)]


@contextmanager
def _loading(config: Config, task: str, split: str) -> Iterator[None]:
    """Turn any exception of the library into a UserError about ``data.path``."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds, all of them about this input
        reason = reason_of(error, 300)
        message = f"cannot load the data set {place(config, task)!r}, split {split!r}: {reason}"
        raise config.error(("tasks", task, "data", "path"), message) from error


def _open(where: str, data: DataConfig) -> tuple[str, Any]:
    """Return the place of a data set and its builder; None for a saved directory.

    Without a network, the place is the copy that an earlier load left in the cache of the hub.
    """
    import datasets
    from huggingface_hub import snapshot_download

    if data.format == "disk":
        return where, None
    builder, problem = None, None
    try:
        builder = datasets.load_dataset_builder(where, data.subset)
        # without a network it may be a table that an older version of ours had pandas read
        if builder.name != "cache" or builder.info.builder_name not in PLAIN:
            return where, builder
    except Exception as error:
        problem = error
    try:
        saved = snapshot_download(where, repo_type="dataset", local_files_only=True)
        return saved, datasets.load_dataset_builder(saved, data.subset)
    except Exception:  # its files were never downloaded, or `where` is a directory
        if problem is not None:
            raise problem from None
        return where, builder


def _form(builder: Any) -> str | None:
    """Return the format in which our readers read the files; None if the library must read them."""
    if builder is None or builder.name not in PLAIN or _unusual(builder):
        return None
    if builder.name == "json":
        return "jsonl"
    return "tsv" if builder.config.sep == "\t" else "csv"


def _unusual(builder: Any) -> list[str]:
    """Return what the card of a CSV or JSON data set asks for that our readers do not know."""
    import datasets

    config, features = builder.config, builder.info.features or {}
    readable = KNOWN + KNOWN_CSV if builder.name == "csv" else KNOWN
    options = [
        field.name
        for field in dataclasses.fields(config)
        if field.name not in readable and getattr(config, field.name) != field.default
    ]
    if builder.name == "csv" and config.sep not in SEPARATORS:
        options.append("sep")
    lists = [
        name
        for name, feature in features.items()
        if class_names(features, name) and not isinstance(feature, datasets.ClassLabel)
    ]
    return options + lists


def _read(builder: Any, split: str, data: DataConfig) -> dict[str, list]:
    """Read a split, a part of one such as `train[:50%]`, or several with a `+` between."""
    files = _files(builder)
    names = dict.fromkeys(part.splitname for part in _parts(split, dict.fromkeys(files, MANY)))
    tables = {name: _table(builder, files[name], data) for name in names}
    sizes = {name: len(next(iter(table.values()))) for name, table in tables.items()}
    parts = [
        (part.splitname, {k: v[part.from_ : part.to] for k, v in tables[part.splitname].items()})
        for part in _parts(split, sizes)
    ]
    return joined(parts)


def _parts(split: str, sizes: Mapping[str, int]) -> Any:
    """Return the parts of splits, with so many rows, that an expression names."""
    import datasets

    names = "+".join(sizes) if split == "all" else split
    return datasets.ReadInstruction.from_spec(names).to_absolute(dict(sizes))


def _files(builder: Any) -> dict[str, list[tuple[str, Path]]]:
    """Download and unpack all files; return per split the name of each file and its local copy."""
    import datasets

    settings = datasets.DownloadConfig(use_etag=False, token=builder.token)
    manager = datasets.DownloadManager(download_config=settings)
    named = builder.config.data_files or {}
    local = manager.download_and_extract(named)
    return {
        str(split): [
            ("/".join([name, *Path(file).relative_to(place).parts]), Path(file))
            for name, place in zip(named[split], local[split], strict=True)
            for file in manager.iter_files(place)
        ]
        for split in named
    }


def _table(builder: Any, files: list[tuple[str, Path]], data: DataConfig) -> dict[str, list]:
    """Read the files of a split, as its card and ``data`` describe them."""
    form = _form(builder)
    assert form is not None
    names = getattr(builder.config, "names", None)
    if names and data.header is None:
        data = data.model_copy(update={"header": list(names)})
    tables = []
    for name, file in files:
        # errors name the file of the data set, not its local copy
        tables.append((name, _numbered(read_table(file, form, data, name), builder, name)))
    return joined(tables)


def _numbered(table: dict[str, list], builder: Any, source: str) -> dict[str, list]:
    """Convert the names in columns of classes to numbers, as the library does."""
    import datasets

    for name, feature in (builder.info.features or {}).items():
        if not isinstance(feature, datasets.ClassLabel) or name not in table:
            continue
        # not `str2int`, which reads `01` and `0_1` as 1
        numbers = {str(number): number for number in range(-1, feature.num_classes)}
        numbers |= {label: number for number, label in enumerate(feature.names)}
        for row, cell in enumerate(table[name]):
            if text := label_text(cell):
                number = numbers.get(text, numbers.get(text.strip()))
                if number is None:
                    message = f"{name} is {cell!r:.60}: expected one of {', '.join(feature.names)}"
                    alike = looks_like(text, feature.names)
                    raise UserError(f"{place_of(table, row, source)}: {message}{alike}")
                table[name][row] = number
    return table


def _load(where: str, builder: Any, data: DataConfig, split: str) -> Any:
    """Load a split as a `datasets.Dataset`."""
    import datasets

    if builder is not None:
        options = _csv_options(builder, where) if builder.name == "csv" else {}
        if options or Path(where).is_dir():
            return datasets.load_dataset(where, data.subset, split=split, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split=split)
    saved = datasets.load_from_disk(where)
    if not isinstance(saved, datasets.DatasetDict):
        raise ValueError("it has no splits; save a DatasetDict")
    if split not in saved:
        raise ValueError(f"its splits are {', '.join(map(str, saved))}")
    return saved[split]


def _csv_options(builder: Any, where: str) -> dict[str, object]:
    """Return options with which pandas reads the cells of a CSV file as text."""
    import datasets
    import pandas

    unusual = ", ".join(_unusual(builder))
    warn(f"{where}: pandas reads it ({unusual}), which fills up rows with too few cells")
    if builder.info.features:
        features = builder.info.features
        return {"features": features, "keep_default_na": False, "na_values": [""]}
    first = next(file for files in _files(builder).values() for _, file in files)
    settings = {**builder.config.pd_read_csv_kwargs, "nrows": 0, "chunksize": None}
    names = pandas.read_csv(first, **settings).columns
    text = datasets.Value("string")
    return {"features": datasets.Features({str(n): text for n in names}), "na_filter": False}


def class_names(features: Any, column: str) -> list[str]:
    """Return the class names of a column of classes, or of lists of classes; else none."""
    import datasets

    feature = features.get(column)
    while isinstance(feature, datasets.List | datasets.LargeList):
        feature = feature.feature
    return list(feature.names) if isinstance(feature, datasets.ClassLabel) else []
