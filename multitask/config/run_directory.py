"""The run directory before training: never harm what is there, resume only the same config."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multitask.config import Config, load_config
from multitask.config.in_words import as_written
from multitask.utils.errors import UserError
from multitask.utils.files import discard, hold, remove_scraps, write_text

JOINT = "joint"


MARKER = "run.json"


def check_directory(run_dir: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise UserError when writing a run to ``run_dir`` would harm what is there."""
    if not run_dir.exists():
        return
    if not run_dir.is_dir():
        raise UserError(f"{run_dir} is a file: choose another output_dir=DIR")
    names = {path.name for path in run_dir.iterdir()}
    if names and MARKER not in names:
        raise UserError(f"{run_dir} is not empty and holds no run: choose another output_dir=DIR")
    # a run that was killed before its first step may simply be started again
    if names & {"metrics.jsonl", "report.json"} and not resume and not overwrite:
        raise UserError(
            f"{run_dir} holds a run already: go on with --resume, replace it with --overwrite, or "
            "choose another output_dir=DIR"
        )
    if names and overwrite and run_dir.resolve() == Path.cwd():
        raise UserError(f"{run_dir} is where you are, so it is not replaced: start from elsewhere")


@contextlib.contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Make the run directory and hold it for the block, as far as processes of this host go.

    Raises UserError while another process trains there.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with hold(run_dir) as ours:
        if not ours:
            message = "another process trains there: wait for it, or choose another output_dir=DIR"
            raise UserError(f"{run_dir}: {message}")
        yield


def check_no_run(directory: Path) -> None:
    """Raise UserError where a directory for other files is a file or a run."""
    if directory.is_file():
        raise UserError(f"{directory} is a file: choose another --output DIR")
    if (directory / "config.yaml").exists():
        raise UserError(f"{directory} holds a run: choose another --output DIR")


def check_encoder(source: str, task: str | None, overrides: Sequence[str]) -> None:
    """Raise UserError where ``source``, no run, is no encoder, or what only a run has is asked."""
    if task is not None or overrides:
        option = "--task" if task is not None else overrides[0]
        raise UserError(f"{source}: no run there (config.yaml is missing), so {option} has no use")
    place = Path(source)
    if place.is_dir() and not (place / "config.json").is_file():
        raise UserError(f"{source}: neither a run (config.yaml) nor an encoder (config.json)")


def check_distinct(run_dirs: Sequence[Path]) -> None:
    """Raise UserError where one run is given twice, be it under another name."""
    seen = set()
    for run in run_dirs:
        if run.resolve() in seen:
            raise UserError(f"{run}: the same run is given twice: leave one out")
        seen.add(run.resolve())


def start_directory(config: Config, *, resume: bool, overwrite: bool) -> Path:
    """Make the run directory and save the resolved config in it.

    Raises UserError when the run to resume was started with another config.
    """
    run_dir = Path(config.output_dir)
    if resume and (run_dir / "config.yaml").is_file():
        differing = config_differences(config, run_dir)
        if differing:
            raise UserError(
                f"{run_dir}: the run was started with another config: {differing}; resume with "
                "the same values, or choose another output_dir=DIR"
            )
    if overwrite and run_dir.is_dir():
        discard(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    remove_scraps(run_dir, "**/.*.tmp")
    remove_scraps(run_dir.parent)
    write_text(run_dir / MARKER, '{"format": 1}\n')
    if not (resume and (run_dir / "config.yaml").is_file()):  # else when the resume succeeds
        save_config(config)
    return run_dir


def save_config(config: Config) -> None:
    """Write the resolved config into the run directory."""
    write_text(Path(config.output_dir) / "config.yaml", config.dump())


def config_differences(config: Config, run_dir: Path) -> str:
    """The keys in which a run's saved config is another one, such as ``seed (1 -> 2)``; or ''."""
    saved = load_config(run_dir / "config.yaml")
    before, now = flat(saved.resolved()), flat(config.resolved())
    differing = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    differing = [key for key in differing if key not in ("output_dir", "data_dir")]  # may move
    # labels that the config leaves to the data stand in the saved one as they were found
    inferred = tuple(
        f"tasks.{name}.data.labels." for name, t in config.tasks.items() if t.data.labels is None
    )
    differing = [key for key in differing if not key.startswith(inferred)]
    changes = [(k, as_written(before.get(k)), as_written(now.get(k))) for k in differing[:5]]
    shown = ", ".join(f"{key} ({one} -> {other})" for key, one, other in changes)
    return shown + (f" and {len(differing) - 5} more" if len(differing) > 5 else "")


def flat(values: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings as one, by ``key.path``."""
    if isinstance(values, dict) and values:
        parts = [flat(item, f"{path}.{key}" if path else str(key)) for key, item in values.items()]
        return {key: item for part in parts for key, item in part.items()}
    return {path: values}


def load_report(run_dir: Path) -> dict[str, Any]:
    """The run's report.json. Raises UserError if the run has none (yet), or a damaged one."""
    path = run_dir / "report.json"
    if not path.is_file():
        raise UserError(f"{path} does not exist: a run writes it when its training ends")
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or not isinstance(report.get("tasks"), dict):
            raise ValueError("it has no tasks")
        missing = [name for name in ("seed", "selection_split") if name not in report]
        for task, entry in report["tasks"].items():
            own = ("label_type", "metric", "dev")
            known = entry if isinstance(entry, dict) else {}
            missing += [f"tasks.{task}.{name}" for name in own if name not in known]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
    except ValueError as error:
        raise UserError(f"{path}: damaged: {error}; restore it, or train the run again") from error
    return report


def load_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file. Raises ValueError for anything else."""
    with path.open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    if not all(isinstance(line, dict) for line in found):
        raise ValueError("a line is no object")
    return found


def stage_begins(events: Iterable[dict[str, Any]]) -> list[tuple[int, str]]:
    """Where a run's stages begin, after the first: the last step before each, and its name."""
    return [(event["step"], event["stage"]) for event in events if event["event"] == "stage"]


def best_steps(run_dir: Path) -> dict[str, int]:
    """The best step of each task and of ``joint`` in a run that has weights."""
    file = run_dir / "best.json"
    try:
        found: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = {}
    known = isinstance(found, dict) and "joint" in found
    if not known or {type(step) for step in found.values()} != {int}:
        raise UserError(f"{file} is damaged: go on with --resume, which writes it anew")
    return found


def weights_file(run_dir: Path, step: int) -> Path:
    """Where the weights of a best step are kept."""
    return run_dir / "weights" / f"step-{step:08d}.safetensors"


def selected_steps(
    best: Mapping[str, int], tasks: Mapping[str, str], select: str
) -> dict[str, int]:
    """The step whose weights serve each task: the joint best, its own, or the task ``select``'s.

    ``tasks`` names for each task the one whose evaluations select, itself if it trains.
    """
    return {task: best[own if select == "per_task" else select] for task, own in tasks.items()}


def load_saved_config(
    run_dir: str | os.PathLike[str], overrides: list[str] | None = None
) -> Config:
    """The resolved config of a run, with weights or without. Raises UserError: no run there."""
    return load_config(_saved_config(Path(run_dir)), overrides)


def load_run_config(run_dir: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """The resolved config of a run that has weights.

    Raises UserError: no run there, or one without evaluated weights yet.
    """
    directory = Path(run_dir)
    file = _saved_config(directory)
    if not (directory / "best.json").is_file():
        report = directory / "report.json"
        if report.is_file() and '"probe": true' in report.read_text(encoding="utf-8"):
            message = f"heads of a probe grid keep no weights: train {file} with output_dir=DIR"
            raise UserError(f"{directory}: {message}")
        raise UserError(f"{directory}: the run has no evaluated weights yet: go on with --resume")
    if not (directory / "encoder").is_dir():
        raise UserError(
            f"{directory}: the run's weights were removed, as `ablate` does without "
            f"--keep-weights: train {file} again, with output_dir=DIR"
        )
    return load_config(file, overrides)


def _saved_config(directory: Path) -> Path:
    file = directory / "config.yaml"
    if not file.is_file():
        raise UserError(f"{directory}: no run there (config.yaml is missing)")
    return file
