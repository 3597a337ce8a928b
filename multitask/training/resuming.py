"""Resume a run: compare it with its start before anything is written, and find what is left to do.

A run is resumed with the config, the data and the encoder that it was started with.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from multitask.config import Config
from multitask.data.splits import fingerprint
from multitask.models.encoders.architecture import load_architecture
from multitask.models.pretrained import load_tokenizer
from multitask.models.weights import check_tensors
from multitask.store.files import check_checksums, read_digests, write_checksums
from multitask.store.prepare_run import check_same_config, flat, started_with
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import StartedWith
from multitask.training.checkpoint_repair import Intact, find_intact
from multitask.training.metric_log import check_log
from multitask.training.setup import Plan
from multitask.utils.errors import UserError, reading

# keys of config.json that say nothing about what the encoder computes; so do names with `_` first
NOTES = ("architectures", "dtype", "torch_dtype", "transformers_version")


@dataclass
class SameData:
    """Refuses to resume a run if its data has changed.

    Attributes:
        hashes: a hash of the rows that each task trains on and is scored by.
    """

    hashes: Mapping[str, str]

    def state_dict(self) -> dict[str, str]:
        return dict(self.hashes)

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        changed = [task for task, digest in self.hashes.items() if state.get(task) != digest]
        if changed:
            raise UserError(
                f"the data of {', '.join(changed)} are not those the run was started with: put "
                "them back, or choose another output_dir=DIR"
            )


class Left(NamedTuple):
    """The work that is left in a run directory.

    Attributes:
        finished: nothing but the pages may be missing.
        encoder: ``encoder/`` is there, and it is the run's.
        checkpoint: the checkpoint to go on from, and what is to be mended.
    """

    finished: bool = False
    encoder: bool = False
    checkpoint: Intact = Intact()


def examine(
    config: Config, plan: Plan, run: RunDirectory, say: Callable[[str], None] = print
) -> Left:
    """Find out what is left to do in a run that is resumed. Nothing is written.

    Raises UserError if the run was started with another config, data or encoder, or cannot go on.
    """
    data = SameData(fingerprint(plan.config, plan.data.splits))

    def check(states: Mapping[str, Any]) -> None:
        data.load_state_dict(states["data"])
        check_log(run.metrics, states["log"])

    check_same_config(config, run)
    started = started_with(run)
    if started.data:
        data.load_state_dict(started.data)
    encoder = same_encoder(plan, run)
    if run.finished and is_complete(run):
        return Left(finished=True)
    check_same_kernels(plan, run, started.kernels)
    return Left(encoder=encoder, checkpoint=find_intact(run, say, check))


def checksums(plan: Plan) -> StartedWith:
    """Return what a run is started with, in addition to its config and encoder."""
    data = fingerprint(plan.config, plan.data.splits)
    return StartedWith(data=data, kernels=plan.model.encoder.kernels)


def check_same_kernels(plan: Plan, run: RunDirectory, before: str | None) -> None:
    """Raise UserError if a run was started with kernels that this machine does not have."""
    now = plan.model.encoder.kernels
    if before not in (None, now):
        raise UserError(
            f"{run.path}: the run was started with {before} kernels, and this process has {now} "
            "ones, whose dropout differs: resume where it was started, or start anew with "
            "--overwrite"
        )


def is_complete(run: RunDirectory) -> bool:
    """Return True for a finished run that is as it was written.

    That includes a run whose checkpoints were removed, as `ablate` does.
    """
    try:
        run.load_report()
        if not run.saved_checkpoints():
            return True
        if not is_intact(run.encoder):
            return False
        for step in set(run.best_steps().values()) - {0}:
            check_tensors(run.weights_of(step))
    except (OSError, UserError):
        return False
    files = [run.path / name for name in read_digests(run.checksums)]
    return run.metrics in files and all(map(run.is_intact, files))


def is_intact(encoder: Path) -> bool:
    """Return True for an ``encoder/`` directory whose files are as they were written."""
    try:
        check_checksums(encoder)
    except (OSError, UserError):
        return False
    return (encoder / "config.json").is_file()


def same_encoder(plan: Plan, run: RunDirectory) -> bool:
    """Return True if the run's ``encoder/`` is the plan's; False if it is missing or damaged.

    Raises UserError if it is another one.
    """
    if not is_intact(run.encoder):
        return False
    try:
        with reading(run.encoder):  # the libraries raise many kinds
            saved = _described(run.encoder)
    except (OSError, UserError):
        return False
    with tempfile.TemporaryDirectory() as scratch:
        write_encoder(plan, Path(scratch))
        now = _described(Path(scratch))
    differing = [key for key in {**saved, **now} if saved.get(key) != now.get(key)]
    if differing:
        raise UserError(
            f"{run.path}: the encoder {plan.config.encoder.name} is not the one that the run was "
            f"started with: other values of {', '.join(differing[:5])}: put it back, or choose "
            "another output_dir=DIR"
        )
    return True


def _described(encoder: Path) -> dict[str, object]:
    """Return what distinguishes the encoder in a directory from others, by name."""
    architecture = flat(load_architecture(str(encoder)).to_dict())
    tokenizer = load_tokenizer(str(encoder))
    return {
        **{key: value for key, value in architecture.items() if key not in NOTES and key[0] != "_"},
        "tokenizer.json": tokenizer.backend_tokenizer.to_str(),
        "the special tokens": tokenizer.special_tokens_map,
    }


def write_encoder(plan: Plan, directory: Path) -> None:
    """Write the encoder's architecture and tokenizer, with checksums."""
    tokenizer = plan.data.tokenizer
    # tokenizer.json includes the last padding and truncation, which depend on the token cache:
    # reset them, so that a resumed run saves the same file
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    plan.model.encoder.config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    write_checksums(directory)
