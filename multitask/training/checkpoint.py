"""Checkpoints that survive a kill at any moment: safetensors and JSON, written aside, renamed.

A checkpoint is a directory ``step-NNNNNNNN`` with one safetensors file a group of tensors and a
``state.json`` that holds the rest and the SHA-256 of every file. Nothing is unpickled.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from multitask.models.weights import Tensors, write_tensors
from multitask.utils.errors import UserError
from multitask.utils.files import replacing, sync, write_text


class Damaged(Exception):
    """A checkpoint that is truncated, altered or incomplete; the text says where."""


def save_checkpoint(
    directory: Path, step: int, groups: Mapping[str, Tensors], state: Mapping[str, Any]
) -> Path:
    """Write checkpoint ``step``; it appears under its name only when it is complete.

    A second one of the same step (before and after its evaluation) stands beside the first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    final = directory / f"step-{step:08d}"
    while final.exists():
        final = final.with_name(f"{final.name}+")
    with replacing(final) as scratch:
        scratch.mkdir()
        digests = {}
        for name, tensors in groups.items():
            file = scratch / f"{name}.safetensors"
            write_tensors(file, tensors)
            digests[file.name] = _digest(file)
        write_text(scratch / "state.json", json.dumps({**state, "sha256": digests}))
    sync(directory)
    return final


def checkpoints(directory: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(directory.glob("step-*")) if directory.is_dir() else []


def load_checkpoint(path: Path) -> tuple[dict[str, Tensors], dict[str, Any]]:
    """The tensors and the state of a checkpoint. Raises Damaged when anything is amiss."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        for name, digest in state["sha256"].items():
            if _digest(path / name) != digest:
                raise Damaged(f"{path / name} is damaged")
        if not state["sha256"]:
            raise Damaged(f"{path} names no files")
        groups = {name: load_file(path / name) for name in state["sha256"]}
        return {name.removesuffix(".safetensors"): group for name, group in groups.items()}, state
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
        raise Damaged(f"{path} is damaged ({' '.join(str(error).split())})") from error


def prune(directory: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints."""
    for old in checkpoints(directory)[:-keep]:
        shutil.rmtree(old)


def newest_intact(run_dir: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that is whole; None without any.

    A damaged one is named to ``say``, and set aside. Raises UserError where all are damaged.
    """
    found = checkpoints(run_dir / "checkpoints")
    damaged = []
    for path in reversed(found):
        try:
            load_checkpoint(path)
        except Damaged as problem:
            say(f"warning: {problem}; falling back to the checkpoint before it")
            damaged.append(path)
            continue
        for other in damaged:  # out of the way of the checkpoints to come, not deleted
            other.rename(other.with_name(f"damaged-{other.name}"))
        return path
    if found:
        raise UserError(f"{run_dir}: every checkpoint is damaged: start again with --overwrite")
    return None


def prune_weights(run_dir: Path, wanted: set[int]) -> None:
    """Delete the weights of steps that are neither wanted nor best in a checkpoint."""
    for path in checkpoints(run_dir / "checkpoints"):
        with contextlib.suppress(OSError, ValueError):  # a damaged one refers to nothing
            state = json.loads((path / "state.json").read_text())
            wanted = wanted | set(state["best_steps"].values())
    for file in (run_dir / "weights").glob("step-*.safetensors"):
        if int(file.stem.removeprefix("step-")) not in wanted:
            file.unlink()


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[Tensors, list[dict[str, Any]]]:
    """An optimizer's state as flat tensors (``index.key``) and its JSON-able parameter groups."""
    packed = optimizer.state_dict()
    tensors = {
        f"{index}.{key}": value
        for index, values in packed["state"].items()
        for key, value in values.items()
    }
    return tensors, packed["param_groups"]


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Tensors, groups: list[dict[str, Any]]
) -> None:
    """Restore what ``pack_optimizer`` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
