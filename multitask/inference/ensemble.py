"""Average the output of several finished runs, from saved predictions or from weights.

from multitask.inference.ensemble import ensemble

averaged = ensemble([Path("runs/a"), Path("runs/b")])
averaged.gains["tasks"]["sst"]["gain_over_mean"]
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from multitask.config import Config
from multitask.config.registry import task_type
from multitask.data.by_type import reading_of
from multitask.data.classes import label_reader
from multitask.data.inputs.base import input_of
from multitask.inference.load_run import TrainedRun
from multitask.inference.scoring import Scores
from multitask.inference.write_predictions import write_predictions
from multitask.reporting.gains import Gains, average, gains
from multitask.reporting.notes import notes
from multitask.reporting.read_runs import ScoredRows, check_same_rows, load_split
from multitask.store.files import write_text
from multitask.store.outputs import check_output
from multitask.store.prepare_run import check_distinct
from multitask.store.run_directory import RunDirectory, load_run_config, load_saved_config
from multitask.store.saved import RunReport
from multitask.tasks.base import Record, RowLabels
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
        gains: the gain of averaging on dev; docs/comparison-files.md describes the keys.
    """

    config: Config
    readers: dict[str, LabelReader]
    output: Output
    gains: Gains


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
        config, report = load_saved_config(run, overrides), RunDirectory(run).load_report()
        # a task without dev rows has the entry of the owner of its head
        every = {
            task: report.tasks.get(task) or report.tasks.get(owner)
            for task, owner in config.selecting_tasks().items()
        }
        tasks = {task: entry for task, entry in every.items() if entry is not None}
        runs.append((run, config, report.with_tasks(tasks)))
    first, first_config, _ = runs[0]
    shared, remarks = _shared_tasks(runs)
    reported = RunDirectory(first).load_report().tasks
    dev_tasks = [task for task in shared if task in reported]
    if not dev_tasks:
        raise UserError(f"{first}: no task of all these runs has dev rows to compare them on")
    readers: dict[str, LabelReader] = {}
    splits = []
    for task in shared:
        types = [(run, c, task_type(report.tasks[task].label_type)) for run, c, report in runs]
        read = [(run, label_reader(config, task, kind)) for run, config, kind in types]
        readers[task] = check_same_labels(task, read)
        if task in dev_tasks:
            splits.append((task, "dev"))
        lacking = [run for run, config, _ in runs if config.tasks[task].data.test is None]
        if not lacking:
            splits.append((task, "test"))
        elif len(lacking) < len(runs):
            remarks.append(f"{task}: only dev is predicted, for {lacking[0]} names no test data.")
    outputs = [_output(run, splits, overrides) for run in runs]
    output: Output = {}
    for task, split in splits:
        member, *others = (of_run[task, split] for of_run in outputs)
        for other in others:
            check_same_rows(task, member, other, split)
        member_scores = [of_run[task, split].scores for of_run in outputs]
        predictions, scores = average(member.task_type, member_scores)
        output[task, split] = replace(
            member, run=Path("ensemble"), predictions=predictions, scores=scores
        )
    dev = {t: (output[t, "dev"], [of_run[t, "dev"] for of_run in outputs]) for t in dev_tasks}
    only = [t for t in dev_tasks if any(r.tasks[t].evaluate_only for _, _, r in runs)]
    remarks += notes([(run, report) for run, _, report in runs])
    gained = gains([str(run) for run in run_dirs], dev, evaluate_only=only, notes=remarks)
    return Ensemble(first_config, readers, output, gained)


def _shared_tasks(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Return the tasks that can be averaged, in the order of the first run, and a remark on others.

    Raises UserError if there are none.
    """
    kinds = {t: task_type(e.label_type) for _, _, r in runs for t, e in r.tasks.items()}
    shared = [
        task
        for task, kind in kinds.items()
        if isinstance(kind, RowLabels) and all(task in report.tasks for _, _, report in runs)
    ]
    if not shared:
        shown = "; ".join(f"{run}: {', '.join(report.tasks)}" for run, _, report in runs)
        raise UserError(
            f"the runs have no task in common that can be averaged ({shown}): leave some out"
        )
    left = [task for task in kinds if task not in shared]
    why = "as not every run has them or they have no average"
    return shared, [f"Left out, {why}: {', '.join(left)}."] if left else []


def _output(run: Run, splits: Sequence[tuple[str, str]], overrides: list[str] | None) -> Output:
    """Return a run's output per (task, split), from saved predictions if there are any."""
    directory, _, report = run
    output: Output = {}
    trained: TrainedRun | None = None
    for task, split in splits:
        result = report.tasks[task]
        file = RunDirectory(directory).predictions_of(task, split)
        if not overrides and file.is_file():
            output[task, split] = load_split(directory, task, split, result)
            continue
        try:
            trained = trained or TrainedRun(directory, load_run_config(directory, overrides))
        except UserError as error:
            reason = f"{' '.join(overrides)} given" if overrides else f"{file} does not exist"
            raise UserError(f"{reason}, so the run's weights are needed: {error}") from error
        made, kind = trained.load_split(task, split), task_type(result.label_type)
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
        entry, how = trained.config.tasks[task], reading_of(trained.readers[task].task_type)
        if isinstance(given, Path):
            rows = how.rows_of_file(entry, given)
        else:
            texts = [given[0] if len(given) == 1 else given]
            rows = how.rows_of_texts(texts, input_of(entry), "--text")
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


def check_same_labels(task: str, readers: Sequence[tuple[Path, LabelReader]]) -> LabelReader:
    """Return the first run's label reader. Raises UserError unless all read the same labels."""

    def labels(reader: LabelReader) -> str:
        names = ", ".join(reader.names) or f"{reader.low} to {reader.high}"
        return f"{reader.task_type.name} ({names})"

    (first, reader), *others = readers
    for run, other in others:
        if labels(other) != labels(reader):
            raise UserError(
                f"{task}: {first} and {run} cannot be averaged: the labels are {labels(reader)} "
                f"against {labels(other)}; leave one of them out"
            )
    return reader
