"""Notes about runs: caveats, times, and how the runs of a paper's table were trained."""

import csv
import json
import statistics
from pathlib import Path

import pytest
import yaml

from multitask.reporting import notes as caveats
from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.comparison_page import comparison_page
from multitask.reporting.layout import Layout
from multitask.reporting.notes import rows_trained_for, train_rows, training_of
from multitask.reporting.paper_table import paper_table
from multitask.reporting.read_runs import Group
from multitask.reporting.write_sheet import write_comparison
from multitask.store.saved import RunReport
from tests.support.fabricated_run import edited, write_run
from tests.support.run_files import full_report

RUNS = [Path(f"runs/a-{number}") for number in range(5)]


def notes(runs):
    return caveats.notes([(run, full_report(**report)) for run, report in runs])


def reports(**changes):
    """Five runs of one commit and machine, whose weights a holdout selected."""
    entry = {"label_type": "class", "metric": "accuracy", "dev": {"accuracy": 0.5}}
    same = {"selection_split": "holdout", "git_revision": "abc", "tasks": {"sst": entry}}
    same |= {"device": "cpu", "threads": 2, "precision": "fp32", "kernels": "torch"}
    return [(run, {**same, **changes}) for run in RUNS]


def test_equal_runs_have_none():
    assert notes(reports()) == []


def test_selection_on_dev_names_up_to_three_runs_or_says_every():
    result = reports()
    result[0][1]["selection_split"] = "dev"
    (note,) = notes(result)
    assert "selected on the dev rows" in note and note.endswith(": runs/a-0.")
    for _, report in result[:4]:
        report["selection_split"] = "dev"
    (note,) = notes(result)
    assert note.endswith(": runs/a-0, runs/a-1, runs/a-2 and 1 more.")
    (note,) = notes(reports(selection_split="dev"))
    assert note.endswith(": every run.")


def test_several_commits_are_named():
    result = reports()
    result[1][1]["git_revision"] = None
    assert notes(result) == ["The runs come from several commits: abc, None."]


def test_probes_are_composed():
    result = reports()
    result[4][1]["probe"] = True
    (note,) = notes(result)
    assert note.startswith("Rows composed of probes: runs/a-4. Each task's projection and head")


def test_undefined_scores_are_named():
    result = reports()
    result[2][1]["tasks"] = {"sst": {"label_type": "class", "metric": "mcc", "dev": {"mcc": None}}}
    (note,) = notes(result)
    assert note == "sst has no score (constant or undefined predictions): runs/a-2."


SECONDS = {"base": (8.0, 10.0, 30.0), "slow": (24.0, 26.0, 25.0), "probe": (None, None, None)}
MACHINE = {"device": "cpu", "processes": 1, "threads": 2}


@pytest.fixture
def groups(tmp_path):
    result = []
    for number, (name, times) in enumerate(SECONDS.items()):
        runs = [tmp_path / f"{name}-{seed}" for seed in range(1, 4)]
        for seed, (run, seconds) in enumerate(zip(runs, times, strict=True), 1):
            write_run(run, rows=60, seed=seed, noise=0.1 * number, lr=number)
            changed(run, **MACHINE, **({"epoch_seconds": seconds} if seconds else {}))
        result.append(Group(name, runs))
    return result


def changed(run, **changes):
    """Change the report of a run in place."""
    file = run / "report.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_times_are_medians_and_their_ratios_in_every_format(groups, tmp_path):
    comparison = compare(groups, "base", resamples=20)
    base, slow, probe = (group["training_time"] for group in comparison["groups"])
    medians = [statistics.median(SECONDS[name]) for name in ("base", "slow")]
    assert base == {"epoch_seconds": medians[0], "ratio": 1.0}
    assert slow == {"epoch_seconds": medians[1], "ratio": medians[1] / medians[0]}
    assert probe is None

    table = sheet_tables.time_table(comparison)
    assert table.header == ("group", "seconds an epoch", "ratio to base")
    assert table.rows == [["base", "10.0", "x1.00"], ["slow", "25.0", "x2.50"]]
    write_comparison(tmp_path / "out", comparison)
    for name, row in (("md", "| slow | 25.0 | x2.50 |"), ("tex", r"slow & 25.0 & x2.50 \tab")):
        text = (tmp_path / "out" / f"table.{name}").read_text()
        assert sheet_tables.TIME_TITLE in text and row in text
        assert "the load of the machine was not controlled" in text
    lines = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    times = [(line["epoch_seconds"], line["epoch_seconds_ratio"]) for line in lines]
    assert times == [("10.0", "1.0"), ("25.0", "2.5"), ("", "")]
    (section,) = [
        section
        for section in comparison_page(tmp_path / "out", comparison).sections
        if section.title == sheet_tables.TIME_TITLE
    ]
    assert section.blocks == [table]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"threads": 1}, "threads 2, 1"), ({"device": "cuda", "processes": 2}, "device cpu, cuda")],
)
def test_times_of_several_machines_are_left_out_with_a_note(change, words, groups):
    changed(groups[1].runs[2], **change)
    comparison = compare(groups, "base", resamples=20)
    assert [group["training_time"] for group in comparison["groups"]] == [None] * 3
    assert sheet_tables.TIME_TITLE not in sheet_tables.markdown_text(comparison)
    (note,) = comparison["notes"]
    assert note.startswith(f"Training times do not compare, the runs differ in {words}")


def test_a_report_older_than_the_count_of_threads_is_no_other_machine(groups):
    for run in groups[0].runs:
        changed(run, threads=None)
    comparison = compare(groups, "base", resamples=20)
    assert sheet_tables.time_table(comparison) and not comparison["notes"]


def test_without_times_there_is_no_table(groups):
    changed(groups[0].runs[0], epoch_seconds=None)
    comparison = compare(groups, "base", resamples=20)
    assert comparison["groups"][0]["training_time"] is None
    assert comparison["groups"][1]["training_time"]["ratio"] is None
    assert sheet_tables.time_table(comparison) is None
    for group in comparison["groups"]:  # a comparison that was saved before times were
        del group["training_time"]
    assert sheet_tables.time_table(comparison) is None and sheet_tables.csv_text(comparison)


LAYOUT = {
    "title": "T",
    "source": "BERT-base",
    "columns": [{"title": "SST", "task": "sst", "metric": "accuracy"}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "base-1"
    config = {"encoder": {"name": "packaged-minilm"}, "training": {"epochs": 4}}
    write_run(run, rows=40, seed=1, only=("sst",), **config)
    return run


def notes_of(run: Path, **paper: object) -> str:
    layout = Layout.model_validate({**LAYOUT, "paper": paper})
    table = paper_table(layout, {"base": [[run]]}, resamples=20)
    return sheet_tables.paper_markdown(table)


def test_encoder_rows_updates_and_seeds_of_ours_are_named(run):
    report = json.loads((run / "report.json").read_text())
    (line,) = [line for line in notes_of(run).splitlines() if line.startswith("- Our runs:")]
    rows = report["tasks"]["sst"]["data"]["train"]["rows"]
    assert f"encoder packaged-minilm; training rows {rows:,}; epochs 4; " in line
    assert f"updates {report['steps']['done']:,}; seeds 1." in line


@pytest.mark.parametrize(
    ("paper", "said"),
    [
        ({}, None),
        ({"seeds": 1}, None),
        ({"seeds": 3}, "seeds 3"),
        ({"rows": 67}, "training rows 67"),
        ({"rows": "all"}, None),
        ({"encoder": "packaged-minilm", "epochs": 4}, None),
        ({"encoder": "bert-base-uncased"}, "encoder bert-base-uncased"),
        ({"epochs": 10}, "epochs 10"),
        ({"encoder": "bert-base-uncased", "epochs": 10}, "encoder bert-base-uncased; epochs 10"),
    ],
)
def test_a_warning_says_where_the_paper_has_another_setting(paper, said, run):
    warnings = [line for line in notes_of(run, **paper).splitlines() if "Warning" in line]
    wanted = f"- Warning: the paper has another setting than ours: {said}."
    assert warnings == ([wanted] if said else [])


def test_a_task_that_is_only_scored_has_the_rows_that_were_trained(run):
    report = RunReport.model_validate(json.loads((run / "report.json").read_text()))
    trained = report.tasks["sst"]
    rows = trained.data["train"].rows
    other = trained.model_copy(
        update={
            "turns": trained.turns.model_copy(update={"trained": 0}),
            "data": {"train": trained.data["train"].model_copy(update={"rows": 6040})},
        }
    )
    both = report.with_tasks({"sst": trained, "sts": other})
    assert train_rows(both, "sts") == train_rows(both, "sst") == rows != 6040
    assert train_rows(report.with_tasks({"sts": other}), "sts") == 6040  # nothing was trained


def run_with(folder: Path, tasks: dict | None = None, **config: object) -> Path:
    """Write a run of sst and sts with these keys in its config, those of a task added to it."""
    write_run(folder, rows=40, seed=1, only=("sst", "sts"), **config)
    file = folder / "config.yaml"
    tree = yaml.safe_load(file.read_text())
    for task, keys in (tasks or {}).items():
        tree["tasks"][task] |= keys
    file.write_text(yaml.safe_dump(tree))
    return folder


def test_trained_rows_are_those_of_the_steps_and_a_probe_has_none(tmp_path):
    run = run_with(tmp_path / "run", {"sst": {"batch_size": 8}, "sts": {"batch_size": 16}})
    report = RunReport.model_validate(json.loads((run / "report.json").read_text()))
    turns = {name: entry.turns.trained for name, entry in report.tasks.items()}
    assert turns["sst"] and turns["sts"]
    assert rows_trained_for(run, [report], "sst") == 8 * turns["sst"]
    scored = report.tasks["sts"].turns.model_copy(update={"trained": 0})
    only = report.tasks | {"sts": report.tasks["sts"].model_copy(update={"turns": scored})}
    assert rows_trained_for(run, [report.with_tasks(only)], "sts") == 8 * turns["sst"]
    assert rows_trained_for(run, [report.model_copy(update={"probe": True})], "sst") is None
    (run / "config.yaml").unlink()
    assert rows_trained_for(run, [report], "sst") is None


def setting_of(run: Path, task: str) -> dict[str, object]:
    report = RunReport.model_validate(json.loads((run / "report.json").read_text()))
    return training_of(run, report, task)


STAGES = [{"epochs": 5, "tasks": ["sst"]}, {"tasks": ["sts"]}, {"epochs": 1, "tasks": None}]


@pytest.mark.parametrize(
    ("config", "epochs"),
    [
        ({}, (3, 3)),
        ({"stages": STAGES}, (5 + 1, 3 + 1)),
        ({"stages": [*STAGES, {"tasks": ["sts"], "max_steps": 9}]}, (5 + 1, None)),
        ({"stages": STAGES, "training": {"epochs": 3, "max_steps": 9}}, (None, None)),
        ({"training": {}}, (None, None)),
    ],
)
def test_epochs_are_those_of_the_stages_that_train_the_task(config, epochs, tmp_path):
    run = run_with(tmp_path / "run", **{"training": {"epochs": 3}, **config})
    assert tuple(setting_of(run, task)["epochs"] for task in ("sst", "sts")) == epochs


def test_a_task_that_is_only_scored_has_the_epochs_of_the_trained_ones(tmp_path):
    run = run_with(tmp_path / "run", stages=STAGES, training={"epochs": 3})
    edited(run, lambda report: report["tasks"]["sts"]["turns"].update(trained=0))
    assert setting_of(run, "sts")["epochs"] == 5 + 1


ROWS = 8544  # of train, as the report says


@pytest.mark.parametrize(
    ("tasks", "config", "every"),
    [
        ({}, {}, True),
        ({"sst": {"max_rows": ROWS}}, {}, False),
        ({"sst": {"max_rows": ROWS + 1}}, {}, True),
        ({"sts": {"max_rows": ROWS}}, {}, True),  # another task's
        ({"sst": {"data": {"dev_share": 0.1}}}, {}, False),
        ({"sst": {"data": {"texts_of": ["sts"]}}, "sts": {"max_rows": ROWS}}, {}, False),
        ({"sst": {"data": {"same_rows_as": "sts"}}, "sts": {"max_rows": ROWS}}, {}, False),
        ({}, {"training": {"holdout": 0.1}}, False),
    ],
)
def test_rows_are_all_if_no_key_took_some_away(tasks, config, every, tmp_path):
    run = run_with(tmp_path / "base-1", tasks, **config)
    assert setting_of(run, "sst")["all_rows"] is every
    warned = "the paper has another setting than ours: training rows all." in notes_of(
        run, rows="all"
    )
    assert warned is not every


def table_of(folder: Path, encoders: list[str]) -> str:
    """Write a run per encoder, each a row; return the line on our setting."""
    runs = {}
    for encoder in encoders:
        run = run_with(folder / f"{encoder}-1", encoder={"name": encoder}, training={"epochs": 4})
        runs[encoder] = [[run]]
    layout = Layout.model_validate(LAYOUT)
    page = sheet_tables.paper_markdown(paper_table(layout, runs, resamples=20))
    (line,) = [line for line in page.splitlines() if line.startswith("- Our runs:")]
    return line


@pytest.mark.parametrize(
    ("encoders", "said"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b, c")]
)
def test_encoders_are_listed(encoders, said, tmp_path):
    assert table_of(tmp_path, encoders).startswith(f"- Our runs: encoder {said}; ")
