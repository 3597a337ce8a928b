# Tested by tests/commands/test_score.py
"""Score and rank the prediction files that groups hand in."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from multitask.api.read_source import read_source
from multitask.api.score_files import Gold, Name, load_gold
from multitask.config import Config
from multitask.config.yaml_merge import Source
from multitask.data.readers.submissions import read_submitted, submissions
from multitask.reporting.ranking import (
    EXPLANATIONS,
    Ranking,
    Submission,
    rank,
    ranking_table,
    write_ranking,
)
from multitask.reporting.table_formats import text_page
from multitask.store.outputs import check_output
from multitask.tasks.metrics import compute
from multitask.utils.errors import UserError, one_line
from multitask.utils.paths import expand_home


@dataclass(frozen=True, repr=False)
class Groups:
    """The ranking of groups. Print it to see the table.

    Attributes:
        ranking: scores, intervals and errors of each group, as in ranking.json.
        page: the table as text.
        files: the files that were written.
    """

    ranking: Ranking
    page: str
    files: list[Path]

    def __repr__(self) -> str:
        return self.page


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
    groups = [_submission(path, names, gold) for path in found]
    metrics = {task: rows.metric for task, rows in gold.items()}
    trivial = {
        task: compute(rows.reader.task_type, rows.guess, [rows.metric])[rows.metric]
        for task, rows in gold.items()
        if rows.guess is not None
    }
    ranking = rank(split, metrics, trivial, groups)
    page = text_page([("", ranking_table(ranking))], EXPLANATIONS)
    return Groups(ranking, page, [] if place is None else write_ranking(place, ranking))


def _submission(path: Path, names: dict[str, str], gold: dict[str, Gold]) -> Submission:
    """Read the files of a group; a mistake in one is an error of its row."""
    scored, errors = {}, []
    for task, name in names.items():
        try:
            scored[task] = gold[task].scored(*read_submitted(path, name))
        except (UserError, OSError) as error:
            errors.append(one_line(str(error)))
    return Submission(one_line(path.name), scored, [*dict.fromkeys(errors)])
