# Tested by tests/commands/test_predict.py
"""Predict with trained runs: the rows of a run's splits, or new texts."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from multitask.config import Config
from multitask.config.between_tasks import chosen_task
from multitask.config.registry import head_type
from multitask.store.files import replacing
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.tasks.base import Record
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, no_file, warn
from multitask.utils.limits import PREDICTION_BYTES, read_bounded

TRIAL = "a trial (--try): its files have few of the test rows: do not hand them in"


def predict_splits(
    run_dir: Path, overrides: Sequence[str] = (), *, again: bool = False
) -> Iterator[str]:
    """Write the prediction files of all splits, and yield a line for each.

    Without ``again`` intact files stay, unless other values or weights may give other predictions.
    """
    config, run = load_run_config(run_dir, list(overrides)), RunDirectory(run_dir)

    from multitask.inference.load_run import TrainedRun
    from multitask.inference.write_predictions import prediction_files, write_predictions

    if config.trial:
        warn(TRIAL)
    again = again or bool(overrides) or not run.finished
    trained = None
    for task in config.tasks:
        for split in config.tasks[task].data.scored:
            files = prediction_files(run, task, split, config.tasks[task])
            if not again and all(map(run.is_intact, files)):
                yield from (f"intact: {file}" for file in files)
                continue
            trained = trained or TrainedRun(run_dir, config)
            loaded = trained.load_split(task, split)
            scores = trained.score_split(task, loaded)
            trained.check_unchanged()
            written = write_predictions(
                run,
                task,
                split,
                rows=loaded.rows,
                scores=scores,
                reader=trained.readers[task],
                entry=config.tasks[task],
            )
            yield from (f"written: {file}" for file in written)
    if trained is None:
        yield "nothing to do: --again makes the files anew; --text and --file take new texts"


def zip_course_files(
    run_dir: Path, overrides: Sequence[str], file: Path, *, again: bool = False
) -> Iterator[str]:
    """Write a run's course files to an archive, and yield a line for each.

    They are under ``predictions/`` and the task's ``course_file.folder``. A file that is missing is
    predicted first. Raises UserError for a trial, and if a file lacks an id of its split, repeats
    one or has another one.
    """
    config, run = load_run_config(run_dir, list(overrides)), RunDirectory(run_dir)
    if config.trial:
        raise UserError(f"{run_dir}: {TRIAL}")
    entries = config.tasks.items()
    tasks = {task: entry.course_file for task, entry in entries if entry.course_file is not None}
    if not tasks:
        raise UserError(f"{run_dir}: no task has a `course_file`: there is nothing to hand in")
    if file.exists() and not zipfile.is_zipfile(file):
        raise UserError(f"{file} exists and is no archive: choose another --zip")
    yield from predict_splits(run_dir, overrides, again=again)

    from multitask.data.classes import label_readers
    from multitask.data.load_rows import load_rows
    from multitask.data.readers.course_files import predictions_of, read_course_file

    members: dict[str, bytes] = {}
    for task, course in tasks.items():
        reader = label_readers(config, [task])[task]
        for split in config.tasks[task].data.scored:
            made = run.course_file(course.name, split)
            raw = read_bounded(made, PREDICTION_BYTES)
            rows = load_rows(config, task, split, reader)
            predictions_of(read_course_file(raw, str(made)), rows, reader)
            members[str(PurePosixPath("predictions", course.folder, made.name))] = raw
    with replacing(file) as scratch, zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members.items():
            archive.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)
    yield from (f"packed: {name}" for name in members)
    yield f"written: {file}"


def average_runs(
    runs: Sequence[Path], overrides: Sequence[str] = (), output: Path | None = None
) -> Iterator[str]:
    """Average the predictions of several runs over the tasks they share, and yield lines.

    ``output`` is the directory of the averaged predictions and ensemble.json.
    """
    from multitask.inference.ensemble import ensemble, write_ensemble
    from multitask.reporting.gains import gains_table
    from multitask.store.outputs import check_output

    if output is not None:
        check_output(output)
    averaged = ensemble(runs, list(overrides))
    if RunDirectory(runs[0]).load_report().trial:  # all have the same rows
        warn(TRIAL)
    yield "\n".join([gains_table(averaged.gains), *averaged.gains["notes"]]) + "\n"
    if output is None:
        yield "--output DIR writes this as JSON, with the averaged predictions of dev and test"
    else:
        yield from (f"written: {file}" for file in write_ensemble(output, averaged))


def predict_texts(
    runs: Sequence[Path],
    overrides: Sequence[str],
    given: Path | tuple[str, ...],
    *,
    task: str | None = None,
) -> dict[str, tuple[Rows, list[Record], LabelReader]]:
    """Predict new texts: rows, predictions and label reader by task. Several runs are averaged.

    Args:
        runs: run directories.
        overrides: values of the runs' configs to change.
        given: a file, or the texts of one row.
        task: the task; default: the only one, or for the texts of one row all that take them.

    Raises:
        UserError: no such run, task or file, or the texts do not fit.
    """
    configs = [load_run_config(run, list(overrides)) for run in runs]
    several = task is None and len(configs[0].tasks) > 1
    if several and isinstance(given, tuple):
        tasks = _tasks_that_take(given, runs, configs)
    else:
        tasks = [chosen_task(runs[0], configs[0], task)]
    for run, config in zip(runs, configs, strict=True):
        for each in tasks:
            chosen_task(run, config, each)
    if isinstance(given, Path) and not given.is_file():
        raise UserError(no_file(given))

    from multitask.inference import ensemble
    from multitask.inference.load_run import TrainedRun

    return {
        each: ensemble.predict_texts(map(TrainedRun, runs, configs), each, given) for each in tasks
    }


def _tasks_that_take(
    texts: Sequence[str], runs: Sequence[Path], configs: Sequence[Config]
) -> list[str]:
    """Return the tasks of all runs that predict from so many texts. Raises UserError for none."""
    from multitask.data.inputs.base import input_of
    from multitask.tasks.base import RowLabels, WordLabels

    tasks = configs[0].tasks
    row = texts[0] if len(texts) == 1 else texts
    predicting = RowLabels if len(runs) > 1 else RowLabels | WordLabels
    fitting = [
        task
        for task, entry in tasks.items()
        if isinstance(head_type(entry.head.name), predicting)
        and input_of(entry).row_of(row)
        and all(task in config.tasks for config in configs)
    ]
    if not fitting:
        known = ", ".join(f"{task} ({input_of(entry).items})" for task, entry in tasks.items())
        raise UserError(f"{runs[0]}: no task takes {len(texts)} texts: {known}")
    return fitting
