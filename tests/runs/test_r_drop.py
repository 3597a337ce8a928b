"""R-Drop in runs: killed and resumed, in joint steps, beside SMART, and where it does not fit."""

import pytest

import run_multitask
from multitask import load
from multitask.training import trainer
from tests.support.kill import kill_inside
from tests.support.messages import complaint
from tests.support.run_files import events, results

# two of three tasks, one with SMART; adapters, surgery and micro-batches beside it
CHANGES = [
    "tasks.sst.r_drop={weight: 2}",
    "tasks.qqp.r_drop={}",
    "tasks.qqp.input=cross",
    "tasks.qqp.head=binary",
    "tasks.qqp.adapter=lora",
    "tasks.sts.smart={bregman: 1.0}",
    "tasks.sst.accumulation=2",
    "training.checkpoint_steps=2",
    "training.max_steps=6",
]


def command(overrides, run, *more):
    return ["configs/cs224n.yaml", *overrides, *CHANGES, *more, f"output_dir={run}"]


def steps(run, task):
    return [line for line in events(run, "step") if line["task"] == task]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["training.combine=joint", "training.gradient_surgery=pcgrad", "tasks.sst.accumulation=1"],
    ],
    ids=["alternate", "joint"],
)
@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_numbers(more, tiny_overrides, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_multitask.main(command(tiny_overrides, whole, *more)) == 0
    given = command(tiny_overrides, killed, *more)
    kill_inside(f"{trainer.__name__}:train_step", "after", 3, given)
    assert run_multitask.main([*given, "--resume"]) == 0
    assert results(killed) == results(whole)
    for task in ("sst", "qqp"):
        of_task = steps(whole, task)
        assert of_task and all(line["penalty"] == line["consistency"] > 0 for line in of_task)
    assert all("consistency" not in line for line in steps(whole, "sts"))
    assert set(load(killed).predict("sst", ["a good film"])[0]) >= {"prediction"}


def test_it_changes_the_task_that_has_it(tiny_overrides, tmp_path):
    runs = []
    for weight in ("1", "1000"):
        runs.append(tmp_path / weight)
        more = ["training.max_steps=3", f"tasks.sst.r_drop.weight={weight}"]
        assert run_multitask.main(command(tiny_overrides, runs[-1], *more)) == 0
    first, second = (steps(run, "sst")[0] for run in runs)
    assert first["loss"] == second["loss"]
    assert second["consistency"] == pytest.approx(1000 * first["consistency"], rel=1e-4)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (["tasks.sts.r_drop={}"], "tasks.sts.r_drop"),
        (["tasks.sst.r_drop={weight: 0}"], "tasks.sst.r_drop.weight"),
        (
            ["tasks.sst.head=span", "tasks.sst.pooling=tokens"],
            "tasks.sst",
        ),
    ],
    ids=["smart", "weight", "head"],
)
def test_where_it_does_not_fit(more, key, tiny_overrides, tmp_path, capsys):
    assert key in complaint(capsys, *command(tiny_overrides, tmp_path / "run", *more))


def test_a_task_that_is_only_scored_has_none_by_default(tiny_overrides, tmp_path):
    scored = "{data: {dev: ids-sst-dev.csv, text: sentence, label: sentiment}, share_head: sst,"
    more = [f"tasks.more={scored} max_length: 48}}", "defaults.r_drop={}", "tasks.sts.smart=null"]
    assert run_multitask.main(command(tiny_overrides, tmp_path / "run", *more)) == 0
    assert all("consistency" in line for line in steps(tmp_path / "run", "sts"))
