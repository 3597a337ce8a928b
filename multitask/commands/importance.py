"""Draw how much each hidden state counts, by task, by length and by example.

For the poolings hire and layer_attention. Writes NAME.png, .svg (a row per task),
NAME_lengths.png, .svg (short and long texts), NAME-TASK.png, .svg (a row per example) and the
numbers as NAME.json (docs/hire.md). A run without weights is drawn from its log: only the means of
tasks. --groups orders the tasks and names groups.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.commands import arguments as shared
from multitask.utils.errors import UserError, check_text

if TYPE_CHECKING:
    from multitask.config import Config
    from multitask.inference.load_run import TrainedRun
    from multitask.reporting.figures.maps import Importance
    from multitask.tasks.rows import Rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_runs(parser, "drawn below one another")
    text = "only this task (default: every task whose pooling weighs hidden states)"
    shared.add_task(parser, text)
    text = "score this text instead of the dev set, a pair separated by a tab; may be repeated"
    parser.add_argument("--text", metavar="T", action="append", default=[], help=text)
    text = "rows of dev that are drawn one by one (default: 20)"
    shared.add_number(parser, "--examples", text, least=0, default=20)
    text = "YAML file with groups of tasks, such as configs/hire/figure2.yaml (default: no groups)"
    shared.add_path(parser, "--groups", "FILE", text)
    text = "name of the files, or a directory for them (default: importance, in the run or, of "
    shared.add_output(parser, "NAME", f"{text}several, here)")


def run(arguments: argparse.Namespace) -> None:
    import json
    from dataclasses import asdict

    from multitask.reporting.figures import maps
    from multitask.reporting.figures.style import write_pictures
    from multitask.store.files import without_nan

    for text in arguments.text:
        check_text(text, "--text: the text")
    groups = maps.load_groups(arguments.groups) if arguments.groups else None
    runs, overrides = shared.runs_and_overrides(arguments)
    rows = [(run, made) for run in runs for made in _of_run(run, overrides, arguments)]
    group_of: list[str] = []  # of each row
    if groups:
        order, group_of = maps.in_groups([importance.task for _, importance in rows], groups)
        rows = [rows[place] for place in order]
    # a row is named by its task, with the run or the run's path where tasks repeat
    for form in ("{task}", "{run.name} {task}", "{run} {task}"):
        labels = [form.format(task=importance.task, run=run) for run, importance in rows]
        if len(set(labels)) == len(labels):
            break
    importances = [importance for _, importance in rows]
    pictures = {"": maps.draw_tasks(importances, labels, group_of)}
    split = [importance.median is not None for importance in importances]
    if any(split):
        pictures["_lengths"] = maps.draw_lengths(
            [*compress(importances, split)],
            [*compress(labels, split)],
            [*compress(group_of, split)],
        )
    for label, importance in zip(labels, importances, strict=True):
        if importance.texts:
            name = "-" + re.sub(r"[^\w.+-]+", "-", label)
            pictures[name] = maps.draw_examples(importance, label)
    output = arguments.output or (runs[0] if len(runs) == 1 else Path()) / "importance"
    entries = [{"run": str(directory)} | asdict(importance) for directory, importance in rows]
    write_pictures(output, "importance", pictures, json.dumps(without_nan(entries), indent=1))


def _of_run(
    directory: Path, overrides: Sequence[str], arguments: argparse.Namespace
) -> list["Importance"]:
    """Return the weights of the run's tasks whose pooling has them.

    Without its weights, these are the ones that the run logged at the selected steps.
    """
    from multitask.config.between_tasks import chosen_task
    from multitask.reporting.figures.maps import read_log
    from multitask.store.run_directory import RunDirectory, load_run_config, load_saved_config

    run, only = RunDirectory(directory), arguments.task
    # `ablate` removes the weights of its runs
    removed = run.finished and run.metrics.is_file() and not run.encoder.is_dir()
    config = (load_saved_config if removed else load_run_config)(directory, list(overrides))
    chosen = list(config.tasks) if only is None else [chosen_task(directory, config, only)]
    if not removed:
        importances = list(_computed(directory, config, chosen, arguments))
    elif arguments.text:
        message = "its weights were removed, so --text cannot be used: train it again"
        raise UserError(f"{directory}: {message}")
    else:
        tasks = run.load_report().tasks
        steps = {task: tasks[task].selected_step for task in chosen if task in tasks}
        importances = read_log(directory, steps)
    if not importances:
        where = f"{directory}: task {only}" if only else f"{directory}"
        message = "`pooling: hire` and `layer_attention` have them, where no `eval_pooling` is set"
        raise UserError(f"{where}: no weights of hidden states: {message}")
    return importances


def _computed(
    directory: Path, config: "Config", tasks: Sequence[str], arguments: argparse.Namespace
) -> Iterator["Importance"]:
    from multitask.data.inputs.base import input_of
    from multitask.inference.analysis.layer_weights import importance, weighs_states
    from multitask.inference.load_run import TrainedRun

    trained = TrainedRun(directory, config)
    for task in tasks:
        if not weighs_states(trained.model.module(task).scoring_pooler):
            continue
        if arguments.text:
            items = trained.inputs(task, arguments.text)
            rows, tokens = [[sequence] for sequence in items], trained.tokens(task, items)
            which, examples, predicted = "texts", len(rows), []
        elif "dev" in config.tasks[task].data.scored:
            split, form = trained.load_split(task, "dev"), input_of(config.tasks[task])
            rows, tokens = [form.sequences(row) for row in split.rows.texts], split.tokens
            which, examples = "dev", arguments.examples
            predicted = _predicted(trained, task, split.rows.take(range(len(rows))[:examples]))
        else:
            continue
        scorer = trained.scorer_for(task)
        yield importance(
            scorer, task, tokens, rows, split=which, examples=examples, predicted=predicted
        )


def _predicted(trained: "TrainedRun", task: str, rows: "Rows") -> list[str]:
    """Return the class that the task predicts for each row; [] for other tasks."""
    from multitask.tasks.base import NoLabels
    from multitask.tasks.records import predicted_records

    reader = trained.readers[task]
    if isinstance(reader.task_type, NoLabels) or not len(rows):
        return []
    scores = trained.score(task, rows)
    records = predicted_records(rows, reader, scores.predictions, scores.scores)
    answers = [record.get("name", record["prediction"]) for record in records]
    return [str(answer) for answer in answers if isinstance(answer, str | int)]
