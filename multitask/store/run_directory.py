"""The files of a run: their paths, and how to read and write them."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multitask.config import Config, load_config
from multitask.store.checkpoint import step_of
from multitask.store.files import (
    OWNER_LOCK,
    digest_lines,
    file_digest,
    finish_replacing,
    json_text,
    open_to_append,
    read_digests,
    text_digest,
    write_text,
)
from multitask.store.run_log import Event, load_lines, parse_event
from multitask.store.saved import JOINT, Baselines, RunReport, read_saved
from multitask.utils.errors import UserError, check_regular, warn

NUMBERED = re.compile(r"step-(\d{8}|[1-9]\d{8,})")  # weights and checkpoints of a step


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
    # the SHA-256 of the files that are complete: see `seal`
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
        files = {
            file: NUMBERED.fullmatch(file.stem) for file in self.weights.glob("step-*.safetensors")
        }
        return {int(name[1]): file for file, name in files.items() if name}

    def checkpoint(self, step: int) -> Path:
        """Return the directory of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:08d}"

    def saved_checkpoints(self) -> list[Path]:
        """Return the checkpoints, the oldest first. Some may be damaged.

        Copies under other names are left out.
        """
        named = [path for path in self.checkpoints.glob("step-*") if NUMBERED.fullmatch(path.name)]
        return sorted(named, key=step_of)

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
        """Say that there is no run."""
        return f"{self.path}: no run there (config.yaml is missing)"

    @property
    def finished(self) -> bool:
        return self.report.is_file()

    @property
    def identity(self) -> str | None:
        """A checksum of what the run was started with; None without ``run.json``."""
        return file_digest(self.marker) if self.marker.is_file() else None

    # --- writing ---

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
        """Write a file of the run, complete or not at all. Make its directory if needed.

        Predictions of a finished run get another valid checksum before: a kill may leave the older
        version.
        """
        self.make(file.parent)
        if self.predictions in file.parents and self.finished:
            with open_to_append(self.checksums) as opened:
                opened.write(digest_lines({self._name(file): text_digest(text)}).encode())
        write_text(file, text)
        return file

    def write_json(self, file: Path, value: object) -> Path:
        """Write a file of the run as standard JSON, complete or not at all."""
        return self.write_text(file, json_text(value))

    # --- checksums ---

    def seal(self, *, finished: bool) -> None:
        """Write the checksums of the files that a phase of the run has completed.

        These are the config and the baselines, and in a finished run all files that are read again.
        """
        files = [self.config, self.baselines]
        if finished:
            predictions = (file for file in sorted(self.predictions.rglob("*")) if file.is_file())
            files += [self.best, self.metrics, self.report, *predictions]
        digests = {self._name(file): file_digest(file) for file in files if file.is_file()}
        write_text(self.checksums, digest_lines(digests))

    def _name(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def is_intact(self, file: Path) -> bool:
        """Return True if a file is there, with a checksum that the run saved."""
        valid = read_digests(self.checksums).get(self._name(file), [])
        return file.is_file() and file_digest(file) in valid

    def is_changed(self, file: Path) -> bool:
        """Return True if a file was changed after the run has written it."""
        return self._name(file) in read_digests(self.checksums) and not self.is_intact(file)

    def warn_of_change(self, file: Path) -> None:
        """Warn if a file was changed after the run wrote it."""
        if self.is_changed(file):
            warn(f"{file} is damaged or was changed: it is not as the run has written it")

    # --- reading ---

    def load_config(self, overrides: list[str] | None = None) -> Config:
        """Return the resolved config. Raises UserError if there is no run."""
        if not self.holds_run:
            raise UserError(self.absent)
        config = load_config(self.config, overrides)
        self.warn_of_change(self.config)
        return config

    def load_baselines(self) -> dict[str, Baselines] | None:
        """Return the baselines; None if they are missing or, with a warning, if damaged."""
        with suppress(FileNotFoundError, UserError):
            baselines = read_saved(self.baselines, dict[str, Baselines])
            if not self.is_changed(self.baselines):
                return baselines
        if self.baselines.exists():
            warn(f"{self.baselines} is damaged: the baselines are measured again")
        return None

    def load_tracker_ids(self) -> dict[str, str]:
        """Return the id that each tracker knows the run by; none if missing or damaged."""
        with suppress(FileNotFoundError, UserError):
            return read_saved(self.tracker_ids, dict[str, str])
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
        if not self.finished:
            raise UserError(f"{self.report} does not exist: a run writes it when its training ends")
        report = read_saved(self.report, RunReport, "restore it, or train the run again")
        self.warn_of_change(self.report)
        return report

    def best_steps(self) -> dict[str, int]:
        """Return the best step of each task and of ``joint``; the run must have weights.

        Raises UserError if the file is damaged.
        """
        advice = "go on with --resume, which writes it anew"
        best = read_saved(self.best, dict[str, int], advice)
        if JOINT not in best:
            raise UserError(f"{self.best}: damaged: it has no {JOINT}; {advice}")
        self.warn_of_change(self.best)
        return best


def open_run(run_dir: str | os.PathLike[str]) -> RunDirectory:
    """Return a run's directory at the start of a command; finish an overwrite that was killed."""
    finish_replacing(Path(run_dir))
    return RunDirectory(Path(run_dir))


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
        raise UserError(f"{run.path}: the run has no evaluated weights yet: go on with --resume")
    finish_replacing(run.encoder)
    if run.holds_run and not run.encoder.is_dir():
        raise UserError(
            f"{run.path}: the run's weights were removed, as `ablate` does without "
            f"--keep-weights: train {run.config} again, with output_dir=DIR"
        )
    return run.load_config(overrides)
