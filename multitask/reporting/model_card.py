"""Write model cards: ``README.md`` with the hub's metadata, from saved files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from multitask.config import Config
from multitask.config.packaged import PACKAGED
from multitask.config.registry import task_type
from multitask.reporting import run_report
from multitask.reporting.page import Code, Lines, Page, Section, Text, markdown_page
from multitask.store.files import ANYWHERE, remove_scraps
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport

UNKNOWN = (
    "It is unknown which data the pretrained weights have seen. They may have seen some of these "
    "rows."
)

NO_DEV = "The task has no labelled dev rows."
OTHER = (
    "Left out: the task was exported with other settings than the run was scored with. The config "
    "below has them."
)


@dataclass(frozen=True)
class Exported:
    """The facts of an export that its card adds to those of the run.

    Attributes:
        tasks: the exported tasks.
        library: the hub's name of the library that loads it.
        pipeline: the hub's pipeline tag.
        what: a sentence that says which parts of the run it has.
        usage: Python that loads it.
        notes: what was checked and measured when it was written.
        config: the config of the export if the task's settings differ from the run's, whose scores
            are of another model then; else ''.
        command: the command that wrote it.
        versions: versions of the packages that wrote and read it, and of this project.
    """

    tasks: Sequence[str]
    library: str
    pipeline: str
    what: str
    usage: str
    notes: Sequence[str]
    config: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def complete_pages(run: RunDirectory) -> None:
    """Write the pages of a finished run whose training was killed before it wrote them."""
    remove_scraps(run.path, ANYWHERE)
    if not all(page.is_file() for page in (run.markdown_page, run.html_page, run.card)):
        run_report.write_reports(run)
        write_card(run)


def write_card(
    run: RunDirectory, report: RunReport | None = None, config: Config | None = None
) -> Path:
    """Write a finished run's ``README.md``."""
    return run.write_text(run.card, card(run.path, report=report, config=config))


def card(
    run_dir: Path,
    exported: Exported | None = None,
    *,
    report: RunReport | None = None,
    config: Config | None = None,
) -> str:
    """Write the card of a run, or of one of its exports: metadata header and Markdown.

    ``report`` and ``config`` are read from the run if they are not given. Raises UserError if it
    has no report.json.
    """
    run = RunDirectory(run_dir)
    report, config = report or run.load_report(), config or run.load_config()
    title = name = run_dir.resolve().name
    text, shown, missing = run.config.read_text(encoding="utf-8"), report, NO_DEV
    summary, usage, export = "", [], []
    if exported is not None:
        title, summary = f"{name}: {', '.join(exported.tasks)}", exported.what
        usage = [Section("How to load it", [Code(exported.usage, "python"), Lines(exported.notes)])]
        versions = [f"{package}: {version}" for package, version in exported.versions.items()]
        export = [Section("How it was exported", [Code(exported.command), Lines(versions)])]
        results = {task: entry for task, entry in report.tasks.items() if task in exported.tasks}
        if exported.config:
            text, results, missing = exported.config, {}, OTHER
        shown = report.with_tasks(results)
    encoder, settings = report.encoder, Lines(run_report.run_settings(report))
    what = (
        f"One encoder ({encoder.name}, {encoder.parameters / 1e6:.1f} M parameters), trained "
        f"on the tasks {', '.join(report.tasks)}."
    )
    scores = [Section("Dev scores", [Text(missing)])]
    if shown.tasks:
        several = len(shown.tasks) > 1 or report.trial
        overall = [Lines(run_report.overall_lines(shown))] if several else []
        scores = [
            Section("Dev scores and baselines", [run_report.score_table(shown), *overall]),
            Section("All metrics", [run_report.metric_table(shown)]),
            Section("Data", [run_report.data_table(shown)]),
        ]
    sections = [
        *usage,
        Section("Model", [Text(what)]),
        *scores,
        Section("Contamination", [Lines(_contamination(report, config))]),
        Section("How it was trained", [Code(report.command), settings]),
        *export,
    ]
    page = markdown_page(Page(run_dir, title, summary, sections))
    header = _header(name, shown, config, exported)
    return f"{header}\n{page}\n## Config\n\n````yaml\n{text.rstrip()}\n````\n"


def _contamination(report: RunReport, config: Config) -> list[str]:
    """List the corpora that the encoder has seen, the tasks they affect, and dev rows in train."""
    seen = report.encoder.seen_corpora
    lines = [f"The pretrained weights have seen: {', '.join(seen)}."] if seen else [UNKNOWN]
    if report.encoder.from_scratch:
        lines = ["The encoder started from random weights."]
    touched = [task for task, entry in config.tasks.items() if entry.data.corpus in seen]
    if touched:
        lines.append(f"Their corpora are among these: {', '.join(touched)}.")
    for task, result in report.tasks.items():
        for split, data in result.data.items():
            if data.in_train:
                lines.append(f"{task}: {data.in_train} {split} rows are also in train.")
            if data.in_other_train:
                others = ", ".join(data.other_train)
                rows = f"{data.in_other_train} {split} rows"
                lines.append(f"{task}: {rows} are in train of other tasks: {others}.")
    return [*lines, *(f"Warning of the run: {line}" for line in report.warnings)]


def _header(name: str, shown: RunReport, config: Config, exported: Exported | None) -> str:
    """Write the metadata between two lines of dashes."""
    from huggingface_hub import EvalResult, ModelCardData

    def is_hub_id(name: str) -> bool:
        return bool(re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)) and not Path(name).exists()

    hub_sets = {
        task: str(entry.data.path)
        for task, entry in config.tasks.items()
        if entry.data.format == "hub" and is_hub_id(str(entry.data.path))
    }
    packaged = PACKAGED.get(shown.encoder.name)
    encoder = packaged.hub_id if packaged else shown.encoder.name
    based = not shown.encoder.from_scratch and is_hub_id(encoder)
    results = [
        EvalResult(
            task_type=task_type(result.label_type).pipeline,
            dataset_type=hub_sets.get(task, task),
            dataset_name=task,
            dataset_split="dev",
            metric_type=metric,
            metric_value=result.dev[metric],
            metric_args={"interval_95": result.dev_intervals.get(metric)},
        )
        for task, result in shown.tasks.items()
        for metric in task_type(result.label_type).metrics
        if result.dev.get(metric) is not None
    ]
    data = ModelCardData(
        base_model=encoder if based else None,
        datasets=sorted(set(hub_sets.values())) or None,
        eval_results=results or None,
        library_name=exported.library if exported else None,
        pipeline_tag=exported.pipeline if exported else None,
        model_name=name,
        tags=["multi-task", *(exported.tasks if exported else shown.tasks)],
    )
    return f"---\n{data.to_yaml()}\n---"
