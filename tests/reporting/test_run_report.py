"""The reports of a run, and its worst mistakes."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from multitask.config.registry import task_type
from multitask.reporting.page import markdown_block
from multitask.reporting.run_report import (
    SCORES_HEADER,
    data_table,
    mistakes,
    terminal_table,
    write_reports,
)
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.utils.errors import UserError
from tests.support.fabricated_run import CLASSES, edited, edited_config, write_run
from tests.support.run_files import task_entry


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The fabricated run's folder, its report and its report.md."""
    folder = tmp_path_factory.mktemp("runs") / "a_run"
    report = write_run(folder)
    path = write_reports(RunDirectory(folder))
    assert path == folder / "report.md"
    return folder, report, path.read_text(encoding="utf-8")


def section(markdown, heading):
    """The text under a heading, up to the next heading of that level or a higher one."""
    level = heading.count("#")
    return re.split(rf"\n#{{1,{level}}} ", markdown.split(f"\n{heading}\n", 1)[1])[0]


def rows(text):
    """The cells of each body row of the first Markdown table, unescaped pipes split."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert {len(row) for row in cells} == {len(cells[0])}
    return cells[2:]


def rounded(value):
    return "-" if value is None else f"{value:.3f}"


def test_load_report_reads_the_file_or_says_what_is_missing(run, tmp_path):
    folder, report, _ = run
    assert RunDirectory(folder).load_report().content() == report
    with pytest.raises(UserError, match=r"report\.json does not exist"):
        RunDirectory(tmp_path).load_report()


def test_every_score_equals_report_json(run):
    _, report, markdown = run
    shown = {tuple(row[:2]): row[2:] for row in rows(section(markdown, "## All metrics"))}
    expected = {}
    for task, result in report["tasks"].items():
        frozen = result["baselines"]["frozen"] or {}
        for name in task_type(result["label_type"]).metrics:
            low, high = result["dev_intervals"][name]
            expected[task, name.replace("_", r"\_")] = [
                f"{result['dev'][name]:.3f} [{low:.3f}, {high:.3f}]",
                rounded(frozen.get(name)),
                rounded(result["baselines"]["trivial"][name]),
            ]
    assert shown == expected

    scores = {row[0]: row[1:5] for row in rows(section(markdown, "## Dev scores"))}
    for task, result in report["tasks"].items():
        assert scores[task] == [result["metric"], *expected[task, result["metric"]]]
    assert scores["sts"][2:] == ["-", "-"]


def test_flags_overall_scores_and_warnings_are_shown(run):
    _, report, markdown = run
    scores = section(markdown, "## Dev scores")
    flags = [row[5].replace("&lt;", "<") for row in rows(scores)]
    assert flags == [report["tasks"]["sst"]["flags"][0], "", ""]
    assert f"overall: {rounded(report['overall']['mean'])} (" in scores
    assert "CS224N" not in scores  # null: not the course's three tasks
    assert r"para \| is no held-out task" in section(markdown, "## Warnings")


def test_a_task_that_no_step_trained_is_flagged(tiny_run):
    """Two steps in turn, three tasks."""
    tasks = RunDirectory(tiny_run).load_report().tasks
    trained = {task: entry.turns.trained for task, entry in tasks.items()}
    assert trained == {"sst": 1, "qqp": 1, "sts": 0}
    assert [task for task in tasks if "no step trained it" in tasks[task].flags] == ["sts"]


def test_data_and_turns(run):
    _, _, markdown = run
    data = rows(section(markdown, "## Data"))
    assert [row[:2] for row in data[:3]] == [["sst", "train"], ["sst", "dev"], ["para", "train"]]
    assert len(data) == 8
    assert data[1][3:] == ["120", "3", "1", "12", "17", "1.2 %", "25.0"]
    assert rows(section(markdown, "## Turns")) == [
        ["sst", "40", "0", "-", "80"],
        ["para", "20", "20", "60", "80"],
        ["sts", "40", "0", "-", "80"],
    ]


def test_dev_rows_in_train_of_other_tasks_have_a_column_where_there_are_any(run):
    report = copy.deepcopy(run[1])
    plain = data_table(RunReport.model_validate(report))
    assert not any("other tasks" in title for title in plain.header)
    report["tasks"]["sst"]["data"]["dev"]["in_other_train"] = 1830
    table = data_table(RunReport.model_validate(report))
    of_dev = dict(zip(table.header, table.rows[1], strict=True))
    assert of_dev["in train of other tasks"] == "1,830"


def test_gradient_conflict_is_shown_where_it_was_measured(run, tmp_path):
    assert "## Gradient conflict" not in run[2]
    write_run(tmp_path)
    result = {"sst-para": {"measured": 1200, "mean": -0.0123, "below_0": 0.625}}
    edited(tmp_path, lambda report: report.update(conflict=result))
    text = write_reports(RunDirectory(tmp_path)).read_text(encoding="utf-8")
    table = rows(section(text, "## Gradient conflict"))
    assert table == [["sst-para", "1,200", "-0.012", "62 %"]]


def test_the_set_up_says_what_was_trained(tmp_path):
    write_run(tmp_path, training={"epochs": 7, "sampler": "proportional", "head_lr": 0.01})
    sts = {"pooling": {"name": "hire", "dropout": 0.2}, "adapter": "pal", "head_lr": 1e-4}
    sts |= {"smart": {"weight": 3, "norm": "l2"}}
    edited_config(tmp_path, lambda config: config["tasks"]["sts"].update(sts))
    text = write_reports(RunDirectory(tmp_path)).read_text(encoding="utf-8")
    result = section(text, "## Set-up")
    table = {row[0]: row[1:] for row in rows(result)}
    assert set(table) == {"sst", "para", "sts"}
    shown = table["sts"]
    assert shown[1] == "hire (dropout 0.2)" and shown[4] == "pal"
    assert shown[6:] == ["weight 3.0, norm l2", "16", "0.0001"]
    assert table["sst"][6:] == ["-", "16", "0.01"]
    assert "7 epochs; encoder's rate" in result and "; proportional, alternate" in result


def test_settings_repeat_the_run(run):
    _, report, markdown = run
    settings = section(markdown, "## Settings")
    assert f"```sh\n{report['command']}\n```" in settings
    for line in ("seed: 11711", "git revision: -", "torch 2.13.0", "wall time: 13 min 32 s"):
        assert line in settings


def test_every_link_resolves_and_has_an_alt_text(run):
    folder, _, markdown = run
    links = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", markdown)
    assert len(links) == 5 and all(alt for alt, _ in links)
    for _, target in links:
        assert target.startswith("figures/") and (folder / unquote(target)).is_file()


def test_the_terminal_table_is_aligned_and_complete(run):
    _, report, _ = run
    header, rule, *body = terminal_table(RunReport.model_validate(report)).splitlines()
    starts = [match.start() for match in re.finditer(r"-+", rule)]
    columns = [header[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert columns == list(SCORES_HEADER[:-1])
    for line, (task, result) in zip(body[:3], report["tasks"].items(), strict=True):
        cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        assert cells[:2] == [task, result["metric"]]
        assert cells[2].startswith(rounded(result["dev"][result["metric"]]))
    assert body[3] == ""
    assert body[4].startswith(f"overall: {rounded(report['overall']['mean'])}")
    flags = [f"- {task}: {flag}" for task, one in report["tasks"].items() for flag in one["flags"]]
    assert flags and body[5:] == flags
    report["overall"]["cs224n"] = 0.75
    lines = terminal_table(RunReport.model_validate(report)).splitlines()
    assert lines[len(lines) - len(flags) - 1].startswith("CS224N overall: 0.750")


def test_undefined_scores_of_a_diverged_run(run):
    broken = copy.deepcopy(run[1])
    broken["tasks"]["sts"]["dev"]["pearson"] = None
    broken["tasks"]["sts"]["dev_intervals"]["pearson"] = [None, None]
    broken["overall"]["mean"] = None
    table = terminal_table(RunReport.model_validate(broken))
    assert re.search(r"^sts +pearson +- +- +-$", table, re.MULTILINE)
    assert "overall: - (" in table


def test_reports_need_no_torch_and_figures_no_pyplot(run):
    code = (
        "import pathlib, sys;"
        "from multitask.reporting.run_report import RunDirectory, write_reports;"
        "assert not {'torch', 'matplotlib'} & {*sys.modules};"
        "write_reports(RunDirectory(pathlib.Path(sys.argv[1])));"
        "assert not {'torch', 'matplotlib.pyplot'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code, str(run[0])], check=True)


@pytest.fixture(scope="module")
def scored_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_run(folder, noise=0.4)
    return RunDirectory(folder)


def table_of(scored_run, task):
    """The table of a task's mistakes, and the records that it is made from."""
    records = scored_run.load_predictions(task, "dev")
    return mistakes(scored_run.load_report().tasks[task], records), records


@pytest.mark.parametrize("task", ["sst", "para"])
def test_the_mistakes_are_the_wrong_rows_of_highest_probability(scored_run, task):
    table, records = table_of(scored_run, task)
    wrong = {}
    for record in records:
        if record["prediction"] != record["label"]:
            first = record["scores"][0]
            binary = first if record["prediction"] == 1 else 1 - first
            confidence = binary if task == "para" else max(record["scores"])
            wrong[record["id"]] = (confidence, record)
    assert len(wrong) > 20
    expected = sorted(wrong, key=lambda row: -wrong[row][0])[:20]
    assert [row[0] for row in table.rows] == expected
    assert [row[-1] for row in table.rows] == [f"{wrong[row][0]:.3f}" for row in expected]
    for row in table.rows:
        record = wrong[row[0]][1]
        pair = record["label"], record["prediction"]
        named = [CLASSES[label] for label in pair] if task == "sst" else map(str, pair)
        assert list(row[-3:-1]) == list(named)


def test_the_mistakes_of_numbers_are_the_largest_errors(scored_run):
    table, records = table_of(scored_run, "sts")
    errors = {r["id"]: abs(r["prediction"] - r["label"]) for r in records}
    expected = sorted(errors, key=lambda row: -errors[row])[:20]
    assert [row[0] for row in table.rows] == expected
    assert [row[-1] for row in table.rows] == [f"{errors[row]:.3f}" for row in expected]


def one_mistake(**changes):
    """The table of mistakes of a task with this single dev record."""
    record = {"id": "x", "texts": ["t"], "label": 0, "prediction": 1, "scores": [0.1, 0.9, 0, 0, 0]}
    block = mistakes(task_entry("class", CLASSES), [record | changes])
    return markdown_block(block, Path())


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a | b \\ c", r"a \| b \\ c"),
        ("two\r\nlines\tand   blanks", "two lines and blanks"),
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ("[a](b) *e* _f_ `g` ~h~ $i$ # j", r"[a]\(b) \*e\* \_f\_ \`g\` \~h\~ \$i\$ \# j"),
        ("[brackets] (alone)", "[brackets] (alone)"),
        ("x" * 201, "x" * 199 + "…"),
        ("x" * 200, "x" * 200),
        ("", ""),
    ],
)
def test_texts_are_escaped_and_shortened(text, cell):
    line = one_mistake(texts=[text]).splitlines()[2]
    assert line == f"| x | {cell} | very \\| negative | negative | 0.900 |"


def test_rows_without_label_are_no_mistakes_and_an_undefined_confidence_is_shown():
    assert one_mistake(label=None) == one_mistake(prediction=0) == "None."
    assert one_mistake(scores=[None] * 5).endswith("| - |")
