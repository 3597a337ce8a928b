"""The files of a run: their paths, and how to read and write them."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from multitask.config import Config, load_config
from multitask.store.checkpoint import is_foreign
from multitask.store.files import (
    OWNER_LOCK,
    entries,
    file_digest,
    finish_replacing,
    hold,
    json_text,
    read_digests,
    text_digest,
    write_digests,
    write_text,
)
from multitask.store.lock import holder
from multitask.store.run_log import Event, load_lines, parse_event
from multitask.store.saved import (
    AllBaselines,
    Baselines,
    BestSteps,
    RunReport,
    TrackerIds,
    read_saved,
)
from multitask.utils.errors import UserError, check_regular, warn

CHECKPOINT = re.compile(r"step-(\d{8,})\+*")  # its name; see `RunDirectory.checkpoint`


class Named:
    """A file or directory with a fixed name in the directory ``path`` of an object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, directory: Any, owner: object) -> Path:
        return Path(directory.path, self.name)


@dataclass(frozen=True)
class RunDirectory:
    """A run's directory. Only this class knows the names of the files in it.

    Attributes:
        path: the directory.
    """

    path: Path

    # --- paths ---

    # the first file that a run writes; without it a directory is not a run
    marker = Named("run.json")
    # the lock of the process that trains the run
    lock = Named(OWNER_LOCK)
    # the resolved config
    config = Named("config.yaml")
    # the checksums of the config, the log, the best steps, the predictions and so on
    checksums = Named("checksums")
    # scores of the trivial guess and of the frozen encoder
    baselines = Named("baselines.json")
    # the log: one line per step, evaluation and stop
    metrics = Named("metrics.jsonl")
    # the best step of each task
    best = Named("best.json")
    # the results. A run with this file is finished
    report = Named("report.json")
    markdown_page = Named("report.md")
    html_page = Named("report.html")
    # the model card
    card = Named("README.md")
    # the directory with the architecture of the encoder and the tokenizer
    encoder = Named("encoder")
    # the directory with the weights of the best steps
    weights = Named("weights")
    checkpoints = Named("checkpoints")
    figures = Named("figures")
    predictions = Named("predictions")
    tensorboard = Named("tensorboard")
    # files of other trackers
    trackers = Named("trackers")
    # the id that each tracker knows the run by
    tracker_ids = Named("trackers/ids.json")

    def weights_of(self, step: int) -> Path:
        """Return the file with the weights of a best step."""
        return self.weights / f"step-{step:08d}.safetensors"

    def saved_weights(self) -> dict[int, Path]:
        """Return the files with weights by step; other files in the directory are ignored."""
        files = {f: f.stem.removeprefix("step-") for f in self.weights.glob("step-*.safetensors")}
        steps = {file: int(step) for file, step in files.items() if step.isdecimal()}
        return {step: file for file, step in steps.items() if file == self.weights_of(step)}

    def checkpoint(self, step: int) -> Path:
        """Return the directory for a new checkpoint of a step.

        A step can have two, before and after its evaluation: the second name ends with ``+``.
        """
        path = self.checkpoints / f"step-{step:08d}"
        while path.exists():
            path = path.with_name(f"{path.name}+")
        return path

    def saved_checkpoints(self) -> list[Path]:
        """Return the complete checkpoints of this run, the oldest first.

        Some may be damaged. Copies under other names, and checkpoints of other runs, are left out.
        """
        steps, run = {}, self.identity
        for path in self.checkpoints.glob("step-*"):
            name = CHECKPOINT.fullmatch(path.name)
            if name and not is_foreign(state_of(path), int(name[1]), run):
                steps[path] = int(name[1])
        return sorted(steps, key=lambda path: (steps[path], path.name))

    def checkpoints_of(self, step: int) -> list[Path]:
        """Return the complete checkpoints of a step, the newest first."""
        return [path for path in reversed(self.saved_checkpoints()) if step_of(path) == step]

    def damaged(self, checkpoint: Path) -> Path:
        """Return the path to move a damaged checkpoint to."""
        path = checkpoint.with_name(f"damaged-{checkpoint.name}")
        while path.exists():
            path = path.with_name(f"{path.name}+")
        return path

    def figure(self, name: str) -> Path:
        return self.figures / f"{name}.png"

    def predictions_of(self, task: str, split: str) -> Path:
        """Return the file with predictions of a task on a split, one JSON object per row."""
        return self.predictions / f"{task}.{split}.jsonl"

    def course_file(self, name: str, split: str) -> Path:
        """Return the file with predictions in the format of the CS224N course."""
        return self.predictions / f"{name}-{split}-output.csv"

    def glue_file(self, name: str) -> Path:
        """Return the file with predictions in the format of the GLUE server."""
        return self.predictions / "glue" / f"{name}.tsv"

    def evaluation(self, split: str) -> Path:
        """Return the file that ``evaluate`` writes."""
        return self.path / f"evaluation-{split}.json"

    def pictures(self, name: str) -> Path:
        """Return the path that ``attention`` writes to, without the ending."""
        return self.path / name

    # --- state ---

    @property
    def holds_run(self) -> bool:
        """True if there is a run; see ``open_run`` for an overwrite that was killed."""
        return self.config.is_file()

    @property
    def absent(self) -> str:
        """Say that there is no run, and name a run in the same place with nearly this name."""
        parent = self.path.parent
        runs: list[str] = []
        with suppress(OSError):  # the place is missing, or may not be read
            runs = [other.name for other in entries(parent) if RunDirectory(other).holds_run]
        near = get_close_matches(self.path.name, runs, n=1)
        hint = f": did you mean {parent / near[0]}?" if near else ""
        return f"{self.path}: no run there (config.yaml is missing){hint}"

    @property
    def finished(self) -> bool:
        return self.report.is_file()

    @property
    def identity(self) -> str | None:
        """A checksum of what the run was started with; None without ``run.json``."""
        return file_digest(self.marker) if self.marker.is_file() else None

    # --- reading and writing ---

    @property
    def folders(self) -> list[Path]:
        """The directories that a training run writes to."""
        folders = [self.encoder, self.weights, self.checkpoints, self.figures, self.predictions]
        return [*folders, self.tensorboard, self.trackers]

    def check_folder(self, folder: Path) -> None:
        """Raise UserError for a link: a run made by somebody else could point to other files."""
        for path in (folder, *folder.parents):
            if path == self.path:
                break
            if path.is_symlink():
                raise UserError(
                    f"{path} is a link, and what a run writes stays in its directory: put a "
                    "directory in its place"
                )

    def make(self, folder: Path) -> Path:
        """Make a directory of the run if it does not exist. Raises UserError for a link."""
        self.check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_text(self, file: Path, text: str) -> Path:
        """Write a file of the run, complete or not at all. Make its directory if needed."""
        self.make(file.parent)
        if not self._has_checksum(file):
            write_text(file, text)
            return file
        with self._alone():
            valid = [text_digest(text)]
            if file.is_file():  # a kill may leave the previous version
                valid.append(file_digest(file))
            self._save_digests(file, valid)
            write_text(file, text)
        return file

    def write_json(self, file: Path, value: object) -> Path:
        """Write a file of the run as standard JSON, complete or not at all."""
        return self.write_text(file, json_text(value))

    def seal_log(self) -> None:
        """Save the checksum of the log of a run that ends."""
        with self._alone():
            self._save_digests(self.metrics, [file_digest(self.metrics)])

    def unseal_log(self) -> None:
        """Remove the checksum of the log, before it changes."""
        with self._alone():
            self._save_digests(self.metrics, [])

    def _has_checksum(self, file: Path) -> bool:
        if self.predictions in file.parents:
            return self.holds_run  # not those of an ensemble
        return file in (self.config, self.best, self.baselines, self.report)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let other processes wait that change ``checksums`` and the files in it."""
        with hold(self.marker, wait=True) if self.marker.is_file() else nullcontext():
            yield

    def _save_digests(self, file: Path, valid: list[str]) -> None:
        """Replace the valid checksums of a file."""
        saved = read_digests(self.checksums)
        if saved.get(self._name(file), []) != valid:
            write_digests(self.checksums, saved | {self._name(file): valid})

    def _name(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def is_as_saved(self, file: Path) -> bool:
        """Return False if a file was changed after the run wrote it."""
        valid = read_digests(self.checksums).get(self._name(file))
        return valid is None or file_digest(file) in valid

    def is_intact(self, file: Path) -> bool:
        """Return True if a file is there, with the checksum that the run saved."""
        saved = read_digests(self.checksums).get(self._name(file), [])
        return file.is_file() and file_digest(file) in saved

    def warn_of_change(self, file: Path) -> None:
        """Warn if a file was changed after the run wrote it."""
        if not self.is_as_saved(file):
            warn(f"{file} is damaged or was changed: it is not as the run has written it")

    def load_config(self, overrides: list[str] | None = None) -> Config:
        """Return the resolved config. Raises UserError if there is no run."""
        if not self.holds_run:
            raise UserError(self.absent)
        config = load_config(self.config, overrides)
        self.warn_of_change(self.config)
        return config

    def load_baselines(self) -> dict[str, Baselines] | None:
        """Return the baselines; None if missing or damaged, as they are quick to compute again."""
        try:
            baselines = read_saved(self.baselines, AllBaselines, ": damaged: {}")
            return baselines.root if self.is_as_saved(self.baselines) else None
        except (FileNotFoundError, UserError):
            return None

    def load_tracker_ids(self) -> dict[str, str]:
        """Return the id that each tracker knows the run by; none if missing or damaged."""
        try:
            return read_saved(self.tracker_ids, TrackerIds, ": damaged: {}").root
        except (FileNotFoundError, UserError):
            return {}

    def load_events(self) -> list[Event]:
        """Return the lines of the log, without damaged ones; a warning lists those.

        It also warns if the log was changed after the run ended. Raises UserError if all lines are
        damaged.
        """
        check_regular(self.metrics)
        lines = [parse_event(line) for line in self.metrics.read_bytes().splitlines()]
        lost = [str(number) for number, line in enumerate(lines, 1) if line is None]
        if lost and len(lost) == len(lines):
            raise UserError(f"{self.metrics}: damaged: restore it, or train the run again")
        if lost:
            which = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if lost[5:] else "")
            warn(f"{self.metrics}: damaged lines are left out: {which}")
        else:
            self.warn_of_change(self.metrics)
        return [line for line in lines if line is not None]

    def load_predictions(self, task: str, split: str) -> list[dict[str, Any]]:
        """Return the records of a prediction file, whose keys depend on the task type.

        Raises ValueError if a line is not an object.
        """
        file = self.predictions_of(task, split)
        records = load_lines(file)
        self.warn_of_change(file)
        return records

    def load_report(self) -> RunReport:
        """Return report.json. Raises UserError if it is missing or damaged."""
        path = self.report
        if not path.is_file():
            raise UserError(f"{path} does not exist: a run writes it when its training ends")
        advice = "restore it, or train the run again"
        report = read_saved(path, RunReport, f": damaged: {{}}; {advice}")
        self.warn_of_change(path)
        return report

    def best_steps(self) -> dict[str, int]:
        """Return the best step of each task and of ``joint``; the run must have weights.

        Raises UserError if the file is damaged.
        """
        advice = "go on with --resume, which writes it anew"
        best = read_saved(self.best, BestSteps, f" is damaged: {advice} ({{}})")
        self.warn_of_change(self.best)
        return best.root


def step_of(checkpoint: Path) -> int:
    """Return the step in the name of a checkpoint."""
    return int(checkpoint.name.removeprefix("step-").rstrip("+"))


def state_of(checkpoint: Path) -> Path:
    """Return the file of a checkpoint with all values that are not tensors, and the file names."""
    return checkpoint / "state.json"


def tensors_of(checkpoint: Path, part: str) -> Path:
    """Return the file of a checkpoint with the tensors of one part of the run."""
    return checkpoint / f"{part}.safetensors"


def open_run(run_dir: str | os.PathLike[str]) -> RunDirectory:
    """Return a run's directory at the start of a command; finish an overwrite that was killed."""
    finish_replacing(Path(run_dir))
    return RunDirectory(Path(run_dir))


def check_not_replaced(run: RunDirectory) -> None:
    """Raise UserError if another process trains the run, or another one in its place, from new."""
    if run.holds_run and not run.best.is_file() and (name := holder(run.lock)):
        message = "another process replaces the run (--overwrite) or has just begun it"
        raise UserError(f"{run.path}: {message} ({name}): wait until it has evaluated")


def load_saved_config(
    run_dir: str | os.PathLike[str], overrides: list[str] | None = None
) -> Config:
    """Return the resolved config of a run. Raises UserError if there is no run."""
    return open_run(run_dir).load_config(overrides)


def load_run_config(run_dir: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """Return the resolved config of a run that has weights.

    Raises UserError if there is no run, or it has no evaluated weights yet.
    """
    run = open_run(run_dir)
    if run.holds_run and not run.best.is_file():
        if run.finished and run.load_report().probe:
            message = f"heads of a probe grid keep no weights: train {run.config}"
            raise UserError(f"{run.path}: {message} with output_dir=DIR")
        check_not_replaced(run)
        raise UserError(f"{run.path}: the run has no evaluated weights yet: go on with --resume")
    finish_replacing(run.encoder)
    if run.holds_run and not run.encoder.is_dir():
        raise UserError(
            f"{run.path}: the run's weights were removed, as `ablate` does without "
            f"--keep-weights: train {run.config} again, with output_dir=DIR"
        )
    return run.load_config(overrides)
