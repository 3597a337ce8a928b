"""Write the measured tables of docs/*.md from the files in docs/results/.

    python docs/make_results.py             # renew the pages
    python docs/make_results.py RUN_DIR ... # first copy what these directories (or files) hold

A run directory called NAME-SEED leaves its report as results/NAME-SEED.json, or, with a contrastive
task, as results/contrastive/NAME-SEED.json; one of another name, of one task, its losses and scores
by epoch, as results/epochs/NAME.json. The directory of an ablation, or of `report`, leaves its
comparison, with the commits and minutes of its runs, as results/grids/NAME.json, of a task that was
trained apart, GRID/tasks/TASK, as results/grids/GRID_TASK.json; that of `table`,
called as its layout, results/papers/NAME.json; that of `export` its card, results/exports/NAME.md;
the numbers that `importance` wrote, NAME.json, results/importance/NAME.json.
What `sts` or `evaluate-search` wrote is copied to results/written/NAME.md by hand. A page says
where a table goes: a line `<!-- measured: KIND NAME -->`, the table, then `<!-- end -->`. Nothing
is typed by hand: tests/test_results.py checks that.
"""

import contextlib
import json
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from multitask.comparison.paper_files import paper_markdown  # noqa: E402
from multitask.comparison.tables import markdown_tables  # noqa: E402
from multitask.config_file import dump_override, load_tree  # noqa: E402
from multitask.errors import UserError  # noqa: E402
from multitask.plots import load_lines  # noqa: E402
from multitask.sweep.grid import load_grid  # noqa: E402
from multitask.tables import markdown_table  # noqa: E402

RUNS_SCRIPT = DOCS.parent / "benchmarks" / "cs224n_results.sh"
REPORTS = DOCS / "results"
GRIDS = REPORTS / "grids"
PAPERS = REPORTS / "papers"
CONTRASTIVE = REPORTS / "contrastive"
EXPORTS = REPORTS / "exports"
EPOCHS = REPORTS / "epochs"
IMPORTANCE = REPORTS / "importance"
# files of measured commands stand by their names alone: where they lay on the machine says nothing
PLACES = re.compile(r"(?<!\S)/\S*/")
BLOCK = re.compile(r"(<!-- measured: (\w+) ?(\S*) -->\n).*?(<!-- end -->\n)", re.DOTALL)
COLUMNS = [
    ("sst", "accuracy"),
    ("qqp", "accuracy"),
    ("qqp", "f1"),
    ("sts", "pearson"),
    ("sts", "spearman"),
]
# The paper's tables: row, the cell of configs/papers/multitask_minibert.yaml, its printed values
MINIBERT_TABLE_1 = [
    ('"STS finetuned" (a misprint: SST)', "sst_finetuned", "sst", 0.528),
    ("QQP finetuned", "qqp_finetuned", "qqp", 0.838),
    ("STS-B Finetuned", "sts_finetuned", "sts", 0.421),
]
MINIBERT_TABLE_2 = [
    ("SST-Finetuned BERT", "sst_finetuned", (0.528, 0.510, 0.283)),
    ("MultiTask BERT", "multitask", (0.480, 0.835, 0.679)),
    ("SBert(MAX,MAX,MAX)", "max_max_max", (0.358, 0.742, 0.630)),
    ("SBert(MEAN,MEAN,MEAN)", "mean_mean_mean", (0.342, 0.826, 0.657)),
    ("SBert(CLS,MEAN,MEAN)", "cls_mean_mean", (0.500, 0.866, 0.767)),
    ("Original PALs", "pals", (0.491, 0.869, 0.580)),
]


def load_reports(directory: Path = REPORTS) -> dict[str, list[dict[str, Any]]]:
    """Reports by run name, seeds in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(directory.glob("*.json")):
        report = json.loads(file.read_text())
        found.setdefault(file.stem.rpartition("-")[0], []).append(report)
    return found


def spread(values: list[float]) -> str:
    """Mean and standard deviation over seeds, as they are printed."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def row(name: str, reports: list[dict[str, Any]], part: str | None = None) -> list[str]:
    """One line of the table: a run's dev scores, or those of one of its baselines."""
    cells = []
    for task, metric in COLUMNS:
        entries = [report["tasks"][task] for report in reports if task in report["tasks"]]
        scores = [entry["baselines"][part] if part else entry["dev"] for entry in entries]
        found = [score[metric] for score in scores if score]
        values = [math.nan if value is None else value for value in found]
        undefined = all(map(math.isnan, values))  # a constant prediction has no correlation
        cells.append("-" if undefined else spread(values))
    course = {task for task, _ in COLUMNS}
    whole = [report["overall"]["mean"] for report in reports if course <= set(report["tasks"])]
    cells.append(spread(whole) if whole and part is None else "-")
    return [name, ", ".join(str(report["seed"]) for report in reports), *cells]


def runs(_: str) -> str:
    """Every run of the full protocol: scores, then where they come from."""
    reports = load_reports()
    header = "run|seeds|SST-5 acc.|QQP acc.|QQP F1|STS Pearson|STS Spearman|mean".split("|")
    lines = [row(name, found) for name, found in reports.items()]
    for name in ("siamese", "cross"):
        if name in reports:
            for part, words in (("frozen", "heads on the frozen encoder"), ("trivial", "trivial")):
                lines.append(row(f"{name}: {words}", reports[name], part))
    sources = []
    for name, found in reports.items():
        for report in found:
            steps = sorted({entry["selected_step"] for entry in report["tasks"].values()})
            flags = [f"{t}: {flag}" for t, e in report["tasks"].items() for flag in e["flags"]]
            sources.append([
                name,
                str(report["seed"]),
                f"`{command_of(report)}`",
                str(report["git_revision"]),
                f"{', '.join(map(str, steps))} of {report['steps']['planned']}",
                f"{report['wall_time_s'] / 60:.0f}",
                "; ".join(flags) or "none",
            ])  # fmt: skip
    titles = ("run", "seed", "command", "commit", "selected step", "minutes", "flags")
    missing = [name for name in planned_runs() if name not in reports]
    rest = f"\nNot measured yet: {', '.join(missing)}.\n" if missing else ""
    return f"{markdown_table(header, lines)}\n\n{markdown_table(titles, sources)}\n{rest}"


def planned_runs() -> list[str]:
    """The rows that the script of the full protocol makes."""
    return re.findall(r"^run (\S+)", RUNS_SCRIPT.read_text(), re.MULTILINE)


def command_of(report: dict[str, Any]) -> str:
    """As the reader would give it."""
    return re.sub(r"data_dir=\S+", "data_dir=DIR", report["command"])


def contrastive(_: str) -> str | None:
    """STS-B dev before and after the runs with a contrastive task, and where they come from."""
    lines = []
    for name, reports in load_reports(CONTRASTIVE).items():
        sts = [report["tasks"]["sts"] for report in reports]
        parts = ([one["baselines"]["frozen"]["spearman"] for one in sts],
                 [one["dev"]["spearman"] for one in sts])  # fmt: skip
        steps = sorted({one["selected_step"] for one in sts})
        planned = reports[0]["steps"]["planned"]
        minutes = sum(report["wall_time_s"] for report in reports) / 60
        lines.append([
            name,
            ", ".join(str(report["seed"]) for report in reports),
            *map(spread, parts),
            f"{', '.join(map(str, steps))} of {planned}",
            f"`{command_of(reports[0])}`",
            ", ".join(sorted({str(report["git_revision"]) for report in reports})),
            f"{minutes:.0f}",
        ])  # fmt: skip
    titles = "run|seeds|before|after|selected step|command|commit|minutes".split("|")
    return f"{markdown_table(titles, lines)}\n" if lines else None


def conflict(name: str) -> str | None:
    """How far the gradients of each two tasks agreed in the runs of that name."""
    reports = load_reports().get(name, [])
    measured = [found for report in reports if (found := report.get("conflict"))]
    if not measured:
        return None
    lines = []
    for pair in measured[0]:
        found = [one[pair] for one in measured if pair in one]
        times = [one["measured"] for one in found]
        below = sum(one["below_0"] * one["measured"] for one in found) / sum(times)
        lines.append([pair, spread([one["mean"] for one in found]), f"{100 * below:.0f} %",
                      f"{sum(times):,}"])  # fmt: skip
    titles = ("tasks", "mean cosine", "share below 0", "measured, all seeds")
    return f"{markdown_table(titles, lines)}\n"


def epochs(name: str) -> str | None:
    """Loss and dev score after each epoch of a run of one task, its command and its commit."""
    file = EPOCHS / f"{name}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text())
    lines = [[f"{line['epoch']:.0f}", *(f"{line[key]:.3f}" for key in ("loss", "score"))]
             for line in found["epochs"]]  # fmt: skip
    table = markdown_table(("epoch", "training loss", f"dev {found['metric']}"), lines)
    source = f"`{found['command']}`, commit {found['commit']}, {found['minutes']} minutes"
    return f"{table}\n\n{source}\n"


def importance(name: str) -> str | None:
    """How much each hidden state counts in the runs of one picture: all texts, short and long."""
    file = IMPORTANCE / f"{name}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text())
    layers = max(one["layers"] for one in found["entries"])
    lines = []
    for one in found["entries"]:
        kinds = {f"all {one['rows']:,}": one["mean"]}
        if one["median"]:
            kinds |= {f"at most {one['median']:g} tokens": one["short"], "longer": one["long"]}
        for texts, values in kinds.items():
            weighed = dict(zip(one["states"], values, strict=True))
            cells = (f"{weighed[i]:.3f}" if i in weighed else "-" for i in range(layers + 1))
            lines.append([Path(one["run"]).name, one["task"], texts, *cells])
    titles = ("run", "task", "texts", "embeddings", *(f"layer {i + 1}" for i in range(layers)))
    return f"{markdown_table(titles, lines)}\n\n{_source(found)}\n"


def measured_grid(name: str) -> dict[str, Any] | None:
    """A saved comparison of a grid; None where it was not measured yet."""
    file = GRIDS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def grid(name: str) -> str | None:
    """All tables of a grid, and where they come from."""
    comparison = measured_grid(name)
    if comparison is None:
        return None
    parts = [part for title, table in markdown_tables(comparison) for part in (f"{title}:", table)]
    return "\n\n".join([*parts, *_notes(comparison), _source(comparison)]) + "\n"


def scores(name: str) -> str | None:
    """The dev scores of a grid alone, and where they come from; its page has the rest."""
    comparison = measured_grid(name)
    if comparison is None:
        return None
    (_, table), *_ = markdown_tables(comparison)
    return "\n\n".join([table, *_notes(comparison), _source(comparison)]) + "\n"


def exported(name: str) -> str | None:
    """What `export` checked and measured, its command and its commit: from the export's card."""
    file = EXPORTS / f"{name}.md"
    if not file.is_file():
        return None
    card = file.read_text().partition("\n# ")[2]
    notes = "\n".join(re.findall(r"^- .*$", card.partition("\n## ")[0], re.MULTILINE))
    made = card.partition("## How it was exported")[2]
    command = re.search(r"^\s*(python .*)$", made, re.MULTILINE)
    revision = re.search(r"git revision: (\S+)", made)
    assert command and revision, file
    shown = re.sub(r"/\S*/", "", command[1])
    return f"{notes}\n\n`{shown}`, commit {revision[1]}\n"


def paper(name: str) -> str | None:
    """What `table` wrote: the paper's table with ours in it, and where ours comes from."""
    file = PAPERS / f"{name}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text())
    text = paper_markdown(found["table"]).partition("\n\n")[2].replace("## ", "### ")
    return f"{text}\n{_source(found)}\n"


def _notes(comparison: dict[str, Any]) -> list[str]:
    """What a reader must know, such as that runs are missing; one list of lines, or nothing."""
    notes = "\n".join(f"- {note}" for note in comparison["notes"])
    return [notes] if notes else []


def _source(saved: dict[str, Any]) -> str:
    source = saved["source"]
    commits = ", ".join(source["commits"])
    took = "" if source["minutes"] is None else f", {source['minutes']} minutes in all"
    kernels = "".join(f", encoder.kernels={name}" for name in source.get("kernels", []))
    return f"`{source['command']}`, commit {commits}: {source['runs']} runs{took}{kernels}."


def minibert(_: str) -> str | None:
    """The two tables of the multi-task mini-BERT paper, printed value and ours side by side."""
    comparison = measured_grid("multitask_minibert")
    if comparison is None:
        return None
    groups = {group["name"]: group for group in comparison["groups"]}

    def ours(cell: str, task: str) -> str:
        entry = groups[cell]["tasks"].get(task) if cell in groups else None
        if entry is None or entry["mean"] is None:
            return "-"
        return f"{entry['mean']:.3f}" + (f" ± {entry['sd']:.3f}" if entry["sd"] else "")

    first = [[label, f"{printed:.3f}", ours(cell, task)]
             for label, cell, task, printed in MINIBERT_TABLE_1]  # fmt: skip
    tasks = ("sst", "qqp", "sts")
    second = [
        [label, *(text for task, value in zip(tasks, printed, strict=True)
                  for text in (f"{value:.3f}", ours(cell, task)))]
        for label, cell, printed in MINIBERT_TABLE_2
    ]  # fmt: skip
    titles = ("SST DEV", "QQP DEV", "STS-B DEV")
    header = ["Method", *(text for title in titles for text in (f"{title}, printed", "ours"))]
    return "\n\n".join([
        "Table 1, BERT single-task fine-tuning (dev):",
        markdown_table(("Method", "printed", "ours"), first),
        "Table 2, multi-task BERT models (dev):",
        markdown_table(header, second),
        *_notes(comparison),
        _source(comparison),
    ]) + "\n"  # fmt: skip


def benchmark(name: str) -> str | None:
    """What a script of benchmarks/ printed."""
    file = REPORTS / "benchmarks" / f"{name}.md"
    return file.read_text() if file.is_file() else None


def written(name: str) -> str | None:
    """The first table of what `sts` or `evaluate-search` wrote, its command and its commit."""
    file = REPORTS / "written" / f"{name}.md"
    if not file.is_file():
        return None
    text = file.read_text()
    head = text.partition("\n## ")[0].partition("\n")[2]
    head = re.sub(r"^(    python |git revision: ).*$", "", head, flags=re.MULTILINE).strip()
    return re.sub(PLACES, "", f"{head}\n\n{_made_by(text)}\n")


def _made_by(text: str) -> str:
    """The command and the commit that such a file names."""
    (command,) = re.findall(r"^    (python .*)$", text, re.MULTILINE)
    (revision,) = re.findall(r"^git revision: (\S+)$", text, re.MULTILINE)
    shown = re.sub(r" --output \S+", "", command)
    return re.sub(PLACES, "", f"`{shown}`, commit {revision}")


def lines_of(names: str) -> str | None:
    """One line of the first table of several written files, a file a line.

    ``names`` are separated by commas; ``/2`` after them asks for the second line.
    """
    header, lines, sources = "", [], []
    names, _, place = names.partition("/")
    for name in names.split(","):
        file = REPORTS / "written" / f"{name}.md"
        if not file.is_file():
            return None
        text = file.read_text()
        header, rule, *rows = re.findall(r"^\|.*$", text, re.MULTILINE)
        title, _, rest = rows[int(place or 1) - 1].removeprefix("| ").partition(" | ")
        own = re.search(r"^# \w+: (?:runs/)?(.*)$", text, re.MULTILINE)
        assert own and set(rule) <= set("|- "), file
        lines.append(f"| {own[1]} | {rest}")
        sources.append(f"- {_made_by(text)}")
    titled = header.replace("|  |", f"| {title} |", 1)
    return "\n".join([titled, rule, *lines, "", *sources]) + "\n"


KINDS = {
    "runs": runs,
    "contrastive": contrastive,
    "conflict": conflict,
    "epochs": epochs,
    "importance": importance,
    "grid": grid,
    "scores": scores,
    "minibert": minibert,
    "paper": paper,
    "exported": exported,
    "benchmark": benchmark,
    "written": written,
    "lines": lines_of,
}


def renewed(page: str) -> str:
    """The page with its measured parts renewed."""
    return BLOCK.sub(
        lambda found: found[1] + (KINDS[found[2]](found[3]) or "Not measured yet.\n") + found[4],
        page,
    )


def pages() -> list[Path]:
    """The pages with measured parts."""
    return [file for file in sorted(DOCS.glob("*.md")) if BLOCK.search(file.read_text())]


def save(directory: Path) -> None:
    """Copy a run's report, a comparison or a paper's table, with its source, into docs/results."""
    if directory.suffix == ".json":
        _save_importance(directory)
    elif (directory / "paper.json").is_file():
        _save_paper(directory)
    elif (directory / "comparison.json").is_file():
        _save_comparison(directory)
    elif not (directory / "report.json").is_file():
        EXPORTS.mkdir(exist_ok=True)
        (EXPORTS / f"{directory.name}.md").write_text((directory / "README.md").read_text())
    elif not re.search(r"-\d+$", directory.name):
        _save_epochs(directory)
    else:
        report = json.loads((directory / "report.json").read_text())
        views = any(task["label_type"] == "views" for task in report["tasks"].values())
        _write((CONTRASTIVE if views else REPORTS) / f"{directory.name}.json", report)


def _save_epochs(directory: Path) -> None:
    """Of a run of one task."""
    report = json.loads((directory / "report.json").read_text())
    ((task, entry),) = report["tasks"].items()
    losses: list[float] = []
    lines = []
    for event in load_lines(directory / "metrics.jsonl"):
        if event["event"] == "step":
            losses.append(event["loss"])
        if event["event"] == "eval":
            score = event["tasks"][task][entry["metric"]]
            lines.append(
                {"epoch": event["epoch"], "loss": statistics.fmean(losses), "score": score}
            )
            losses = []
    found = {
        "metric": entry["metric"],
        "epochs": lines,
        "command": command_of(report),
        "commit": str(report["git_revision"]),
        "minutes": round(report["wall_time_s"] / 60),
    }
    _write(EPOCHS / f"{directory.name}.json", found)


def _save_comparison(directory: Path) -> None:
    """Of an ablation, or what `report` wrote."""
    found = json.loads((directory / "comparison.json").read_text())
    runs = [Path(run) for group in found["groups"] for run in group["runs"]]
    name, grid = directory.name, directory
    if directory.parent.name == "tasks":  # of a grid that trains tasks apart
        grid = directory.parents[1]
        name = f"{grid.name}_{name}"
    if (grid / "cells").is_dir():
        config = _grid_file(grid.name, [group["name"] for group in found["groups"]])
        command = f"ablate {config.relative_to(DOCS.parent)} data_dir=DIR"
        command = " ".join([command, *_overrides(grid, config)])
    else:
        command = f"report {' '.join(f'runs/{run.name}' for run in runs)}"
        for group in found["groups"]:
            group["runs"] = [f"runs/{Path(run).name}" for run in group["runs"]]
    found["source"] = _found_source(command, directory, runs)
    _write(GRIDS / f"{name}.json", found)


def _save_paper(directory: Path) -> None:
    """What `table` wrote."""
    table = json.loads((directory / "paper.json").read_text())
    cells = [cell for row in table["rows"] for cell in row["cells"] if cell]
    # a task with two metrics has its runs in two columns
    runs = [*dict.fromkeys(Path(run) for cell in cells for run in cell.get("runs", []))]
    (layout,) = (DOCS.parent / "configs").rglob(f"{directory.name}.yaml")
    grids = dict.fromkeys(f"runs/{run.parents[2].name}" for run in runs)
    command = f"table {layout.relative_to(DOCS.parent)} {' '.join(grids)}"
    source = _found_source(command, directory, runs)
    configs = [load_tree(_found(run, directory) / "config.yaml").value for run in runs]
    source["kernels"] = sorted({config["encoder"]["kernels"] for config in configs})
    _write(PAPERS / f"{directory.name}.json", {"table": table, "source": source})


def _save_importance(file: Path) -> None:
    """What `importance` wrote, without its examples."""
    entries = json.loads(file.read_text())
    for one in entries:
        del one["texts"], one["weights"]
    runs = [Path(run) for run in dict.fromkeys(one["run"] for one in entries)]
    command = f"importance {' '.join(map(str, runs))}"
    tasks = {one["task"] for one in entries}
    if len(tasks) == 1:
        command += f" --task {tasks.pop()}"
    source = _found_source(command, file, runs)
    _write(IMPORTANCE / file.name, {"entries": entries, "source": source})


def _found_source(command: str, directory: Path, runs: list[Path]) -> dict[str, Any]:
    """Command, commits and time; ``runs`` are as the command named them, from where it was run."""
    reports = [json.loads((_found(run, directory) / "report.json").read_text()) for run in runs]
    return {
        "command": f"python run_multitask.py {command}",
        "commits": sorted({str(report["git_revision"]) for report in reports}),
        "runs": len(reports),
        # a probe stands in many runs, and none has the time to encode
        "minutes": None
        if any(report.get("probe") for report in reports)
        else round(sum(report["wall_time_s"] for report in reports) / 60),
    }


def _found(run: Path, directory: Path) -> Path:
    """The run's directory, which is as a command wrote it that was started above ``directory``."""
    starts = [Path(), *directory.resolve().parents]
    return next(start / run for start in starts if (start / run / "report.json").is_file())


def _overrides(directory: Path, config: Path) -> list[str]:
    """What the command line of an ablation added to its file."""
    asked = load_grid(directory / "grid.yaml").resolved["set"]
    own = load_grid(config).resolved["set"] | {"data_dir": asked.get("data_dir")}
    return [dump_override(key, value) for key, value in asked.items() if own.get(key) != value]


def _write(file: Path, found: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n")


def _grid_file(name: str, cells: list[str]) -> Path:
    """The grid of configs/ that is called so and has these cells."""
    for file in sorted((DOCS.parent / "configs").rglob(f"{name}.yaml")):
        with contextlib.suppress(UserError):  # no grid, or one to be extended
            if set(cells) <= {cell.row for cell in load_grid(file).cells}:  # some have no runs yet
                return file
    raise SystemExit(f"no grid {name}.yaml in configs/ has the cells {', '.join(cells)}")


def main(directories: list[str]) -> None:
    for directory in directories:
        save(Path(directory))
    for file in pages():
        file.write_text(renewed(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
