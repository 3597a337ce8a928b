"""Keep what runs and commands left, with command, commits and minutes, in docs/results/.

A run directory called NAME-SEED leaves its report as results/NAME-SEED.json, or, with a contrastive
task, as results/contrastive/NAME-SEED.json; one of another name, of one task, its losses and scores
by epoch, as results/epochs/NAME.json. The directory of an ablation, or of `report`, leaves its
comparison, with the commits and minutes of its runs, as results/grids/NAME.json, of a task that was
trained apart, GRID/tasks/TASK, as results/grids/GRID_TASK.json; that of `table`,
called as its layout, results/papers/NAME.json, whose columns without runs stay as they were kept;
that of `export` its card, results/exports/NAME.md; the numbers that `importance` wrote, NAME.json,
results/importance/NAME.json.
What `sts` or `evaluate-search` wrote is copied to results/written/NAME.md by hand. make_results.py
calls this, and writes the pages.
"""

import contextlib
import json
import re
import statistics
from pathlib import Path
from typing import Any

from multitask.config.run_directory import load_lines
from multitask.config.yaml_tree import dump_override, load_tree
from multitask.sweep.grid import load_grid
from multitask.utils.errors import UserError

DOCS = Path(__file__).parent
REPORTS = DOCS / "results"


def save(directory: Path, results: Path = REPORTS) -> None:
    """Copy a run's report, a comparison or a paper's table, with its source, into ``results``."""
    if directory.suffix == ".json":
        _save_importance(directory, results)
    elif (directory / "paper.json").is_file():
        _save_paper(directory, results)
    elif (directory / "comparison.json").is_file():
        _save_comparison(directory, results)
    elif not (directory / "report.json").is_file():
        (results / "exports").mkdir(exist_ok=True)
        card = (directory / "README.md").read_text()
        (results / "exports" / f"{directory.name}.md").write_text(card)
    elif not re.search(r"-\d+$", directory.name):
        _save_epochs(directory, results)
    else:
        report = json.loads((directory / "report.json").read_text())
        views = any(task["label_type"] == "views" for task in report["tasks"].values())
        _write((results / "contrastive" if views else results) / f"{directory.name}.json", report)


def _save_epochs(directory: Path, results: Path) -> None:
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
    _write(results / "epochs" / f"{directory.name}.json", found)


def _save_comparison(directory: Path, results: Path) -> None:
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
    _write(results / "grids" / f"{name}.json", found)


def _save_paper(directory: Path, results: Path) -> None:
    """What `table` wrote; a column without runs stays as it was kept before, with its runs."""
    table = json.loads((directory / "paper.json").read_text())
    file = results / "papers" / f"{directory.name}.json"
    kept = json.loads(file.read_text()) if file.is_file() else {}
    found = {run: _found(Path(run), directory) for run in _runs_of(table)}
    made = {run: _made(place) | {"kernels": _kernels(place)} for run, place in found.items()}
    same = "made" in kept and kept["table"]["columns"] == table["columns"]
    if same and not table["averages"]:  # which are of all columns
        _fill_columns(table, kept["table"])
        made = kept["made"] | made
    made = {run: made[run] for run in _runs_of(table)}
    (layout,) = (DOCS.parent / "configs").rglob(f"{directory.name}.yaml")
    grids = dict.fromkeys(f"runs/{Path(run).parents[2].name}" for run in made)
    command = f"table {layout.relative_to(DOCS.parent)} {' '.join(grids)}"
    source = _source(command, list(made.values()))
    source["kernels"] = sorted({one["kernels"] for one in made.values()})
    _write(file, {"table": table, "source": source, "made": made})


def _runs_of(table: dict[str, Any]) -> list[str]:
    """Each once: a task with two metrics has its runs in two columns."""
    cells = [cell for row in table["rows"] for cell in row["cells"] if cell]
    return [*dict.fromkeys(run for cell in cells for run in cell.get("runs", []))]


def _kernels(run: Path) -> str:
    return str(load_tree(run / "config.yaml").value["encoder"]["kernels"])


def _fill_columns(table: dict[str, Any], kept: dict[str, Any]) -> None:
    """Put the kept columns into ``table`` that have no runs there, and the notes about them."""
    before = {row["name"]: row["cells"] for row in kept["rows"]}
    empty = [
        place
        for place in range(len(table["columns"]))
        if not any((row["cells"][place] or {}).get("runs") for row in table["rows"])
    ]
    for row in table["rows"]:
        for place in empty:
            if row["name"] in before:
                row["cells"][place] = before[row["name"]][place]
    if empty:
        table["notes"] = [*dict.fromkeys([*table["notes"], *kept["notes"]])]


def _save_importance(file: Path, results: Path) -> None:
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
    _write(results / "importance" / file.name, {"entries": entries, "source": source})


def _found_source(command: str, directory: Path, runs: list[Path]) -> dict[str, Any]:
    """Command, commits and time; ``runs`` are as the command named them, from where it was run."""
    return _source(command, [_made(_found(run, directory)) for run in runs])


def _source(command: str, made: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [one["seconds"] for one in made]
    return {
        "command": f"python run_multitask.py {command}",
        "commits": sorted({one["commit"] for one in made}),
        "runs": len(made),
        "minutes": None if None in seconds else round(sum(seconds) / 60),
    }


def _made(run: Path) -> dict[str, Any]:
    """What a run's part in a source is."""
    report = json.loads((run / "report.json").read_text())
    # a probe stands in many runs, and none has the time to encode
    seconds = None if report.get("probe") else report["wall_time_s"]
    return {"commit": str(report["git_revision"]), "seconds": seconds}


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
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n")


def _grid_file(name: str, cells: list[str]) -> Path:
    """The grid of configs/ that is called so and has these cells."""
    for file in sorted((DOCS.parent / "configs").rglob(f"{name}.yaml")):
        with contextlib.suppress(UserError):  # no grid, or one to be extended
            if set(cells) <= {cell.row for cell in load_grid(file).cells}:  # some have no runs yet
                return file
    raise SystemExit(f"no grid {name}.yaml in configs/ has the cells {', '.join(cells)}")


def command_of(report: dict[str, Any]) -> str:
    """As the reader would give it."""
    return re.sub(r"data_dir=\S+", "data_dir=DIR", report["command"])
