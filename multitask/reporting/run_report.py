"""The reports of a finished run, its worst mistakes, and its table for the terminal.

report.md and report.html show the same page. An undefined score (null in report.json) is shown as
``-``.
"""

from collections.abc import Mapping
from pathlib import Path

from multitask.config import Config
from multitask.config.describe_config import TRAINED_HEADER, trained_with, training_line
from multitask.config.registry import task_type
from multitask.reporting.figures.curves import draw_all
from multitask.reporting.figures.maps import Records
from multitask.reporting.html_page import write_html
from multitask.reporting.page import Code, Image, Lines, Page, Section, Text, Tile, markdown_page
from multitask.reporting.table_formats import Table, duration, estimate, number, score, shortened
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import Event
from multitask.store.saved import LAST, RunReport, TaskReport
from multitask.tasks.base import NoLabels
from multitask.tasks.rows import ordinal
from multitask.utils.errors import reading

MISTAKES = 20
TEXT_WIDTH = 200


def mistakes(result: TaskReport, records: Records) -> Table | Text:
    """List the wrong dev predictions, the worst first; ``TaskType.mistake`` measures them."""
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
    rows = []
    for mistake, record in wrong[:MISTAKES]:
        texts = (*record["texts"][: len(titles)], mistake.gold, mistake.predicted)
        lines = [shortened(" ".join(text.split()), TEXT_WIDTH) for text in texts]
        rows.append((record["id"], *lines, score(mistake.size)))
    return Table(("id", *titles, "gold", "predicted", kind.mistakes_by), rows)


SCORES_HEADER = ("task", "metric", "trained [95 % interval]", "frozen encoder", "trivial", "flag")
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
    predictions: Mapping[str, Records] | None = None,
) -> Path:
    """Draw the figures, write ``report.md`` and ``report.html``; return the path of report.md.

    ``predictions`` are the dev records of each task. What is not given is read from the run.
    """
    report, events = report or run.load_report(), events or run.load_events()
    if predictions is None:
        predictions = {task: dev_records(run, task) for task in report.tasks}
    figures = draw_all(run, report, events, predictions)
    page = run_page(run, report, config or run.load_config(), figures, predictions=predictions)
    write_html(page, run.html_page)
    return run.write_text(run.markdown_page, markdown_page(page))


def dev_records(run: RunDirectory, task: str) -> Records:
    """Read a task's dev predictions. Raises UserError for a damaged file."""
    with reading(run.predictions_of(task, "dev")):
        return run.load_predictions(task, "dev")


def run_page(
    run: RunDirectory,
    report: RunReport,
    config: Config,
    figures: Mapping[Path, str],
    predictions: Mapping[str, Records],
) -> Page:
    """Build the report of a run; ``figures`` are what its figures show, by their paths."""
    tasks = report.tasks
    remarks = overall_lines(report)
    if any(task.baselines.frozen is None for task in tasks.values()):
        why = "training.frozen_baseline is false, or the pooling has parameters"
        remarks.append(f"Frozen encoder -: not measured ({why}).")
    turns = []
    for task, result in tasks.items():
        steps = (result.stopped_at_step, result.selected_step)
        counts = (result.turns.trained, result.turns.skipped, *steps)
        turns.append((task, *(number(count, ",") for count in counts)))
    turns_header = ("task", "trained", "skipped", "stopped at step", "selected step")
    parts = Table(TRAINED_HEADER, trained_with(config))
    sections = [
        Section("Dev scores", [score_table(report), Lines(remarks)]),
        Section("All metrics", [metric_table(report)]),
        Section("Figures", [Image(path, shows) for path, shows in figures.items()]),
        Section("Set-up", [parts, Lines([training_line(config)])]),
        Section("Data", [data_table(report)]),
        Section("Turns", [Table(turns_header, turns)]),
    ]
    if report.conflict:
        header = ("tasks", "measured", "mean cosine of gradients", "share below 0")
        rows = [
            (pair, f"{entry.measured:,}", score(entry.mean), f"{100 * entry.below_0:.0f} %")
            for pair, entry in report.conflict.items()
        ]
        sections.append(Section("Gradient conflict", [Table(header, rows)], label="Conflict"))
    if report.warnings:
        sections.append(Section("Warnings", [Lines(report.warnings)], alert=True))
    wrong = []
    for task, result in tasks.items():
        if not isinstance(task_type(result.label_type), NoLabels):
            with reading(run.predictions_of(task, "dev")):
                shown = mistakes(result, predictions[task])
            wrong.append(Section(task, [shown], folded=True))
    where = Lines(["every setting: config.yaml, in the directory of this page"])
    sections += [
        Section(f"The {MISTAKES} most confident mistakes", parts=wrong, label="Mistakes"),
        Section("Settings", [Code(report.command), where, Lines(run_settings(report))]),
    ]
    title = f"{'Trial' if report.trial else 'Run report'}: {run.path.resolve().name}"
    return Page(run.path, title, _summary(report), sections, _tiles(report), TILES_LEGEND)


def _cells(task: str, result: TaskReport, metric: str) -> tuple[str, ...]:
    """Write a task's metric: ``0.492 [0.463, 0.521]`` for the trained model, then the baselines."""
    trained = estimate(result.dev[metric], *result.interval(metric))
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
    return Table(SCORES_HEADER[:-1], rows)


def overall_lines(report: RunReport) -> list[str]:
    """List the scores over all tasks, and that the run is a trial."""
    overall = report.overall
    trained = {task: result for task, result in report.tasks.items() if not result.evaluate_only}
    undefined = ", ".join(task for task, result in trained.items() if result.score is None)
    without = f", without {undefined}: undefined" if undefined else ""
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
    ways = {"joint": "selected jointly", "per_task": "selected for each task"}
    selected = ways.get(report.select, f"selected for {report.select}")
    selected = f"{selected} on {report.selection_split}"
    if report.select == LAST:
        selected = "of the last step"
    return (
        f"{', '.join(tasks)} on {encoder.name} ({encoder.parameters / 1e6:.1f} M parameters):"
        f" mean dev score {score(report.overall.mean)} after {steps.done:,} of "
        f"{steps.planned:,} steps in {duration(report.wall_time_s)} on {device} "
        f"({how}), seed {report.seed}; weights {selected}."
    )


def _tiles(report: RunReport) -> list[Tile]:
    """Build tiles of the overall scores, then of each task's metric next to its baselines."""
    overall = report.overall
    tiles = [Tile("overall", "mean of the tasks' metrics", overall.mean)]
    if overall.cs224n is not None:
        tiles.append(Tile("CS224N overall", COURSE_SCORE, overall.cs224n))
    for task, result in report.tasks.items():
        interval, baselines = result.interval(result.metric), result.baselines.scores(result.metric)
        tiles.append(Tile(task, result.metric, result.score, *interval, baselines, result.flags))
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


def run_settings(report: RunReport) -> list[str]:
    """List seed, commit, versions, encoder and speed of a run."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    begin = "random weights" if report.encoder.from_scratch else "the pretrained encoder"
    if start := report.init_from:
        taken = {"encoder": "encoder", "pooling": "encoder and pooling", "head": "encoder and head"}
        begin = f"{start.run} (seed {start.seed}): {taken[start.take]} of task {start.task} at "
        begin += f"step {start.step:,}"
    return [
        f"seed: {report.seed}",
        f"git revision: {report.git_revision or '-'}",
        f"versions: {versions}",
        f"started from: {begin}",
        f"encoder pretrained on: {', '.join(report.encoder.seen_corpora) or '-'}",
        f"wall time: {duration(report.wall_time_s)}",
        f"training speed: {report.train_sentences_per_s:.0f} sentences/s",
    ]
