"""Store the results of runs and commands in docs/results/, with command, commits and minutes.

| what is given | what is stored in docs/results/ |
| --- | --- |
| a run NAME-SEED | its report: NAME-SEED.json |
| a run NAME-SEED with a contrastive task | its report: contrastive/NAME-SEED.json |
| a trial NAME-SEED (`train --try`) | its report: trials/NAME-SEED.json |
| a run NAME of one task | its losses and scores per epoch: epochs/NAME.json |
| what `ablate` or `report` wrote | its comparison: grids/NAME.json |
| GRID/tasks/TASK, of a grid that trains tasks apart | its comparison: grids/GRID_TASK.json |
| what `table` wrote, in a directory named as its layout | papers/NAME.json |
| what `export` wrote | its model card: exports/NAME.md |
| NAME.json, which `importance` wrote | importance/NAME.json |
| such a run, if its log has the space of its vectors | and its evaluations: space/NAME-SEED.json |

Beside a comparison stand its runs' predictions on dev, where a task has a file of a course
(``course_file``): predictions/NAME.tar.xz, without texts and labels. `score` reads them.

In a paper's table, the columns that have no runs now keep what was stored before.
Copy what `sts` or `evaluate-search` wrote to docs/results/written/NAME.md by hand.
"""

import contextlib
import io
import json
import re
import statistics
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from multitask.config.registry import task_type
from multitask.config.yaml_merge import load_tree
from multitask.config.yaml_reader import dump_override
from multitask.reporting.sheet import Sheet
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.sweep.grid import GridFile, load_grid
from multitask.sweep.sweep_directory import SweepDirectory
from multitask.utils.errors import UserError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"


class Source(TypedDict):
    """The source of a stored file."""

    command: str
    commits: list[str]
    runs: int
    minutes: int | None
    kernels: NotRequired[list[str]]


class Origin(TypedDict):
    """The commit and the time of a run."""

    commit: str
    seconds: float | None
    kernels: NotRequired[str]


class StoredSheet(Sheet):
    """A sheet and its source; of a paper's table also the origin of each run, if it is known."""

    source: Source
    made: NotRequired[dict[str, Origin]]


def run_command(report: RunReport) -> str:
    """Return the command of a run as a reader would type it."""
    command = re.sub(r" output_dir=/\S+| --overwrite", "", report.command)
    return re.sub(r"data_dir=\S+", "data_dir=DIR", command)


def source_line(source: Source) -> str:
    """Write the source of a stored file: command, commits, number of runs, time."""
    commits = ", ".join(source["commits"])
    minutes = "" if source["minutes"] is None else f", {source['minutes']} minutes in all"
    kernels = "".join(f", encoder.kernels={name}" for name in source.get("kernels", []))
    runs = "1 run" if source["runs"] == 1 else f"{source['runs']} runs"
    return f"`{source['command']}`, commit {commits}: {runs}{minutes}{kernels}."


def store(path: Path, results: Path = RESULTS) -> None:
    """Store what a run or a command left at ``path`` (a directory, or a JSON file)."""
    if path.suffix == ".json":
        _store_importance(path, results)
    elif (path / "paper.json").is_file():
        _store_paper(path, results)
    elif (path / "comparison.json").is_file():
        _store_comparison(path, results)
    elif not RunDirectory(path).finished:
        (results / "exports").mkdir(exist_ok=True)
        (results / "exports" / f"{path.name}.md").write_text(RunDirectory(path).card.read_text())
    elif not re.search(r"-\d+$", path.name):
        _store_epochs(path, results)
    else:
        report = RunDirectory(path).load_report()
        types = [task_type(task.label_type) for task in report.tasks.values()]
        contrastive = any(kind.compares_rows for kind in types)
        folder = "trials" if report.trial else "contrastive" if contrastive else ""
        directory = results / folder
        _write(directory / f"{path.name}.json", _read(RunDirectory(path).report))
        events = RunDirectory(path).load_events()
        if any(event["event"] == "space" for event in events):
            space = {
                "command": run_command(report),
                "commit": str(report.git_revision),
                "events": [event for event in events if event["event"] in ("space", "eval")],
            }
            _write(results / "space" / f"{path.name}.json", space)


def _read(file: Path) -> Any:
    return json.loads(file.read_text())


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=1) + "\n")


# --- one kind of result each ---


def _store_epochs(run: Path, results: Path) -> None:
    """Store the losses and scores per epoch of a run of one task."""
    report = RunDirectory(run).load_report()
    ((task, entry),) = report.tasks.items()
    losses: list[float] = []
    lines = []
    for event in RunDirectory(run).load_events():
        if event["event"] == "step":
            losses.append(event["loss"])
        if event["event"] == "eval":
            score = event["tasks"][task][entry.metric]
            loss = statistics.fmean(losses)
            lines.append({"epoch": event["epoch"], "loss": loss, "score": score})
            losses = []
    stored = {
        "metric": entry.metric,
        "epochs": lines,
        "command": run_command(report),
        "commit": str(report.git_revision),
        "minutes": round(report.wall_time_s / 60),
    }
    _write(results / "epochs" / f"{run.name}.json", stored)


def _store_comparison(directory: Path, results: Path) -> None:
    """Store the comparison of an ablation, or of `report`."""
    sheet: Sheet = _read(directory / "comparison.json")
    rows = sheet["rows"]
    runs = [Path(run) for row in rows for run in row["runs"]]
    name, grid = directory.name, directory
    if directory.parent.name == "tasks":  # of a grid that trains tasks apart
        grid = directory.parents[1]
        name = f"{grid.name}_{name}"
    if SweepDirectory(grid).cells.is_dir():
        config = _grid_file(grid.name, [row["name"] for row in rows])
        command = f"ablate {config.relative_to(ROOT)} data_dir=DIR"
        command = " ".join([command, *_overrides(grid, config)])
    else:
        command = f"report {' '.join(f'runs/{run.name}' for run in runs)}"
        for row in rows:
            row["runs"] = [f"runs/{Path(run).name}" for run in row["runs"]]
    places = [_locate(run, directory) for run in runs]
    stored: StoredSheet = {**sheet, "source": _source(command, [*map(_origin, places)])}
    _write(results / "grids" / f"{name}.json", stored)
    _pack_predictions(places, results / "predictions" / f"{name}.tar.xz")


def _pack_predictions(runs: Sequence[Path], archive: Path) -> None:
    """Pack the course's dev files as ``CELL/RUN/FILE``; the same files give the same bytes."""
    pattern = RunDirectory(archive).course_file("*", "dev").name
    found = {
        f"{run.parent.name}/{run.name}/{file.name}": file.read_bytes()
        for run in runs
        for file in sorted(RunDirectory(run).predictions.glob(pattern))
    }
    if not found:
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as tar:
        for name, content in found.items():
            member = tarfile.TarInfo(name)  # no times and no owner
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _store_paper(directory: Path, results: Path) -> None:
    """Store a paper's table; a column that has no runs now keeps what was stored before."""
    table: Sheet = _read(directory / "paper.json")
    file = results / "papers" / f"{directory.name}.json"
    before: StoredSheet | None = _read(file) if file.is_file() else None
    runs = {run: _locate(Path(run), directory) for run in _runs_of(table)}
    made = {run: _origin(place) for run, place in runs.items()}
    for run, place in runs.items():
        made[run]["kernels"] = _kernels(place)
    same_columns = before is not None and before["columns"] == table["columns"]
    averaged = any("over" in column for column in table["columns"].values())  # all columns
    if before is not None and "made" in before and same_columns and not averaged:
        _fill_columns(table, before)
        made = before["made"] | made
    made = {run: made[run] for run in _runs_of(table)}
    (layout,) = (ROOT / "configs").rglob(f"{directory.name}.yaml")
    grids = dict.fromkeys(f"runs/{Path(run).parents[2].name}" for run in made)
    source = _source(f"table {layout.relative_to(ROOT)} {' '.join(grids)}", [*made.values()])
    source["kernels"] = sorted({origin["kernels"] for origin in made.values()})
    stored: StoredSheet = {**table, "source": source, "made": made}
    _write(file, stored)


def _store_importance(file: Path, results: Path) -> None:
    """Store what `importance` wrote."""
    entries = _read(file)
    runs = [Path(run) for run in dict.fromkeys(entry["run"] for entry in entries)]
    command = f"importance {' '.join(map(str, runs))}"
    tasks = {entry["task"] for entry in entries}
    if len(tasks) == 1:
        command += f" --task {tasks.pop()}"
    if entries[0]["split"] != "dev":
        command += "".join(f' --text "{text}"' for text in entries[0]["texts"])
    source = _source(command, [_origin(_locate(run, file)) for run in runs])
    _write(results / "importance" / file.name, {"entries": entries, "source": source})


# --- sources ---


def _source(command: str, origins: list[Origin]) -> Source:
    seconds = [origin["seconds"] for origin in origins]
    known = [each for each in seconds if each is not None]
    return {
        "command": f"python run_multitask.py {command}",
        "commits": sorted({origin["commit"] for origin in origins}),
        "runs": len(origins),
        "minutes": round(sum(known) / 60) if known == seconds else None,
    }


def _origin(run: Path) -> Origin:
    report = RunDirectory(run).load_report()
    # a probe is part of several runs, and no run has the time to encode
    seconds = None if report.probe else report.wall_time_s
    return {"commit": str(report.git_revision), "seconds": seconds}


def _locate(run: Path, result: Path) -> Path:
    """Find a run's directory: its path is relative to some directory above ``result``."""
    starts = [Path(), *result.resolve().parents]
    return next(start / run for start in starts if RunDirectory(start / run).finished)


def _kernels(run: Path) -> str:
    return str(load_tree(RunDirectory(run).config).value["encoder"]["kernels"])


# --- papers' tables ---


def _runs_of(table: Sheet) -> list[str]:
    """List each run once: a task with two metrics has its runs in two columns."""
    cells = [cell for row in table["rows"] for cell in row["cells"].values()]
    return [*dict.fromkeys(run for cell in cells for run in cell.get("runs", []))]


def _fill_columns(table: Sheet, before: Sheet) -> None:
    """Copy the columns that have no runs now from the table before, with its notes."""
    cells_before = {row["name"]: row["cells"] for row in before["rows"]}
    empty = [
        name
        for name in table["columns"]
        if not any(name in r["cells"] and r["cells"][name].get("runs") for r in table["rows"])
    ]
    for row in table["rows"]:
        old = cells_before.get(row["name"], {})
        row["cells"] |= {name: old[name] for name in empty if name in old}
    if empty:
        table["notes"] = [*dict.fromkeys([*table["notes"], *before["notes"]])]


# --- grids ---


def _grid_file(name: str, cells: list[str]) -> Path:
    """Find the grid of configs/ that has this name and these cells."""
    for file in sorted((ROOT / "configs").rglob(f"{name}.yaml")):
        with contextlib.suppress(UserError):  # no grid, or one to be extended
            if set(cells) <= {cell.row for cell in load_grid(file).cells}:  # some have no runs yet
                return file
    raise SystemExit(f"no grid {name}.yaml in configs/ has the cells {', '.join(cells)}")


def _overrides(directory: Path, config: Path) -> list[str]:
    """List what the command line of an ablation added to its file."""
    grids = (load_grid(file) for file in (SweepDirectory(directory).grid, config))
    resolved, in_file = (GridFile.model_validate(grid.resolved).set for grid in grids)
    in_file |= {"data_dir": resolved.get("data_dir")}
    return [dump_override(key, v) for key, v in resolved.items() if in_file.get(key) != v]
