"""Average the output of several finished runs, from saved predictions or from weights.

from multitask.inference.ensemble import ensemble

averaged = ensemble([Path("runs/a"), Path("runs/b")])
averaged.gains["tasks"]["sst"]["gain_over_mean"]
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from multitask.config import Config
from multitask.config.registry import task_type
from multitask.data.by_type import reading_of
from multitask.data.inputs.base import input_of
from multitask.data.load_rows import label_reader
from multitask.inference.load_run import TrainedRun
from multitask.inference.scoring import Scores
from multitask.inference.write_predictions import write_predictions
from multitask.reporting.gains import EnsembleGains, average, gains
from multitask.reporting.notes import notes
from multitask.reporting.read_runs import ScoredRows, check_same_rows, load_split
from multitask.store.files import entries, write_text
from multitask.store.outputs import has_keys
from multitask.store.prepare_run import check_distinct, check_no_run
from multitask.store.run_directory import RunDirectory, load_run_config, load_saved_config
from multitask.store.saved import RunReport, TaskReport
from multitask.tasks.base import NoLabels, Record, RowLabels, WordLabels
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import predicted_records
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

FACTS = "ensemble.json"
Output = dict[tuple[str, str], ScoredRows]  # by task and split
Run = tuple[Path, Config, RunReport]  # with its report.json


@dataclass
class Ensemble:
    """The averaged output of runs.

    Attributes:
        config: the first run's config.
        readers: the label reader of each task.
        output: the averaged predictions and scores by task and split.
        gains: the gain of averaging on dev; docs/comparing.md describes the keys.
    """

    config: Config
    readers: dict[str, LabelReader]
    output: Output
    gains: EnsembleGains


def ensemble(run_dirs: Sequence[Path], overrides: list[str] | None = None) -> Ensemble:
    """Average the outputs of finished runs over the tasks they share, on dev and test.

    Saved predictions are used if a run has them. With ``overrides``, or without saved predictions,
    the run's weights predict.

    Raises:
        UserError: a run given twice or not finished, no shared task, runs with different labels or
            rows of a task, or a run with neither saved predictions nor weights.
    """
    check_distinct(run_dirs)
    runs: list[Run] = []
    for run in run_dirs:
        config = load_saved_config(run, overrides)
        report = RunDirectory(run).load_report()
        runs.append((run, config, report.with_tasks(_entries(config, report))))
    tasks, remarks = _shared_tasks(runs)
    readers: dict[str, LabelReader] = {}
    splits = []
    scored = RunDirectory(run_dirs[0]).load_report().tasks
    dev_tasks = [task for task in tasks if task in scored]
    if not dev_tasks:
        raise UserError(f"{run_dirs[0]}: no task of all these runs has dev rows to compare them on")
    for task in tasks:
        readers[task] = check_same_labels(
            task, [(run, _saved_reader(c, task, report.tasks[task])) for run, c, report in runs]
        )
        if task in dev_tasks:
            splits.append((task, "dev"))
        lacking = [run for run, config, _ in runs if config.tasks[task].data.test is None]
        if not lacking:
            splits.append((task, "test"))
        elif len(lacking) < len(runs):
            remarks.append(f"{task}: only dev is predicted, for {lacking[0]} names no test data.")
    outputs = [_output(run, splits, overrides, readers) for run in runs]
    output: Output = {}
    for task, split in splits:
        first, *others = (of_run[task, split] for of_run in outputs)
        for other in others:
            check_same_rows(task, first, other, split)
        predictions, scores = average(
            first.task_type, [of_run[task, split].scores for of_run in outputs]
        )
        output[task, split] = replace(
            first, run=Path("ensemble"), predictions=predictions, scores=scores
        )
    dev = {
        task: (output[task, "dev"], [of_run[task, "dev"] for of_run in outputs])
        for task in dev_tasks
    }
    only = [t for t in dev_tasks if any(r.tasks[t].evaluate_only for _, _, r in runs)]
    gained: EnsembleGains = {
        "format": 1,
        **gains([str(run) for run in run_dirs], dev, evaluate_only=only),
        "notes": [*remarks, *notes([(run, report) for run, _, report in runs])],
    }
    return Ensemble(runs[0][1], readers, output, gained)


def check_output(directory: Path) -> None:
    """Raise UserError if the ensemble's files would overwrite something else."""
    check_no_run(directory)
    replaceable = has_keys(directory / FACTS, ("format", "notes"))
    if directory.is_dir() and entries(directory) and not replaceable:
        raise UserError(f"{directory} holds other files: choose another --output DIR")


def write_ensemble(directory: Path, averaged: Ensemble) -> list[Path]:
    """Write ensemble.json and prediction files like those of a run; return their paths."""
    check_output(directory)  # again: predicting takes a while
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / FACTS
    write_text(file, json.dumps(averaged.gains, indent=1, ensure_ascii=False) + "\n")
    written, run = [file], RunDirectory(directory)
    for (task, split), predicted in averaged.output.items():
        scores = Scores(predicted.predictions, predicted.scores, float("nan"))
        reader, entry = averaged.readers[task], averaged.config.tasks[task]
        written += write_predictions(
            run, task, split, rows=predicted.rows, scores=scores, reader=reader, entry=entry
        )
    return written


def predict_texts(
    runs: Iterable[TrainedRun], task: str, given: Path | tuple[str, ...]
) -> tuple[Rows, list[Record], LabelReader]:
    """Read the user's texts, average the runs' predictions for each, and return their reader.

    ``given`` is a file, or the texts of one row. ``runs`` may be a generator, so that only one run
    is in memory. Raises UserError for texts that do not fit the task, and
    for runs with different labels.
    """
    members: list[Scores] = []
    readers = []
    for trained in runs:
        rows = _rows_of(trained, task, given)
        members.append(trained.score(task, rows))
        readers.append((trained.directory, trained.readers[task]))
    reader = check_same_labels(task, readers)
    scores = members[0]
    if len(members) > 1:
        if not isinstance(reader.task_type, RowLabels):
            message = "predictions of words or of answers are not averaged: give one run"
            raise UserError(f"task {task}: {message}")
        averaged = average(reader.task_type, [member.scores for member in members])
        scores = Scores(*averaged, float("nan"))
    return rows, predicted_records(rows, reader, scores.predictions, scores.scores), reader


def _rows_of(trained: TrainedRun, task: str, given: Path | tuple[str, ...]) -> Rows:
    """Read rows from a file, or make one row of texts."""
    how = reading_of(trained.readers[task].task_type)
    if isinstance(given, Path):
        return how.rows_of_file(trained.config.tasks[task], given)
    texts = given[0] if len(given) == 1 else given
    return how.rows_of_texts([texts], input_of(trained.config.tasks[task]), "--text")


def check_same_labels(task: str, readers: Sequence[tuple[Path, LabelReader]]) -> LabelReader:
    """Return the first run's label reader. Raises UserError unless all read the same labels."""
    (first, reader), *others = readers
    for run, other in others:
        facts = zip(_facts(reader).items(), _facts(other).values(), strict=True)
        for (what, expected), value in facts:
            if expected != value:
                raise UserError(
                    f"{task}: {first} and {run} cannot be averaged: {what} {expected} against "
                    f"{value}; leave one of them out"
                )
    return reader


def _facts(reader: LabelReader) -> dict[str, str | float]:
    """Return what must be equal in two runs that are averaged."""
    return {
        "label type": reader.task_type.name,
        "classes": ", ".join(reader.names),
        "lowest label": reader.low,
        "highest label": reader.high,
    }


def _entries(config: Config, report: RunReport) -> dict[str, TaskReport]:
    """Return each task's entry of report.json; without dev rows, that of the owner of its head."""
    entries, owners = report.tasks, config.selecting_tasks()
    named = {task: entries.get(task) or entries.get(owners[task]) for task in owners}
    return {task: entry for task, entry in named.items() if entry is not None}


def _shared_tasks(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Return the tasks that every run has, in the order of the first, and remarks on the others."""
    types = {t: task_type(e.label_type) for _, _, r in runs for t, e in r.tasks.items()}
    every = [task for task, kind in types.items() if isinstance(kind, RowLabels)]
    shared = [task for task in every if all(task in report.tasks for _, _, report in runs)]
    if not shared:
        tasks = "; ".join(f"{run}: {', '.join(report.tasks)}" for run, _, report in runs)
        raise UserError(
            f"the runs have no task in common that can be averaged ({tasks}): leave some out"
        )
    left = [task for task in every if task not in shared]
    remarks = [f"Left out, as not every run has them: {', '.join(left)}."] if left else []
    silent = [task for task, kind in types.items() if isinstance(kind, NoLabels)]
    words = [task for task, kind in types.items() if isinstance(kind, WordLabels)]
    averaged = "predictions of words are not averaged"
    for excluded, why in ((silent, "they have no labels"), (words, averaged)):
        if excluded:
            remarks.append(f"Left out, as {why}: {', '.join(excluded)}.")
    return shared, remarks


def _saved_reader(config: Config, task: str, result: TaskReport) -> LabelReader:
    """Return a finished run's label reader without reading its training file."""
    kind = task_type(result.label_type)
    inferred = kind.described_by == "labels" and kind.default_labels is None
    if inferred and config.tasks[task].data.labels is None:
        names = tuple(result.classes or ())  # the values in the file
        return LabelReader(kind, {name: i for i, name in enumerate(names)}, names)
    return label_reader(config, task, kind)


def _output(
    run: Run,
    splits: Sequence[tuple[str, str]],
    overrides: list[str] | None,
    readers: Mapping[str, LabelReader],
) -> Output:
    """Return a run's output per (task, split), from saved predictions if there are any.

    Old runs saved numbers that are not clipped; they are clipped here.
    """
    directory, _, report = run
    output: Output = {}
    trained: TrainedRun | None = None
    for task, split in splits:
        result = report.tasks[task]
        file = RunDirectory(directory).predictions_of(task, split)
        if not overrides and file.is_file():
            saved = load_split(directory, task, split, result)
            clipped = readers[task].clipped
            output[task, split] = replace(
                saved, predictions=clipped(saved.predictions), scores=clipped(saved.scores)
            )
            continue
        kind = task_type(result.label_type)
        trained = trained or _with_weights(directory, overrides, file)
        made = trained.load_split(task, split)
        scores = trained.score_split(task, made)
        output[task, split] = ScoredRows(
            directory,
            made.rows,
            kind,
            result.metric,
            scores.predictions,
            scores.scores,
            reported=result.reported(kind.metrics),
        )
    return output


def _with_weights(directory: Path, overrides: list[str] | None, file: Path) -> TrainedRun:
    """Load the run, to predict what ``file`` does not contain."""
    try:
        return TrainedRun(directory, load_run_config(directory, overrides))
    except UserError as error:
        reason = f"{' '.join(overrides)} given" if overrides else f"{file} does not exist"
        raise UserError(f"{reason}, so the run's weights are needed: {error}") from error
