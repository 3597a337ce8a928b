"""The reports of a finished run, and its table for the terminal, from saved files.

report.md and report.html show the same page. An undefined score (null in report.json) is shown as
``-``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multitask.config.in_words import TRAINED_HEADER, trained_with, training_line
from multitask.config.registry import task_type
from multitask.config.run_directory import RunDirectory
from multitask.reporting.figures.training_curves import draw_all, figure_name
from multitask.reporting.html_page import write_html
from multitask.reporting.mistakes import MISTAKES, mistakes
from multitask.reporting.page import (
    Block,
    Code,
    Image,
    Lines,
    Page,
    Section,
    Tile,
    markdown_page,
)
from multitask.reporting.table_formats import Table, score
from multitask.utils.errors import UserError

SCORES_HEADER = ("task", "metric", "trained [95 % interval]", "frozen encoder", "trivial", "flag")
DATA_HEADER = (
    "task",
    "split",
    "file",
    "rows",
    "unlabelled dropped",
    "empty texts",
    "duplicates",
    "also in train",
    "truncated",
    "mean tokens",
)
TURNS_HEADER = ("task", "trained", "skipped", "stopped at step", "selected step")
CONFLICT_HEADER = ("tasks", "measured", "mean cosine of gradients", "share below 0")
COURSE_SCORE = "SST and QQP accuracy, STS Pearson r as (r + 1) / 2"
TILES_LEGEND = "Dev scores. Dot: the trained model; bar: its 95 % interval; strokes: the baselines."


def terminal_table(report: dict[str, Any]) -> str:
    """Write each task's dev score next to its baselines, and the overall scores below."""
    table = Table(SCORES_HEADER, score_rows(report))
    return "\n".join([table.text(), "", *overall_lines(report)])


def write_reports(run_dir: Path) -> Path:
    """Draw the figures, write ``report.md`` and ``report.html``; return the path of report.md."""
    run, figures = RunDirectory(run_dir), draw_all(run_dir)
    page = run_page(run_dir, figures)
    write_html(page, run.html_page)
    return run.write_text(run.markdown_page, markdown_page(page))


def run_page(run_dir: Path, figures: Sequence[Path]) -> Page:
    """Build the report of a run from its saved files and the paths of its figures."""
    run = RunDirectory(run_dir)
    report = run.load_report()
    remarks = overall_lines(report)
    if any(task["baselines"]["frozen"] is None for task in report["tasks"].values()):
        why = "training.frozen_baseline is false, or the pooling has parameters of its own"
        remarks = [*remarks, f"Frozen encoder -: not measured ({why})."]
    overall = Lines(remarks)
    metrics_header = ("task", "metric", *SCORES_HEADER[2:5])
    sections = [
        Section("Dev scores", [Table(SCORES_HEADER, score_rows(report)), overall]),
        Section("All metrics", [Table(metrics_header, metric_rows(report))]),
        Section("Figures", _images(report, figures)),
        *_set_up(run),
        Section("Data", [Table(DATA_HEADER, data_rows(report))]),
        Section("Turns", [Table(TURNS_HEADER, _turns(report))]),
    ]
    if report.get("conflict"):
        table = Table(CONFLICT_HEADER, conflict_rows(report))
        sections.append(Section("Gradient conflict", [table], label="Conflict"))
    if report["warnings"]:
        sections.append(Section("Warnings", [Lines(report["warnings"])], alert=True))
    wrong = [
        Section(
            task,
            [mistakes(result, run.load_predictions(task, "dev"))],
            folded=True,
        )
        for task, result in report["tasks"].items()
        if task_type(result["label_type"]).labelled
    ]
    title = f"The {MISTAKES} most confident mistakes"
    sections += [
        Section(title, parts=wrong, label="Mistakes"),
        Section("Settings", _settings(report)),
    ]
    return Page(
        folder=run_dir,
        title=f"Run report: {run_dir.resolve().name}",
        summary=_summary(report),
        sections=sections,
        tiles=_tiles(report),
        legend=TILES_LEGEND,
    )


def _set_up(run: RunDirectory) -> list[Section]:
    """Show what was trained and how; nothing if the config has keys that no longer exist."""
    try:
        config = run.load_config()
    except UserError:
        return []
    table = Table(TRAINED_HEADER, trained_with(config))
    return [Section("Set-up", [table, Lines([training_line(config)])])]


def _with_interval(result: dict[str, Any], metric: str) -> str:
    """Write the trained model's dev score and its interval: ``0.492 [0.463, 0.521]``."""
    low, high = result["dev_intervals"][metric]
    interval = "" if low is None else f" [{score(low)}, {score(high)}]"
    return score(result["dev"][metric]) + interval


def _cells(result: dict[str, Any], metric: str) -> tuple[str, str, str]:
    """Write the scores of the trained model, of the frozen encoder and of the trivial guess."""
    frozen = result["baselines"]["frozen"] or {}
    trivial = result["baselines"]["trivial"]
    trained = _with_interval(result, metric)
    return trained, score(frozen.get(metric)), score(trivial[metric])


def score_rows(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """List each task's metric in the columns of SCORES_HEADER."""
    return [
        (task, result["metric"], *_cells(result, result["metric"]), "; ".join(result["flags"]))
        for task, result in report["tasks"].items()
    ]


def metric_rows(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """List every scalar metric of every task."""
    return [
        (task, metric, *_cells(result, metric))
        for task, result in report["tasks"].items()
        for metric in task_type(result["label_type"]).metrics
    ]


def overall_lines(report: dict[str, Any]) -> list[str]:
    overall = report["overall"]
    undefined = [
        task
        for task, result in report["tasks"].items()
        if result["dev"][result["metric"]] is None and not result.get("evaluate_only")
    ]
    without = f", without {', '.join(undefined)}: undefined" if undefined else ""
    lines = [f"overall: {score(overall['mean'])} (mean of the tasks' metrics{without})"]
    if overall["cs224n"] is not None:
        lines.append(f"CS224N overall: {score(overall['cs224n'])} ({COURSE_SCORE})")
    return lines


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _summary(report: dict[str, Any]) -> str:
    encoder, steps, tasks = report["encoder"], report["steps"], report["tasks"]
    kernels = "" if report["kernels"] == "torch" else f", {report['kernels']} kernels"
    how = report["precision"] + kernels
    ways = {"joint": "jointly", "per_task": "for each task"}
    selected = ways.get(report["select"], f"for {report['select']}")
    return (
        f"{', '.join(tasks)} on {encoder['name']} ({encoder['parameters'] / 1e6:.1f} M parameters):"
        f" mean dev score {score(report['overall']['mean'])} after {steps['done']:,} of "
        f"{steps['planned']:,} steps in {_duration(report['wall_time_s'])} on {report['device']} "
        f"({how}), seed {report['seed']}; weights selected {selected} on "
        f"{report['selection_split']}."
    )


def _tiles(report: dict[str, Any]) -> list[Tile]:
    """Build tiles of the overall scores, then of each task's metric next to its baselines."""
    overall = report["overall"]
    tiles = [Tile("overall", "mean of the tasks' metrics", overall["mean"])]
    if overall["cs224n"] is not None:
        tiles.append(Tile("CS224N overall", COURSE_SCORE, overall["cs224n"]))
    for task, result in report["tasks"].items():
        metric = result["metric"]
        low, high = result["dev_intervals"][metric]
        references = {
            "frozen encoder": (result["baselines"]["frozen"] or {}).get(metric),
            "trivial": result["baselines"]["trivial"][metric],
        }
        trained = result["dev"][metric]
        tiles.append(Tile(task, metric, trained, low, high, references, result["flags"]))
    return tiles


def _images(report: dict[str, Any], figures: Sequence[Path]) -> list[Image]:
    """The figures; the alt text says what each shows."""
    alt = {
        "curves": "Each task's metric at every evaluation and its training loss over the steps",
        "schedule": "Which task was trained when",
        "space": "Alignment, uniformity and mean cosine of the vectors over the steps",
        "conflict": "Cosines between the tasks' gradients of the encoder over time and by layer",
    }
    for task, result in report["tasks"].items():
        kind = task_type(result["label_type"])
        alt[figure_name(kind, task)] = kind.figure_shows.format(task=task)
    return [Image(path, alt[path.stem]) for path in figures]


def data_rows(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """List what was read per task and split, in the columns of DATA_HEADER."""
    return [
        (
            task,
            split,
            data["file"],
            f"{data['rows']:,}",
            f"{data['unlabelled_dropped']:,}",
            f"{data['empty_texts']:,}",
            f"{data['duplicates']:,}",
            f"{data['in_train']:,}" if "in_train" in data else "",
            f"{100 * data['truncated_share']:.1f} %",
            f"{data['mean_tokens']:.1f}",
        )
        for task, result in report["tasks"].items()
        for split, data in result["data"].items()
    ]


def _turns(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """List the trained and skipped turns of each task, and where it stopped and was selected."""
    return [
        (
            task,
            f"{result['turns']['trained']:,}",
            f"{result['turns']['skipped']:,}",
            *(
                "-" if step is None else f"{step:,}"
                for step in (result["stopped_at_step"], result["selected_step"])
            ),
        )
        for task, result in report["tasks"].items()
    ]


def conflict_rows(report: dict[str, Any]) -> list[tuple[str, ...]]:
    """List how much the gradients of each pair of tasks agreed, in CONFLICT_HEADER."""
    return [
        (
            pair,
            f"{found['measured']:,}",
            score(found["mean"]),
            f"{100 * found['below_0']:.0f} %",
        )
        for pair, found in report["conflict"].items()
    ]


def _settings(report: dict[str, Any]) -> list[Block]:
    """Show how to repeat the run, and what it ran on."""
    return [
        Code(report["command"]),
        Lines(["every setting: config.yaml, in the directory of this page"]),
        Lines([f"{name}: {value}" for name, value in run_settings(report).items()]),
    ]


def run_settings(report: dict[str, Any]) -> dict[str, Any]:
    """Return seed, commit, versions, encoder and speed of a run, by their names in the report."""
    encoder = report["encoder"]
    return {
        "seed": report["seed"],
        "git revision": report["git_revision"] or "-",
        "versions": ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
        "started from": _started_from(report),
        "encoder pretrained on": ", ".join(encoder["seen_corpora"]) or "-",
        "wall time": _duration(report["wall_time_s"]),
        "training speed": f"{report['train_sentences_per_s']:.0f} sentences/s",
    }


def _started_from(report: dict[str, Any]) -> str:
    """Say in words which weights the run started from."""
    start = report.get("init_from")
    if start is None:
        fresh = report["encoder"].get("from_scratch")
        return "random weights" if fresh else "the pretrained encoder"
    taken = {"encoder": "encoder", "pooling": "encoder and pooling", "head": "encoder and head"}
    return (
        f"{start['run']} (seed {start['seed']}): {taken[start['take']]} of task {start['task']} at "
        f"step {start['step']:,}"
    )
