"""The reports of a finished run, its worst mistakes, and its table for the terminal.

report.md and report.html show the same page. An undefined score (null in report.json) is shown as
``-``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multitask.config import Config
from multitask.config.describe_config import TRAINED_HEADER, trained_with, training_line
from multitask.config.registry import task_type
from multitask.reporting.figures.curves import draw_all
from multitask.reporting.html_page import write_html
from multitask.reporting.page import Code, Image, Lines, Page, Section, Text, Tile, markdown_page
from multitask.reporting.table_formats import Table, duration, number, score
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import Event
from multitask.store.saved import Agreement, RunReport, TaskReport
from multitask.tasks.base import NoLabels
from multitask.tasks.rows import ordinal
from multitask.utils.errors import UserError, reading

MISTAKES = 20
TEXT_WIDTH = 200


def mistakes(result: TaskReport, records: list[dict[str, Any]]) -> Table | Text:
    """List the wrong dev predictions, the worst first; ``TaskType.mistake`` measures them.

    ``records`` are saved predictions, whose keys depend on the task type.
    """
    kind, classes = task_type(result.label_type), result.classes or ()
    labelled = [record for record in records if None not in (record["label"], record["prediction"])]
    pairs = [(kind.mistake(record, classes), record) for record in labelled]
    wrong = [(mistake, record) for mistake, record in pairs if mistake is not None]
    if not wrong:
        return Text("None.")
    # an undefined confidence (a diverged model) comes last
    wrong.sort(key=lambda pair: -1.0 if pair[0].size is None else pair[0].size, reverse=True)

    count = len(wrong[0][1]["texts"])
    titles = [f"{ordinal(number)} text" for number in range(count)] if count > 1 else ["text"]
    titles = [*kind.shown_texts] or titles
    rows = [
        (
            record["id"],
            *map(_shortened, record["texts"][: len(titles)]),
            _shortened(mistake.gold),
            _shortened(mistake.predicted),
            score(mistake.size),
        )
        for mistake, record in wrong[:MISTAKES]
    ]
    return Table(("id", *titles, "gold", "predicted", kind.mistakes_by), rows)


def _shortened(text: str) -> str:
    """Put the text on one line and cut it at TEXT_WIDTH characters."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


SCORES_HEADER = ("task", "metric", "trained [95 % interval]", "frozen encoder", "trivial", "flag")
TURNS_HEADER = ("task", "trained", "skipped", "stopped at step", "selected step")
CONFLICT_HEADER = ("tasks", "measured", "mean cosine of gradients", "share below 0")
# what is counted in each split, and the titles of these columns
COUNTS = {
    "rows": "rows",
    "unlabelled_dropped": "unlabelled dropped",
    "empty_texts": "empty texts",
    "duplicates": "duplicates",
    "in_train": "also in train",
}
TRIAL = "trial (--try): a few rows of train, dev and test, so these scores are no results"
COURSE_SCORE = "SST and QQP accuracy, STS Pearson r as (r + 1) / 2"
TILES_LEGEND = "Dev scores. Dot: the trained model; bar: its 95 % interval; strokes: the baselines."


def terminal_table(report: RunReport) -> str:
    """Write each task's dev score next to its baselines; overall scores and flags follow."""
    rows = [_cells(task, result, result.metric) for task, result in report.tasks.items()]
    flags = [f"- {task}: {flag}" for task, result in report.tasks.items() for flag in result.flags]
    scores = Table(SCORES_HEADER[:-1], rows).text()
    return "\n".join([scores, "", *overall_lines(report), *flags])


def write_reports(
    run: RunDirectory,
    report: RunReport | None = None,
    events: list[Event] | None = None,
    config: Config | None = None,
) -> Path:
    """Draw the figures, write ``report.md`` and ``report.html``; return the path of report.md.

    What is not given is read from the run.
    """
    report, events = report or run.load_report(), events or run.load_events()
    page = run_page(run, report, draw_all(run, report, events), config)
    write_html(page, run.html_page)
    return run.write_text(run.markdown_page, markdown_page(page))


def run_page(
    run: RunDirectory, report: RunReport, figures: Mapping[Path, str], config: Config | None = None
) -> Page:
    """Build the report of a run from its predictions and what its figures show, by their paths."""
    remarks = overall_lines(report)
    if any(task.baselines.frozen is None for task in report.tasks.values()):
        why = "training.frozen_baseline is false, or the pooling has parameters"
        remarks.append(f"Frozen encoder -: not measured ({why}).")
    sections = [
        Section("Dev scores", [score_table(report), Lines(remarks)]),
        Section("All metrics", [metric_table(report)]),
        Section("Figures", [Image(path, shows) for path, shows in figures.items()]),
        *_set_up(run, config),
        Section("Data", [data_table(report)]),
        Section("Turns", [_turns(report)]),
    ]
    if report.conflict:
        sections.append(
            Section("Gradient conflict", [_conflict(report.conflict)], label="Conflict")
        )
    if report.warnings:
        sections.append(Section("Warnings", [Lines(report.warnings)], alert=True))
    wrong = []
    for task, result in report.tasks.items():
        if not isinstance(task_type(result.label_type), NoLabels):
            with reading(run.predictions_of(task, "dev")):
                shown = mistakes(result, run.load_predictions(task, "dev"))
            wrong.append(Section(task, [shown], folded=True))
    where = Lines(["every setting: config.yaml, in the directory of this page"])
    sections += [
        Section(f"The {MISTAKES} most confident mistakes", parts=wrong, label="Mistakes"),
        Section("Settings", [Code(report.command), where, Lines(run_settings(report))]),
    ]
    return Page(
        folder=run.path,
        title=f"{'Trial' if report.trial else 'Run report'}: {run.path.resolve().name}",
        summary=_summary(report),
        sections=sections,
        tiles=_tiles(report),
        legend=TILES_LEGEND,
    )


def _set_up(run: RunDirectory, config: Config | None) -> list[Section]:
    """Show what was trained and how; nothing if the config has keys that no longer exist."""
    try:
        config = config or run.load_config()
    except UserError:
        return []
    table = Table(TRAINED_HEADER, trained_with(config))
    return [Section("Set-up", [table, Lines([training_line(config)])])]


def _cells(task: str, result: TaskReport, metric: str) -> tuple[str, ...]:
    """Write a task's metric: ``0.492 [0.463, 0.521]`` for the trained model, then the baselines."""
    low, high = result.interval(metric)
    interval = "" if low is None else f" [{score(low)}, {score(high)}]"
    trained = score(result.dev[metric]) + interval
    return (task, metric, trained, *map(score, result.baselines.scores(metric).values()))


def score_table(report: RunReport) -> Table:
    """Build the table of each task's metric next to its baselines."""
    rows = [
        (*_cells(task, result, result.metric), "; ".join(result.flags))
        for task, result in report.tasks.items()
    ]
    return Table(SCORES_HEADER, rows, messages=frozenset({SCORES_HEADER.index("flag")}))


def metric_table(report: RunReport) -> Table:
    """Build the table of every scalar metric of every task."""
    rows = [
        _cells(task, result, metric)
        for task, result in report.tasks.items()
        for metric in result.reported(task_type(result.label_type).metrics)
    ]
    return Table(SCORES_HEADER[:5], rows)


def overall_lines(report: RunReport) -> list[str]:
    overall = report.overall
    undefined = [
        task
        for task, result in report.tasks.items()
        if result.score is None and not result.evaluate_only
    ]
    without = f", without {', '.join(undefined)}: undefined" if undefined else ""
    lines = [TRIAL] if report.trial else []
    lines += [f"overall: {score(overall.mean)} (mean of the tasks' metrics{without})"]
    if overall.cs224n is not None:
        lines.append(f"CS224N overall: {score(overall.cs224n)} ({COURSE_SCORE})")
    return lines


def _summary(report: RunReport) -> str:
    encoder, steps, tasks = report.encoder, report.steps, report.tasks
    kernels = "" if report.kernels == "torch" else f", {report.kernels} kernels"
    how = report.precision + kernels
    device = report.device if report.gpu is None else f"{report.device} ({report.gpu.name})"
    ways = {"joint": "jointly", "per_task": "for each task"}
    selected = ways.get(report.select, f"for {report.select}")
    return (
        f"{', '.join(tasks)} on {encoder.name} ({encoder.parameters / 1e6:.1f} M parameters):"
        f" mean dev score {score(report.overall.mean)} after {steps.done:,} of "
        f"{steps.planned:,} steps in {duration(report.wall_time_s)} on {device} "
        f"({how}), seed {report.seed}; weights selected {selected} on "
        f"{report.selection_split}."
    )


def _tiles(report: RunReport) -> list[Tile]:
    """Build tiles of the overall scores, then of each task's metric next to its baselines."""
    overall = report.overall
    tiles = [Tile("overall", "mean of the tasks' metrics", overall.mean)]
    if overall.cs224n is not None:
        tiles.append(Tile("CS224N overall", COURSE_SCORE, overall.cs224n))
    for task, result in report.tasks.items():
        metric = result.metric
        trained, (low, high) = result.score, result.interval(metric)
        baselines = result.baselines.scores(metric)
        tiles.append(Tile(task, metric, trained, low, high, baselines, result.flags))
    return tiles


def data_table(report: RunReport) -> Table:
    """Build the table of what was read per task and split.

    Rows of dev and test are counted in train too: the texts that the model has seen.
    """
    parts = [
        (task, split, data)
        for task, result in report.tasks.items()
        for split, data in result.data.items()
    ]
    titles = {**COUNTS}
    if any(data.in_other_train is not None for _, _, data in parts):
        titles["in_other_train"] = "in train of other tasks"
    rows = []
    for task, split, data in parts:
        counts = [getattr(data, key) for key in titles]
        texts = ["" if count is None else f"{count:,}" for count in counts]
        truncated = f"{100 * data.truncated_share:.1f} %"
        rows.append((task, split, data.file, *texts, truncated, number(data.mean_tokens, ".1f")))
    return Table(("task", "split", "file", *titles.values(), "truncated", "mean tokens"), rows)


def _turns(report: RunReport) -> Table:
    """Build the table of the turns of each task, and where it stopped and was selected."""
    rows = []
    for task, result in report.tasks.items():
        turns, steps = result.turns, (result.stopped_at_step, result.selected_step)
        counts = (turns.trained, turns.skipped, *steps)
        rows.append((task, *(number(count, ",") for count in counts)))
    return Table(TURNS_HEADER, rows)


def _conflict(agreements: Mapping[str, Agreement]) -> Table:
    """Build the table of how much the gradients of each pair of tasks agreed."""
    rows = [
        (pair, f"{entry.measured:,}", score(entry.mean), f"{100 * entry.below_0:.0f} %")
        for pair, entry in agreements.items()
    ]
    return Table(CONFLICT_HEADER, rows)


def run_settings(report: RunReport) -> list[str]:
    """List seed, commit, versions, encoder and speed of a run."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return [
        f"seed: {report.seed}",
        f"git revision: {report.git_revision or '-'}",
        f"versions: {versions}",
        f"started from: {_started_from(report)}",
        f"encoder pretrained on: {', '.join(report.encoder.seen_corpora) or '-'}",
        f"wall time: {duration(report.wall_time_s)}",
        f"training speed: {report.train_sentences_per_s:.0f} sentences/s",
    ]


def _started_from(report: RunReport) -> str:
    """Say in words which weights the run started from."""
    start = report.init_from
    if start is None:
        fresh = report.encoder.from_scratch
        return "random weights" if fresh else "the pretrained encoder"
    taken = {"encoder": "encoder", "pooling": "encoder and pooling", "head": "encoder and head"}
    return (
        f"{start.run} (seed {start.seed}): {taken[start.take]} of task {start.task} at "
        f"step {start.step:,}"
    )
