"""Tables of single runs: scores, conflict, epochs, importance, layers."""

import json
import math
import re
import shlex
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multitask.reporting.table_formats import markdown_table
from multitask.store.saved import RunReport, Score, TaskReport, read_saved
from tools.measured_docs.store import RESULTS, ROOT, run_command, source_line

RUNS_SCRIPT = ROOT / "benchmarks" / "cs224n_results.sh"
EPOCHS = RESULTS / "epochs"
IMPORTANCE = RESULTS / "importance"
LAYERS = RESULTS / "layers"
COLUMNS = {
    ("sst", "accuracy"): "SST-5 acc.",
    ("qqp", "accuracy"): "QQP acc.",
    ("qqp", "f1"): "QQP F1",
    ("sts", "pearson"): "STS Pearson",
    ("sts", "spearman"): "STS Spearman",
}
# words of a command that change no score, or another one in each run
SAME_SCORES = (
    "data_dir=",
    "seed=",
    "output_dir=",
    "encoder.kernels=",
    "training.conflict_steps=",
    "--",
)
BASELINES_OF = ("siamese", "cross")  # runs whose baselines stand for those of the full protocol


def load_reports(directory: Path = RESULTS) -> dict[str, list[RunReport]]:
    """Load the stored reports by run name, seeds in order."""
    reports: dict[str, list[RunReport]] = {}
    for file in sorted(directory.glob("*.json")):
        report = read_saved(file, RunReport)
        reports.setdefault(file.stem.rpartition("-")[0], []).append(report)
    return reports


def planned_runs() -> list[str]:
    """List the runs of the script for the full protocol."""
    return re.findall(r"^run (\S+)", RUNS_SCRIPT.read_text(), re.MULTILINE)


def mean_and_sd(values: list[float]) -> str:
    """Format the mean and the standard deviation over seeds."""
    if len(values) == 1:
        return f"{values[0]:z.3f}"
    return f"{statistics.mean(values):z.3f} ± {statistics.stdev(values):.3f}"


def _number(score: Score) -> float:
    return math.nan if score is None else score


def runs(folder: str) -> str:
    """Write the dev scores of the runs in a folder of docs/results/, then their sources.

    Without a folder these are the runs of the full protocol.
    """
    reports = load_reports(RESULTS / folder)
    baselines = reports if folder else [name for name in BASELINES_OF if name in reports]
    rows = [_scores(name, of_run) for name, of_run in reports.items()]
    for name in baselines:
        for part, words in (("frozen", "heads on the frozen encoder"), ("trivial", "trivial")):
            rows.append(_scores(f"{name}: {words}", reports[name], part))
    rows = [row for row in rows if set(row[2:]) != {"-"}]
    header = ("run", "seeds", *COLUMNS.values(), "mean")
    filled = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    scores = markdown_table([header[i] for i in filled], [[row[i] for i in filled] for row in rows])
    titles = ("run", "seed", "command", "commit", "selected step", "minutes", "flags")
    sources = [_run_source(name, report) for name, of_run in reports.items() for report in of_run]
    missing = [] if folder else [name for name in planned_runs() if name not in reports]
    rest = f"\nNot measured yet: {', '.join(missing)}.\n" if missing else ""
    return f"{scores}\n\n{markdown_table(titles, sources)}\n{rest}"


def presets(_: str) -> str:
    """Write the dev scores of the runs of all tasks with several seeds, the highest mean first.

    The setting is the config and what the command changed in it, without what changes no score.
    """
    reports = load_reports()
    rows = []
    for name, of_run in reports.items():
        cells = _scores(name, of_run)[2:]
        if len(of_run) > 1 and "-" not in cells:
            words = shlex.split(run_command(of_run[0]))[2:]
            kept = [word for word in words if not word.startswith(SAME_SCORES)]
            rows.append([f"`{shlex.join(kept)}`", str(len(of_run)), *cells])
    rows.sort(key=lambda row: row[-1], reverse=True)
    return markdown_table(("setting", "seeds", *COLUMNS.values(), "mean"), rows) + "\n"


def _scores(name: str, reports: list[RunReport], baseline: str | None = None) -> list[str]:
    """Write one row: the dev scores of a run, or of one of its baselines."""
    cells = []
    for task, metric in COLUMNS:
        entries = [report.tasks[task] for report in reports if task in report.tasks]
        scores = [_scores_of(entry, baseline) for entry in entries]
        measured = [score[metric] for score in scores if score]
        values = [*map(_number, measured)]
        undefined = all(map(math.isnan, values))  # a constant prediction has no correlation
        cells.append("-" if undefined else mean_and_sd(values))
    course = {task for task, _ in COLUMNS}
    means = [_number(report.overall.mean) for report in reports if course <= set(report.tasks)]
    cells.append(mean_and_sd(means) if means and baseline is None else "-")
    return [name, ", ".join(str(report.seed) for report in reports), *cells]


def _scores_of(entry: TaskReport, baseline: str | None) -> Mapping[str, Score] | None:
    """Return the dev scores of a task, or those of a baseline; None if it was not measured."""
    if baseline is None:
        return entry.dev
    return entry.baselines.frozen if baseline == "frozen" else entry.baselines.trivial


def _run_source(name: str, report: RunReport) -> list[str]:
    """Write one row: where the scores of a run come from."""
    flags = [f"{task}: {flag}" for task, e in report.tasks.items() for flag in e.flags]
    selected = {entry.selected_step for entry in report.tasks.values()}
    steps = sorted(step for step in selected if step is not None)
    return [
        name,
        str(report.seed),
        f"`{run_command(report)}`",
        str(report.git_revision),
        f"{', '.join(map(str, steps))} of {report.steps.planned}",
        f"{report.wall_time_s / 60:.0f}",
        "; ".join(flags).replace("|", "\\|") or "none",
    ]


def conflict(name: str) -> str | None:
    """Write how far the gradients of each two tasks agreed in the runs of that name."""
    cosines = [one for report in load_reports().get(name, []) if (one := report.conflict)]
    if not cosines:
        return None
    rows = []
    for pair in cosines[0]:
        of_pair = [one[pair] for one in cosines if pair in one]
        times = sum(one.measured for one in of_pair)
        below = sum(one.below_0 * one.measured for one in of_pair) / times
        mean = mean_and_sd([one.mean for one in of_pair])
        rows.append([pair, mean, f"{100 * below:.0f} %", f"{times:,}"])
    titles = ("tasks", "mean cosine", "share below 0", "measured, all seeds")
    return f"{markdown_table(titles, rows)}\n"


def epochs(name: str) -> str:
    """Write loss and dev score after each epoch of a run of one task, and its source."""
    run = json.loads((EPOCHS / f"{name}.json").read_text())
    rows = [[f"{line['epoch']:.0f}", f"{line['loss']:.3f}", f"{line['score']:.3f}"]
            for line in run["epochs"]]  # fmt: skip
    table = markdown_table(("epoch", "training loss", f"dev {run['metric']}"), rows)
    return f"{table}\n\n`{run['command']}`, commit {run['commit']}, {run['minutes']} minutes\n"


def importance(name: str) -> str:
    """Write the weight of each hidden state in the runs of one figure: all, short, long texts."""
    stored = json.loads((IMPORTANCE / f"{name}.json").read_text())
    if stored["entries"][0]["split"] == "texts":
        return _examples(stored)
    layers = max(entry["layers"] for entry in stored["entries"])
    rectified = any(entry.get("above_0") is not None for entry in stored["entries"])
    rows = []
    for entry in stored["entries"]:
        weights = {f"all {entry['rows']:,}": entry["mean"]}
        if entry["median"]:
            short = f"at most {entry['median']:g} tokens"
            weights |= {short: entry["short"], "longer": entry["long"]}
        for texts, values in weights.items():
            of_state = dict(zip(entry["states"], values, strict=True))
            cells = [f"{of_state[i]:.3f}" if i in of_state else "-" for i in range(layers + 1)]
            if rectified:
                share = entry["above_0"] if values is entry["mean"] else None
                cells.append("" if share is None else f"{100 * share:.1f} %")
            rows.append([Path(entry["run"]).name, entry["task"], texts, *cells])
    titles = ["run", "task", "texts", "embeddings", *(f"layer {i + 1}" for i in range(layers))]
    titles += ["above_0"] * rectified
    return f"{markdown_table(titles, rows)}\n\n{source_line(stored['source'])}\n"


def _examples(stored: Mapping[str, Any]) -> str:
    """Write the weight of each hidden state for each text that was given (``--text``)."""
    entries = stored["entries"]
    rows = [
        [Path(entry["run"]).parent.name, text, *(f"{weight:.3f}" for weight in weights)]
        for entry in entries
        for text, weights in zip(entry["texts"], entry["weights"], strict=True)
    ]
    layers = [f"layer {state}" if state else "embeddings" for state in entries[0]["states"]]
    table = markdown_table(["cell", "text", *layers], rows)
    return f"{table}\n\n{source_line(stored['source'])}\n"


def layers(name: str) -> str:
    """Write, per suite and pooling, the correlation of the last layer and of the best one below."""
    saved = json.loads((LAYERS / f"{name}.json").read_text())
    suites = {suite: of["all"] for suite, of in saved["suites"].items()}
    poolings = next(iter(suites.values()))
    rows = [[suite, *map(_last_layer, scores.values())] for suite, scores in suites.items()]
    titles = ["last layer (highest layer below)", *poolings]
    return f"{markdown_table(titles, rows)}\n"


def _last_layer(by_layer: Score | list[Score]) -> str:
    """Write the last score of a list, and the highest before it; a number has no layers."""
    if not isinstance(by_layer, list):
        return f"{100 * _number(by_layer):.2f}"
    *below, last = map(_number, by_layer)
    highest = max((score for score in below if not math.isnan(score)), default=math.nan)
    return f"{100 * last:.2f} ({100 * highest:.2f})"
