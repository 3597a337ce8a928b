"""Notes about runs: caveats, machines, and how the runs of a paper's table were trained."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from multitask.config.yaml_merge import load_tree
from multitask.reporting.sheet import PaperCell, PaperTable, Training, TrainingTime
from multitask.reporting.verdicts import trained_rows
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport

# keys of report.json that must be equal in all runs; older reports lack some
MACHINE = ("device", "processes", "threads")


def training_times(
    groups: Sequence[Sequence[RunReport]], baseline: int
) -> list[TrainingTime | None]:
    """Return each group's ``epoch_seconds`` and their ``ratio`` to the group ``baseline``.

    ``groups`` are the reports of each group's runs. Seconds are the median over seeds of the
    training steps of an epoch, without evaluation and start-up. A group is None if a run did not
    record them; all are None if the runs are from several machines.
    """
    if several_machines([report for group in groups for report in group]):
        return [None for _ in groups]
    seconds = [median_of([report.epoch_seconds for report in group]) for group in groups]
    base = seconds[baseline]
    return [
        None if each is None else {"epoch_seconds": each, "ratio": each / base if base else None}
        for each in seconds
    ]


def several_machines(reports: Sequence[RunReport]) -> str | None:
    """Tell in a note how the machines of the runs differ; None if they do not."""
    values = {key: [getattr(report, key) for report in reports] for key in MACHINE}
    recorded = {key: [value for value in of_key if value] for key, of_key in values.items()}
    differing = [
        f"{key} {', '.join(map(str, dict.fromkeys(values)))}"
        for key, values in recorded.items()
        if len(set(values)) > 1
    ]
    if not differing:
        return None
    return f"Training times do not compare, the runs differ in {'; '.join(differing)}."


def median_of(values: Sequence[float | None]) -> float | None:
    """Return the median; None if a value is missing."""
    present = [value for value in values if value is not None]
    return float(statistics.median(present)) if len(present) == len(values) else None


def notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
    """List the caveats, one line each; ``runs`` are directories with their report.json."""
    return [*run_notes(runs), *score_notes(runs)]


def run_notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
    """List the caveats about how the runs were trained."""
    notes = []
    probes = [run for run, report in runs if report.probe]
    if probes:
        notes.append(
            f"Rows composed of probes: {_listed(probes, len(runs))}. Each task's projection and "
            "head, and a pooling that has parameters, were trained alone on the frozen encoder. "
            "Rows with the same setting of a task have the same score for it, and the table says "
            "nothing about training tasks together."
        )
    if any(report.trial for _, report in runs):
        notes.append("Trials (`--try`): few rows of train and dev, so these scores are no results.")
    selected = [run for run, report in runs if report.selection_split == "dev"]
    if selected:
        notes.append(
            "Weights were selected on the dev rows that are compared here, which flatters scores "
            f"(`training.holdout` avoids it): {_listed(selected, len(runs))}."
        )
    revisions = list(dict.fromkeys(str(report.git_revision) for _, report in runs))
    if len(revisions) > 1:
        notes.append(f"The runs come from several commits: {', '.join(revisions)}.")
    if machines := several_machines([report for _, report in runs]):
        notes.append(machines)
    return notes


def score_notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
    """List the tasks whose metric is undefined."""
    notes = []
    for task in dict.fromkeys(task for _, report in runs for task in report.tasks):
        entries = [(run, report.tasks.get(task)) for run, report in runs]
        undefined = [run for run, entry in entries if entry and entry.score is None]
        if undefined:
            words = f"{task} has no score (constant or undefined predictions)"
            notes.append(f"{words}: {_listed(undefined, len(runs))}.")
    return notes


def _listed(runs: list[Path], total: int) -> str:
    """Name up to three runs."""
    if len(runs) == total > 1:
        return "every run"
    more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    return ", ".join(map(str, runs[:3])) + more


Way = Callable[[PaperCell], object]
ROWS = "training rows"


def _training(cell: PaperCell) -> Training | dict[str, object]:
    return cell.get("training") or {}


# what is named of ours, and how a cell says it
WAYS: dict[str, Way] = {
    "encoder": lambda cell: _training(cell).get("encoder"),
    ROWS: lambda cell: cell.get("train_rows"),
    "epochs": lambda cell: _training(cell).get("epochs"),
    "updates": lambda cell: cell.get("updates"),
    "seeds": lambda cell: len(cell["values"]),
}


def training_of(run: Path, report: RunReport, task: str) -> Training:
    """Return what a run was trained with; ``task`` is the one that is scored."""
    config = _saved_config(run)
    trained = _trained_tasks(report, task)
    held = bool(config.get("training", {}).get("holdout"))
    return {
        "encoder": config.get("encoder", {}).get("name"),
        "epochs": _epochs(config, trained),
        "all_rows": not (held or any(_is_cut(config, report, name) for name in trained)),
        "untrained": not (report.probe or report.tasks[task].turns.trained),
    }


def _epochs(config: Mapping[str, Any], trained: Sequence[str]) -> int | None:
    """Add the epochs of the stages that train some of the tasks.

    Returns None if they are unknown, or if `max_steps` may have ended one of these stages early.
    """
    training = config.get("training", {})
    every = config.get("stages") or [{}]
    stages = [entry for entry in every if set(trained) & set(entry.get("tasks") or trained)]
    epochs = [entry.get("epochs") or training.get("epochs") for entry in stages]
    bounded = any(entry.get("max_steps") for entry in (training, *stages))
    return None if bounded or not epochs or None in epochs else sum(epochs)


def _is_cut(config: Mapping[str, Any], report: RunReport, task: str) -> bool:
    """Return True if `max_rows` or `dev_share` took training rows away from a task.

    A `max_rows` larger than the rows there are takes none away. Where a task trains on the rows or
    texts of others, the keys of those count too.
    """
    tasks = config.get("tasks", {})
    data = tasks.get(task, {}).get("data") or {}
    for name in (task, data.get("same_rows_as"), *(data.get("texts_of") or [])):
        entry = tasks.get(name, {})
        train = report.tasks[name].data.get("train") if name in report.tasks else None
        most = entry.get("max_rows")
        if most and (train is None or train.rows >= most):
            return True
        if (entry.get("data") or {}).get("dev_share"):
            return True
    return False


def train_rows(report: RunReport, task: str) -> int | None:
    """Count the training rows behind a task's score.

    For a task that is only scored, these are the rows of the tasks that were trained.
    """
    splits = [report.tasks[name].data.get("train") for name in _trained_tasks(report, task)]
    return sum(split.rows for split in splits if split) if any(splits) else None


def rows_trained_for(run: Path, reports: Sequence[RunReport], task: str) -> int | None:
    """Count the rows of all steps behind a task's score, the mean over seeds.

    None if it is unknown, and for a probe, which trains its heads apart.
    """
    if reports[0].probe:
        return None
    of_tasks = _trained_tasks(reports[0], task)
    parts = [
        report.with_tasks({name: report.tasks[name] for name in of_tasks}) for report in reports
    ]
    return trained_rows({"tasks": {}} | _saved_config(run), parts)


def _saved_config(run: Path) -> dict[str, Any]:
    file = RunDirectory(run).config
    return load_tree(file).value if file.is_file() else {}


def _trained_tasks(report: RunReport, task: str) -> list[str]:
    if report.tasks[task].turns.trained:
        return [task]
    return [name for name, entry in report.tasks.items() if entry.turns.trained] or [task]


def setting_notes(table: PaperTable) -> list[str]:
    """Name encoder, rows, epochs, updates and seeds of ours, and warn where the paper has others.

    Tables of older versions do not say all of it.
    """

    shown = {name: _by_column(table, way) for name, way in WAYS.items()}
    named = [f"{name} {values}" for name, values in shown.items() if values]
    notes = [f"Our runs: {'; '.join(named)}."] if named else []
    if others := _unlike(table):
        notes.append(f"Warning: the paper has another setting than ours: {'; '.join(others)}.")
    return notes


def _unlike(table: PaperTable) -> list[str]:
    """List the parts of the paper's setting that some run of ours does not have."""
    theirs: Mapping[str, object] = table.get("paper") or {}
    others = []
    for name, way in WAYS.items():
        want = theirs.get("rows" if name == ROWS else name)
        if want is None:
            continue
        if want == "all":  # that is, nothing takes some away: see `Training`
            have: set[object] = {
                "all" if _training(cell).get("all_rows", True) else "cut" for cell in _cells(table)
            }
        else:
            have = {value for cell in _cells(table) if (value := way(cell)) is not None}
        if have - {want}:
            others.append(f"{name} {_number(want)}")
    return others


def _cells(table: PaperTable) -> list[PaperCell]:
    """List the cells with runs of ours."""
    return [cell for row in table["rows"] for cell in row["cells"] if cell and cell["values"]]


def _by_column(table: PaperTable, way: Way) -> str:
    """Write a value once, or by the title of a task's first column if tasks differ."""
    shown: dict[tuple[str, str | None], tuple[str, str]] = {}
    for place, column in enumerate(table["columns"]):
        cells = [cell for row in table["rows"] if (cell := row["cells"][place]) and cell["values"]]
        values = [value for cell in cells if (value := way(cell)) is not None]
        if values:  # a task's second metric is of the same runs
            of_task = (column["task"], column["cells"])
            shown.setdefault(of_task, (column["title"], _distinct(values)))
    if len({text for _, text in shown.values()}) == 1:
        return next(iter(shown.values()))[1]
    return ", ".join(f"{title} {text}" for title, text in shown.values())


def _distinct(values: Sequence[object]) -> str:
    distinct = list(dict.fromkeys(values))
    if len(distinct) <= 2:
        return " or ".join(map(_number, distinct))
    numbers = [value for value in distinct if isinstance(value, int | float)]
    if numbers:
        return f"{_number(min(numbers))} to {_number(max(numbers))}"
    return ", ".join(map(_number, distinct))


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
