# Tested by tests/commands/test_evaluate.py
"""Score a trained run on a labelled split."""

import os
from collections.abc import Sequence
from typing import Any, TypedDict

from multitask.config.checks import check_task
from multitask.store.run_directory import load_run_config
from multitask.utils.errors import UserError, warn
from multitask.utils.paths import expand_home


class Evaluated(TypedDict):
    """The scores of a task, as in evaluation-SPLIT.json.

    ``intervals`` has the lower and the upper end of the metrics' 95 % intervals.
    """

    metrics: dict[str, Any]
    intervals: dict[str, list[Any]]


def evaluate(
    run: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    split: str = "dev",
    task: str | None = None,
) -> dict[str, Evaluated]:
    """Score a run on a labelled split, and write ``evaluation-SPLIT.json`` in its directory.

    Args:
        run: the run directory.
        overrides: config values to change, such as ``["data_dir=DIR"]``.
        split: ``dev`` or ``test``.
        task: score only this task.

    Raises:
        UserError: no run there, no such task, or no task has a labelled split of this name.
    """
    directory = expand_home(os.fspath(run))
    config = load_run_config(directory, list(overrides))
    if task is not None:
        check_task(directory, config, task)

    from multitask.inference.load_run import TrainedRun
    from multitask.training.report_json import dev_results

    trained = TrainedRun(directory, config)
    results: dict[str, Evaluated] = {}
    for name in trained.tasks:
        if task not in (None, name) or split not in config.tasks[name].data.scored:
            continue
        rows = trained.load_split(name, split)
        if rows.rows.labels is None:
            warn(f"{name}: {rows.rows.source} has no labels; see: predict {directory}")
            continue
        scores = trained.score_split(name, rows)
        metrics, intervals = dev_results(scores, rows.rows, trained.readers[name])
        results[name] = {"metrics": metrics, "intervals": intervals}
    if not results:
        raise UserError(f"{directory}: no task has a labelled {split} split")
    trained.check_unchanged()
    trained.files.write_json(trained.files.evaluation(split), results)
    return results
