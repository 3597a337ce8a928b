"""How our runs were trained is named, and a warning says where the paper's were not."""

import json
from pathlib import Path

import pytest
import yaml

from multitask.config.saved.report_model import RunReport
from multitask.reporting.paper import paper_files
from multitask.reporting.paper.layout import Layout
from multitask.reporting.paper.our_setting import train_rows, trained_rows, training_of
from multitask.reporting.paper.paper_table import paper_table
from tests.support.fabricated_run import edited, write_run

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


def notes(run: Path, **paper: object) -> str:
    layout = Layout.model_validate({**LAYOUT, "paper": paper})
    table = paper_table(layout, {"base": [[run]]}, resamples=20)
    return paper_files.paper_markdown(table)


def test_encoder_rows_updates_and_seeds_of_ours_are_named(run):
    report = json.loads((run / "report.json").read_text())
    (line,) = [line for line in notes(run).splitlines() if line.startswith("- Our runs:")]
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
    warnings = [line for line in notes(run, **paper).splitlines() if "Warning" in line]
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
    assert trained_rows(run, [report], "sst") == 8 * turns["sst"]
    scored = report.tasks["sts"].turns.model_copy(update={"trained": 0})
    only = report.tasks | {"sts": report.tasks["sts"].model_copy(update={"turns": scored})}
    assert trained_rows(run, [report.with_tasks(only)], "sts") == 8 * turns["sst"]
    assert trained_rows(run, [report.model_copy(update={"probe": True})], "sst") is None
    (run / "config.yaml").unlink()
    assert trained_rows(run, [report], "sst") is None


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
    warned = "the paper has another setting than ours: training rows all." in notes(run, rows="all")
    assert warned is not every


def table_of(folder: Path, encoders: list[str]) -> str:
    """Write a run per encoder, each a row; return the line on our setting."""
    runs = {}
    for encoder in encoders:
        run = run_with(folder / f"{encoder}-1", encoder={"name": encoder}, training={"epochs": 4})
        runs[encoder] = [[run]]
    layout = Layout.model_validate(LAYOUT)
    page = paper_files.paper_markdown(paper_table(layout, runs, resamples=20))
    (line,) = [line for line in page.splitlines() if line.startswith("- Our runs:")]
    return line


@pytest.mark.parametrize(
    ("encoders", "said"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b, c")]
)
def test_encoders_are_listed(encoders, said, tmp_path):
    assert table_of(tmp_path, encoders).startswith(f"- Our runs: encoder {said}; ")
