"""Prepare a run directory: never overwrite other files, resume only with the same config."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from multitask.config import Config
from multitask.config.describe_config import as_written
from multitask.store.checkpoint import write_sealed
from multitask.store.files import ANYWHERE, entries, remove_scraps, replacing, text_digest
from multitask.store.lock import owned
from multitask.store.run_directory import RunDirectory, open_run
from multitask.utils.errors import UserError

# a run and its data may be moved; a tracker copies what a run writes; `ordered` adds a metric
WITHOUT_EFFECT = (
    "output_dir",
    "data_dir",
    "training.tensorboard",
    "training.trackers",
    ".data.ordered",
)


def check_directory(run_dir: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise UserError if a run in ``run_dir`` would overwrite other files or another run."""
    run = open_run(run_dir)
    if not run_dir.exists():
        if run_dir.is_symlink():
            raise UserError(f"{run_dir} is a link to nothing: choose another output_dir=DIR")
        return
    if not run_dir.is_dir():
        raise UserError(f"{run_dir} is a file: choose another output_dir=DIR")
    filled = bool(entries(run_dir))
    if filled and not run.marker.exists():
        raise UserError(f"{run_dir} is not empty and holds no run: choose another output_dir=DIR")
    # a run that was killed before its first step can be started again
    begun = run.metrics.exists() or run.report.exists()
    if begun and not resume and not overwrite:
        raise UserError(
            f"{run_dir} holds a run already: go on with --resume, replace it with --overwrite, or "
            "choose another output_dir=DIR"
        )
    if filled and overwrite:
        if run_dir.resolve() == Path.cwd():
            raise UserError(f"{run_dir} is where you are: start from another directory")
        return
    for folder in run.folders:
        run.check_folder(folder)


def own(run: RunDirectory) -> AbstractContextManager[None]:
    """Own a run directory during a block. Raises Busy if another process trains in it."""
    return owned(run.lock, "trains there")


def discard_weights(run: RunDirectory) -> None:
    """Remove checkpoints, weights and encoder of a finished run; the results stay."""
    for folder in (run.checkpoints, run.weights, run.encoder):
        shutil.rmtree(folder, ignore_errors=True)


def start_directory(
    config: Config, started: Mapping[str, object], *, resume: bool, overwrite: bool, held: ExitStack
) -> None:
    """Make the run directory and save the resolved config in it.

    ``started`` goes into ``run.json``: what the run is started with; ``held`` gets the lock of a
    new directory. A kill leaves the old run, the new run, or a directory in which the same command
    can start.
    """
    place = Path(config.output_dir).resolve()  # replace the directory behind a link, not the link
    place.mkdir(parents=True, exist_ok=True)
    remove_scraps(place, ANYWHERE)
    remove_scraps(place.parent)
    with replacing(place) if overwrite else nullcontext(place) as made:
        run = RunDirectory(made)
        if overwrite:
            held.enter_context(own(run))  # before others see it
        if not (resume and run.holds_run):
            for left in (run.baselines, run.checksums):  # of an earlier start
                left.unlink(missing_ok=True)
            moved = {"output_dir": "", "data_dir": ""}  # a run and its data may be
            digest = text_digest(config.model_copy(update=moved).dump())
            write_sealed(run.marker, {"format": 2, "config": digest, **started})
        save_config(config, run)  # data_dir may have moved


def save_config(config: Config, run: RunDirectory) -> None:
    """Write the resolved config into a run directory."""
    run.write_text(run.config, config.dump())


def check_same_config(config: Config, run: RunDirectory) -> None:
    """Raise UserError if a run was started with another config."""
    differing = config_differences(config, run.path) if run.holds_run else ""
    if differing:
        advice = "resume with the same values, or choose another output_dir=DIR"
        if run.finished:
            advice = f"it is finished: {train_on(run, config)}"
        message = f"{run.path}: the run was started with another config: {differing}"
        raise UserError(f"{message}; {advice}")


def train_on(run: RunDirectory, config: Config) -> str:
    """Say how to train a finished run's weights further, with other epochs or other values."""
    source = f"init_from={run.path}"  # the encoder: heads of several tasks begin anew
    if len(config.tasks) == 1:
        source = f"init_from.run={run.path} init_from.take=head"
    return f"to train its weights further, start a new run with {source} output_dir=DIR"


def config_differences(config: Config, run_dir: Path) -> str:
    """Return the keys that differ from a run's saved config, as ``seed (1 -> 2)``; '' for none."""
    before = flat(RunDirectory(run_dir).load_config().resolved())
    now = flat(config.resolved())
    # if the config has no labels, the saved config has those of the data: not a difference
    ignored = [f"tasks.{n}.data.labels." for n, t in config.tasks.items() if t.data.labels is None]
    if config.encoder.kernels == "auto":  # the saved config has the choice
        ignored.append("encoder.kernels")
    changes = [
        f"{key} ({as_written(before.get(key))} -> {as_written(now.get(key))})"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
        and not key.endswith(WITHOUT_EFFECT)
        and not key.startswith(tuple(ignored))
    ]
    return ", ".join(changes[:5]) + (f" and {len(changes) - 5} more" if changes[5:] else "")


def flat(values: object, path: str = "") -> dict[str, object]:
    """Flatten nested mappings into one mapping from ``key.path`` to value."""
    if isinstance(values, dict) and values:
        parts = [flat(item, f"{path}.{key}" if path else str(key)) for key, item in values.items()]
        return {key: item for part in parts for key, item in part.items()}
    return {path: values}


def check_encoder(source: str, task: str | None, overrides: Sequence[str]) -> None:
    """Raise UserError if ``source`` is not an encoder, or an option is given that needs a run.

    The caller has checked that ``source`` is not a run.
    """
    if task is not None or overrides:
        option = "--task" if task is not None else overrides[0]
        raise UserError(f"{source}: no run there (config.yaml is missing), so {option} has no use")
    place = Path(source)
    if place.is_dir() and not (place / "config.json").is_file():
        raise UserError(f"{source}: neither a run (config.yaml) nor an encoder (config.json)")


def check_distinct(run_dirs: Sequence[Path]) -> None:
    """Raise UserError if a run is given twice, also through a link."""
    seen = set()
    for run in run_dirs:
        if run.resolve() in seen:
            raise UserError(f"{run}: the same run is given twice: leave one out")
        seen.add(run.resolve())
