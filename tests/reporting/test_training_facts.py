"""How the runs behind a row or a cell were trained."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from multitask.reporting.read_runs import run_config
from multitask.reporting.training_facts import cell_facts, row_facts
from multitask.store.saved import RunReport
from tests.support.fabricated_run import edited, edited_config, write_run
from tests.support.run_files import full_report, report_of, task_entry

CONFIG = {"tasks": {"sst": {"batch_size": 32}, "qqp": {"batch_size": 8, "accumulation": 2}}}


def report(done, **turns):
    tasks = {task: task_entry("class", turns={"trained": n}) for task, n in turns.items()}
    return full_report(steps={"planned": 9999, "done": done}, tasks=tasks)


def test_rows_are_turns_by_the_rows_of_a_step_and_counts_are_means_over_seeds():
    facts = row_facts(CONFIG, [report(30, sst=10, qqp=20), report(10, sst=10, qqp=0)])
    assert facts["updates"] == 20
    assert facts["trained_rows"] == (10 * 32 + 20 * 16 + 10 * 32) / 2


@pytest.mark.parametrize(("config", "done", "turns"), [(CONFIG, 0, 0), ({"tasks": {}}, 0, 3)])
def test_a_report_without_steps_or_turns_has_no_count(config, done, turns):
    facts = row_facts(config, [report(done, sst=turns)])
    assert facts["updates"] is None and facts["trained_rows"] is None


def run_with(folder: Path, tasks: Mapping[str, dict] = {}, **config: object) -> Path:
    """Write a run of sst and sts with these keys in its config, those of a task added to it."""
    write_run(folder, rows=40, seed=1, only=("sst", "sts"), **config)
    edited_config(folder, lambda tree: [tree["tasks"][task].update(tasks[task]) for task in tasks])
    return folder


def facts_of(run: Path, task: str, **changes: object) -> dict[str, object]:
    report = RunReport.model_validate(report_of(run) | changes)
    return cell_facts(run_config(run), [report], task)


def test_trained_rows_are_those_of_the_steps_and_a_probe_has_none(tmp_path):
    run = run_with(tmp_path / "run", {"sst": {"batch_size": 8}, "sts": {"batch_size": 16}})
    report = report_of(run)
    turns = {name: entry["turns"]["trained"] for name, entry in report["tasks"].items()}
    assert turns["sst"] and turns["sts"]
    assert facts_of(run, "sst")["trained_rows"] == 8 * turns["sst"]
    probe = facts_of(run, "sst", probe=True)
    assert probe["trained_rows"] is None and probe["updates"] is None
    assert facts_of(run, "sts")["untrained"] == probe["untrained"] == []
    edited(run, lambda report: report["tasks"]["sts"]["turns"].update(trained=0))
    only_scored = facts_of(run, "sts")
    assert only_scored["untrained"] == ["sts"]
    for key in ("trained_rows", "train_rows"):  # those of the task that was trained
        assert only_scored[key] == facts_of(run, "sst")[key]


STAGES = [{"epochs": 5, "tasks": ["sst"]}, {"tasks": ["sts"]}, {"epochs": 1, "tasks": None}]


@pytest.mark.parametrize(
    ("config", "epochs"),
    [
        ({}, (3, 3)),
        ({"stages": STAGES}, (5 + 1, 3 + 1)),
        ({"stages": [*STAGES, {"tasks": ["sts"], "max_steps": 9}]}, (5 + 1, None)),
        ({"stages": STAGES, "training": {"epochs": 3, "max_steps": 9}}, (None, None)),
    ],
)
def test_epochs_are_those_of_the_stages_that_train_the_task(config, epochs, tmp_path):
    run = run_with(tmp_path / "run", **{"training": {"epochs": 3}, **config})
    assert tuple(facts_of(run, task)["epochs"] for task in ("sst", "sts")) == epochs


def test_a_task_that_is_only_scored_has_the_epochs_of_the_trained_ones(tmp_path):
    run = run_with(tmp_path / "run", stages=STAGES, training={"epochs": 3})
    edited(run, lambda report: report["tasks"]["sts"]["turns"].update(trained=0))
    assert facts_of(run, "sts")["epochs"] == 5 + 1


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
    assert facts_of(run, "sst")["all_rows"] is every
