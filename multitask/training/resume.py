"""Resume a run: compare it with its start before anything is written, and find what is left to do.

A run is resumed with the config, the data and the encoder that it was started with.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multitask.data.splits import fingerprint
from multitask.models.encoders.architecture import load_architecture
from multitask.models.pretrained import load_tokenizer
from multitask.models.weights import check_tensors
from multitask.store.checkpoint import Damaged, read_sealed
from multitask.store.files import (
    CHECKSUMS,
    check_checksums,
    digest_lines,
    file_digests,
    read_digests,
    replacing,
    write_text,
)
from multitask.store.prepare_run import check_same_config, flat
from multitask.store.run_directory import RunDirectory
from multitask.training.checkpoints import newest_intact
from multitask.training.setup import Plan
from multitask.utils.errors import UserError, reading, warn

# keys of config.json that say nothing about what the encoder computes; so do names with `_` first
NOTES = ("architectures", "dtype", "torch_dtype", "transformers_version")


def examine(plan: Plan, run: RunDirectory, say: Callable[[str], None]) -> tuple[bool, Path | None]:
    """Return True if a run is complete; and else the checkpoint to go on from, or None.

    Raises UserError, before anything is written, if the run was started with another config, data,
    encoder or kernels, or cannot go on.
    """
    if not run.marker.is_file():
        return False, None
    check_same_config(plan.config, run)
    try:
        before = read_sealed(run.marker)
    except Damaged as error:
        what = f"{run.marker} is damaged, or another version of this program has written it"
        raise UserError(f"{what}: start again with --overwrite") from error
    now = started_with(plan)
    if changed := [
        task for task, digest in now["data"].items() if before["data"].get(task) != digest
    ]:
        raise UserError(
            f"the data of {', '.join(changed)} are not those the run was started with: put them "
            "back, or choose another output_dir=DIR"
        )
    if is_intact(run.encoder):
        _check_same_encoder(plan, run)
    if run.finished and is_complete(run):
        return True, None
    if before["kernels"] != now["kernels"]:
        raise UserError(
            f"{run.path}: the run was started with {before['kernels']} kernels, and this process "
            f"has {now['kernels']} ones, whose dropout differs: resume where it was started, or "
            "start anew with --overwrite"
        )
    return False, newest_intact(run, say)


def started_with(plan: Plan) -> dict[str, Any]:
    """Return what a run is started with, in addition to its config and encoder, for run.json."""
    data = fingerprint(plan.config, plan.data.splits)
    return {"data": data, "kernels": plan.model.encoder.kernels}


def is_complete(run: RunDirectory) -> bool:
    """Return True for a finished run that is as it was written.

    That includes a run whose checkpoints were removed, as `ablate` does.
    """
    try:
        run.load_report()
        if not run.saved_checkpoints():
            return True
        for step in set(run.best_steps().values()) - {0}:
            check_tensors(run.weights_of(step))
    except (OSError, UserError):
        return False
    files = [run.path / name for name in read_digests(run.checksums)]
    return is_intact(run.encoder) and run.metrics in files and all(map(run.is_intact, files))


def is_intact(encoder: Path) -> bool:
    """Return True for an ``encoder/`` directory whose files are as they were written."""
    try:
        check_checksums(encoder)
    except (OSError, UserError):
        return False
    return (encoder / CHECKSUMS).is_file()


def keep_encoder(plan: Plan, run: RunDirectory) -> None:
    """Save the encoder's architecture and tokenizer, so that the run loads without the original.

    An intact directory stays as it is.
    """
    if is_intact(run.encoder):
        return
    if run.encoder.exists():
        warn(f"{run.encoder} is damaged: it is written again")
    run.check_folder(run.encoder)
    try:
        with replacing(run.encoder) as made:
            _write_encoder(plan, made)
    except Exception as error:  # the Rust tokenizer raises a bare Exception on a full disk
        raise OSError(f"{run.encoder}: {error}") from error


def _write_encoder(plan: Plan, directory: Path) -> None:
    """Write the encoder's architecture and tokenizer, with checksums."""
    tokenizer = plan.data.tokenizer
    # tokenizer.json includes the last padding and truncation, which depend on the token cache:
    # reset them, so that a resumed run saves the same file
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    plan.model.encoder.config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    write_text(directory / CHECKSUMS, digest_lines(file_digests(directory)))


def _check_same_encoder(plan: Plan, run: RunDirectory) -> None:
    """Raise UserError if the run's ``encoder/`` is another one than the plan's."""
    with tempfile.TemporaryDirectory() as scratch:
        _write_encoder(plan, Path(scratch))
        now = _described(Path(scratch))
    with reading(run.encoder):
        saved = _described(run.encoder)
    differing = [key for key in {**saved, **now} if saved.get(key) != now.get(key)]
    if differing:
        raise UserError(
            f"{run.path}: the encoder {plan.config.encoder.name} is not the one that the run was "
            f"started with: other values of {', '.join(differing[:5])}: put it back, or choose "
            "another output_dir=DIR"
        )


def _described(encoder: Path) -> dict[str, object]:
    """Return what distinguishes the encoder in a directory from others, by name."""
    architecture = flat(load_architecture(str(encoder)).to_dict())
    tokenizer = load_tokenizer(str(encoder))
    return {
        **{key: value for key, value in architecture.items() if key not in NOTES and key[0] != "_"},
        "tokenizer.json": tokenizer.backend_tokenizer.to_str(),
        "the special tokens": tokenizer.special_tokens_map,
    }
