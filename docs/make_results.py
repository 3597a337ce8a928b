"""Write the measured tables of docs/*.md from the files in docs/results/.

    python docs/make_results.py             # renew the pages
    python docs/make_results.py RUN_DIR ... # first keep what these directories (or files) hold

A page says where a table goes: a line `<!-- measured: KIND NAME -->`, the table, then
`<!-- end -->`. save_results.py says which file of docs/results/ a run leaves. Nothing is typed by
hand: tests/test_results.py checks that.
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from scipy.stats import ttest_rel

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from save_results import REPORTS, command_of, save  # noqa: E402

from multitask.reporting.comparison import tables  # noqa: E402
from multitask.reporting.comparison.significance import holm  # noqa: E402
from multitask.reporting.page import Table  # noqa: E402
from multitask.reporting.paper.files import paper_markdown  # noqa: E402
from multitask.reporting.tables import markdown_table  # noqa: E402

RUNS_SCRIPT = DOCS.parent / "benchmarks" / "cs224n_results.sh"
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
    rectified = any(one.get("above_0") is not None for one in found["entries"])
    lines = []
    for one in found["entries"]:
        kinds = {f"all {one['rows']:,}": one["mean"]}
        if one["median"]:
            kinds |= {f"at most {one['median']:g} tokens": one["short"], "longer": one["long"]}
        for texts, values in kinds.items():
            weighed = dict(zip(one["states"], values, strict=True))
            cells = [f"{weighed[i]:.3f}" if i in weighed else "-" for i in range(layers + 1)]
            if rectified:
                share = one["above_0"] if values is one["mean"] else None
                cells.append("" if share is None else f"{100 * share:.1f} %")
            lines.append([Path(one["run"]).name, one["task"], texts, *cells])
    titles = ("run", "task", "texts", "embeddings", *(f"layer {i + 1}" for i in range(layers)))
    titles += ("above_0",) * rectified
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
    parts = [
        part for title, table in tables.markdown_tables(comparison) for part in (f"{title}:", table)
    ]
    return "\n\n".join([*parts, *_notes(comparison), _source(comparison)]) + "\n"


def scores(name: str) -> str | None:
    """A grid's dev scores with the difference and the time, and where they come from.

    Its page has the rest: the held-out rows, and the difference of each task.
    """
    comparison = measured_grid(name)
    if comparison is None:
        return None
    made = tables.score_table(comparison)
    header, rows = [*made.header], [[*row] for row in made.rows]
    difference = f"mean: {tables.difference_title(comparison).replace('Difference', 'difference')}"
    for title, found in (
        (difference, tables.difference_table(comparison)),
        ("time of an epoch", tables.time_table(comparison)),
    ):
        if found is not None:
            last = {name: cells[-1] for name, *cells in found.rows}
            header.append(title)
            rows = [[*row, last.get(row[0], "-")] for row in rows]
    table = tables.written(Table(header, rows, made.marked), tables.MARKDOWN)
    return "\n\n".join([table, *_notes(comparison), _source(comparison)]) + "\n"


def paired(name: str) -> str | None:
    """Of a grid whose groups come in twos, what the second of two gains over the first.

    By scipy's paired t-test over seeds, the dev rows taken as they are; p is Holm's over the twos.
    """
    comparison = measured_grid(name)
    if comparison is None:
        return None
    groups = comparison["groups"]
    twos = list(zip(groups[::2], groups[1::2], strict=True))
    rows = [[f"{second['name']} - {first['name']}"] for first, second in twos]
    for place, _ in enumerate(tables.columns(comparison)):
        values = [[tables.entries(comparison, group)[place] for group in two] for two in twos]
        tests = [ttest_rel(second["values"], first["values"]) for first, second in values]
        corrected = holm([test.pvalue for test in tests])
        for row, (first, second), test, p in zip(rows, values, tests, corrected, strict=True):
            low, high = test.confidence_interval(comparison["confidence"])
            gain = {"value": second["mean"] - first["mean"], "low": low, "high": high, "p_holm": p}
            row.append(tables.difference_cell(gain))
    table = Table(("over seeds", *tables.columns(comparison)), rows)
    return tables.written(table, tables.MARKDOWN) + "\n"


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
    return _as_page(json.loads(file.read_text()))


def ours(name: str) -> str | None:
    """Our scores and differences in it alone; the paper's page has its values and the times."""
    file = PAPERS / f"{name}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text())
    for cell in filter(None, (cell for row in found["table"]["rows"] for cell in row["cells"])):
        cell |= {"printed": None, "epoch_seconds": None, "dev_seconds": None}
    found["table"] |= {"source": None, "averages": []}
    return _as_page(found)


def _as_page(found: dict[str, Any]) -> str:
    """A saved paper's table as part of a page."""
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
    "paired": paired,
    "minibert": minibert,
    "paper": paper,
    "ours": ours,
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


def main(directories: list[str]) -> None:
    for directory in directories:
        save(Path(directory))
    for file in pages():
        file.write_text(renewed(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
