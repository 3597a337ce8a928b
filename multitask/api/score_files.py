# Tested by tests/commands/test_score.py
"""Score prediction files of any program on the labelled rows of a config, and rank groups."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from multitask.api.read_source import check_list, read_source
from multitask.config import Config
from multitask.config.yaml_merge import Source
from multitask.data.by_type import reading_of
from multitask.data.classes import label_readers
from multitask.data.load_rows import split_rows
from multitask.data.readers import course_files
from multitask.data.readers.columns import read_columns
from multitask.data.readers.submissions import read_submitted, submissions
from multitask.reporting import file_scores
from multitask.reporting import ranking as rankings
from multitask.reporting.read_runs import ScoredRows, load_split
from multitask.reporting.table_formats import Printed, text_page
from multitask.store.files import write_json
from multitask.store.outputs import check_output
from multitask.store.run_directory import RunDirectory, open_run
from multitask.tasks.base import Columns
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.metrics import compute
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, no_file, one_line
from multitask.utils.limits import PREDICTION_BYTES, read_bounded
from multitask.utils.paths import expand_home

Name = str | os.PathLike[str]
# files in a list, some as `TASK=FILE`, or by task
Files = Iterable[Name] | Mapping[str, Name]


@dataclass(frozen=True, repr=False)
class Scored(Printed):
    """The scores of prediction files. Print it to see the table.

    Attributes:
        scores: value, interval, trivial baseline and differences, by task and metric.
        overall: the mean over several tasks, and the CS224N score, by name.
    """

    scores: file_scores.FileScores
    overall: dict[str, float]


@dataclass(frozen=True, repr=False)
class Groups(Printed):
    """The ranking of groups. Print it to see the table.

    Attributes:
        ranking: scores, intervals and errors of each group, as in ranking.json.
        files: the files that were written.
    """

    ranking: rankings.Ranking
    files: list[Path]


@dataclass(frozen=True)
class Gold:
    """The labelled rows of a task.

    Attributes:
        task: its name.
        rows: the rows with their labels.
        reader: the task's label reader.
        others: ids of the split's file that are not among the rows, such as those without a label.
        metric: the metric of the task.
        guess: the trivial baseline; None without training rows.
    """

    task: str
    rows: Rows
    reader: LabelReader
    others: Sequence[str]
    metric: str
    guess: Columns | None

    def read(self, place: Path, split: str) -> ScoredRows:
        """Read the predictions of a file or of a run directory.

        Raises UserError if they are missing or damaged, or of other rows.
        """
        if place.is_dir():
            return self.of_run(place, split)
        if not place.is_file():
            raise UserError(no_file(place))
        return self.scored(read_bounded(place, PREDICTION_BYTES), str(place))

    def scored(self, raw: bytes, source: str) -> ScoredRows:
        """Read a file's predictions of these rows; ``source`` is its name in messages.

        Raises UserError, with file and row, for damage.
        """
        kind, rows = self.reader.task_type, self.rows
        file = course_files.read_course_file(raw, source)
        predictions = course_files.predictions_of(file, rows, self.reader, self.others)
        shape = kind.trivial(rows, rows, self.reader)[1].shape  # metrics ask for the classes
        return ScoredRows(
            Path(source),
            rows,
            kind,
            self.metric,
            predictions,
            np.full(shape, np.nan),
            reported=self.reader.metrics,
        )

    def of_run(self, run: Path, split: str) -> ScoredRows:
        """Read a run's predictions of these rows, in their order.

        Raises UserError if they are not there, or if the run has other rows or labels.
        """
        entry = RunDirectory(run).load_report().tasks[self.task]
        saved, kind = load_split(run, self.task, split, entry), self.reader.task_type
        source = saved.rows.source
        if saved.task_type.name != kind.name:
            what = f"{saved.task_type.predicts}, not {kind.predicts}"
            raise UserError(f"{source}: the run's {self.task} predicts {what}")
        lines = [*range(1, len(saved.rows) + 1)]
        saved_file = course_files.CourseFile(source, saved.rows.ids, [], lines)
        at = course_files.placed(saved_file, self.rows, self.others)
        labels = saved.rows.labels
        if labels is not None and not np.array_equal(labels[at], self.rows.gold):
            raise UserError(f"{source}: the run was scored with other labels than the config's")
        scores = np.full(saved.scores.shape, np.nan)
        return replace(
            saved,
            rows=self.rows,
            metric=self.metric,
            predictions=saved.predictions[at],
            scores=scores[at],
            saved_labels=None,
            reported=self.reader.metrics,
        )


def load_gold(config: Config, task: str, split: str) -> Gold:
    """Read the labelled rows of a task, and guess them from the training labels alone.

    Raises UserError if the split has no labels, or no file can hold the task's predictions.
    """
    entry = config.tasks[task]
    reader = label_readers(config, [task])[task]
    kind = reader.task_type
    if not course_files.can_hold(kind):
        message = f"a file cannot hold what it predicts: {kind.predicts}"
        raise config.error(("tasks", task), message)
    rows = split_rows(config, task, split, {task: reader})
    if rows.labels is None:
        advice = f"name labelled rows by tasks.{task}.data.{split}=FILE"
        raise UserError(f"{rows.source} has no labels: {advice}")
    every = reading_of(kind).rows_of(entry.data, read_columns(config, task, split)).ids
    kept = {*rows.ids}
    host = task if entry.data.train else entry.share_head
    guess = None
    if host is not None and config.tasks[host].data.train:
        train = split_rows(config, host, "train", {host: reader})
        guess = kind.columns(rows, reader, *kind.trivial(train, rows, reader))
    metric = next(
        name for name in (entry.metric, *kind.selects) if name and name not in kind.of_scores
    )
    return Gold(task, rows, reader, [name for name in every if name not in kept], metric, guess)


def score(
    config: Source | Config,
    files: Files,
    overrides: Sequence[str] = (),
    *,
    split: str = "dev",
    against: Iterable[Name] = (),
    json: Name | None = None,
) -> Scored:
    """Score prediction files of any program on the labelled rows of a config.

    Args:
        config: a YAML file, a dict of its keys and values, or a config.
        files: files by task, or a list of files. One in a list is named as the task's
            ``course_file.name``, or given as ``TASK=FILE``.
        overrides: config values to change, such as ``["data_dir=DIR"]``.
        split: ``dev`` or ``test``.
        against: run directories or other files, to compare with.
        json: also write Gradescope's ``results.json`` there, even if a file is damaged.

    Raises:
        UserError: no such task or file; no labels; a damaged file, with its row.
    """
    read = read_source(config, overrides)
    results = None if json is None else expand_home(os.fspath(json))
    by_task = files_by_task(read, files)
    scores: file_scores.FileScores = {}
    errors: list[UserError] = []
    compared = _compared(read, against)
    for name, one in compared:
        if not one.keys() & by_task.keys():
            raise UserError(f"{name}: nothing to compare: it has none of {', '.join(by_task)}")
    sources = {task: str(file) for task, file in by_task.items()}
    for task, file in by_task.items():
        gold = load_gold(read, task, split)
        others = {name: gold.read(one[task], split) for name, one in compared if task in one}
        try:
            scored = gold.read(file, split)
        except UserError as error:
            errors.append(error)
            continue
        scores[task] = file_scores.metric_scores(task, scored, gold.guess, others)
    if results is not None:
        written = file_scores.gradescope(scores, sources, [str(error) for error in errors])
        write_json(results, written)
    if errors:
        raise errors[0]
    overall = file_scores.overall_scores(scores)
    table = ("", file_scores.score_table(scores))
    page = text_page([table], [*file_scores.overall_lines(overall), file_scores.NOTE])
    return Scored(page, scores, overall)


def files_by_task(config: Config, files: Files) -> dict[str, Path]:
    """Return the files by task, in the order of the config.

    Raises UserError for a file of no task, and for two of one task.
    """
    check_list("files", files)
    pairs = files.items() if isinstance(files, Mapping) else (_task_of(config, f) for f in files)
    result: dict[str, Path] = {}
    for task, file in pairs:
        if task not in config.tasks:
            raise UserError(f"no task is called {task!r}: {', '.join(config.tasks)}")
        if task in result:
            raise UserError(f"{result[task]} and {file}: two files of task {task}")
        result[task] = expand_home(os.fspath(file))
    if not result:
        raise UserError("no files: name at least one")
    return {task: result[task] for task in config.tasks if task in result}


def _task_of(config: Config, given: Name) -> tuple[str, Path]:
    """Return the task of a file, by `TASK=` or the longest ``course_file.name`` that it has."""
    word = os.fspath(given)
    task, equals, file = word.partition("=")
    if equals and task in config.tasks:
        return task, Path(file)
    stem = Path(word).name
    names = {
        entry.course_file.name: task
        for task, entry in config.tasks.items()
        if entry.course_file is not None
    }
    fitting = [name for name in names if stem.startswith((f"{name}-", f"{name}."))]
    if not fitting:
        known = ", ".join(names) or "none"
        what = f"its name begins with no `course_file.name` ({known})"
        raise UserError(f"{word}: {what}: write TASK={word}, with one of {', '.join(config.tasks)}")
    return names[max(fitting, key=len)], Path(word)


def _compared(config: Config, against: Iterable[Name]) -> list[tuple[str, dict[str, Path]]]:
    """Return the name and the files of each thing to compare with; of a run, its directory."""
    check_list("against", against)
    result = []
    for given in against:
        path = expand_home(os.fspath(given))
        if path.is_dir():
            result.append((str(given), dict.fromkeys(open_run(path).load_report().tasks, path)))
        else:
            result.append((str(given), files_by_task(config, [given])))
    return result


def score_submissions(
    config: Source | Config,
    directory: Name,
    overrides: Sequence[str] = (),
    *,
    split: str = "dev",
    output: Name | None = None,
) -> Groups:
    """Score and rank what groups handed in: a folder or zip archive per group.

    Each has, for each task with a ``course_file``, one file ``NAME-SPLIT-output.csv`` in any of its
    folders. A file that is missing or damaged is an error in the group's row.

    Args:
        config: a YAML file, a dict of its keys and values, or a config.
        directory: the directory with the folders and archives.
        overrides: config values to change, such as ``["data_dir=DIR"]``.
        split: ``dev`` or ``test``.
        output: the directory for the page and the CSV; None: write nothing.

    Raises:
        UserError: a mistake in the config or its data; no submissions; ``output`` holds files of
            another program.
    """
    read = read_source(config, overrides)
    place = None if output is None else expand_home(os.fspath(output))
    if place is not None:
        check_output(place)
    found = submissions(expand_home(os.fspath(directory)))
    names = {
        task: f"{entry.course_file.name}-{split}-output.csv"
        for task, entry in read.tasks.items()
        if entry.course_file is not None
    }
    if not names:
        raise UserError("no task has a `course_file`, which names the files")
    gold = {task: load_gold(read, task, split) for task in names}
    groups = []
    for path in found:
        scored, errors = {}, []
        for task, name in names.items():
            try:
                scored[task] = gold[task].scored(*read_submitted(path, name))
            except (UserError, OSError) as error:
                errors.append(one_line(str(error)))
        groups.append(rankings.Submission(one_line(path.name), scored, [*dict.fromkeys(errors)]))
    metrics = {task: rows.metric for task, rows in gold.items()}
    trivial = {
        task: compute(rows.reader.task_type, rows.guess, [rows.metric])[rows.metric]
        for task, rows in gold.items()
        if rows.guess is not None
    }
    ranking = rankings.rank(split, metrics, trivial, groups)
    page = text_page([("", rankings.ranking_table(ranking))], rankings.EXPLANATIONS)
    return Groups(page, ranking, [] if place is None else rankings.write_ranking(place, ranking))
