"""Which runs are seeds of one setting, and what the groups are called."""

import json
from pathlib import Path

import pytest

from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.comparison.groups import group_runs
from multitask.utils.errors import UserError


@pytest.fixture
def run(tmp_path):
    """Makes a run directory that holds a config."""

    def make(path: str, seed: int, **settings: object) -> Path:
        directory = tmp_path / path
        directory.mkdir(parents=True)
        config = {"seed": seed, "output_dir": path, "data_dir": path, "tasks": {}, **settings}
        (directory / "config.yaml").write_text(dump_yaml(config))
        return directory

    return make


def test_runs_that_differ_in_seed_and_place_are_one_group_in_order_of_seeds(run):
    third, first, other = run("a-3", 3, lr=1.0), run("b/a-1", 1, lr=1.0), run("c-1", 1, lr=2.0)
    groups = group_runs([third, other, first])
    assert [(group.name, group.runs) for group in groups] == [
        ("a", [first, third]),
        ("c", [other]),
    ]


def test_a_key_that_is_newer_than_a_run_has_its_default(run):
    data = {"train": "t.csv", "dev": "d.csv", "id": "id", "text": "text", "label": "label"}
    task = {"data": {**data, "labels": {0: "no", 1: "yes"}}, "pooling": "cls"}
    task |= {"input": "single", "head": "classification"}
    old = run("a-1", 1, tasks={"t": task})
    new = run("a-2", 2, tasks={"t": task}, training={"combine": "alternate"})
    other = run("b-1", 1, tasks={"t": task}, training={"combine": "joint"})
    assert [group.runs for group in group_runs([old, new, other])] == [[old, new], [other]]


def test_a_probe_and_a_trained_run_of_one_config_are_two_groups(run):
    trained, probe, other = run("trained/a-1", 1), run("probe/a-1", 1), run("probe/a-2", 2)
    report = {"seed": 1, "selection_split": "dev", "tasks": {}}
    (trained / "report.json").write_text(json.dumps(report))
    for directory in (probe, other):
        (directory / "report.json").write_text(json.dumps(report | {"probe": True}))
    assert [group.runs for group in group_runs([trained, probe, other])] == [
        [trained],
        [probe, other],
    ]


@pytest.mark.parametrize(
    ("path", "seed", "name"),
    [
        ("siamese-1", 1, "siamese"),
        ("siamese_seed2", 2, "siamese"),
        ("siamese-seed-2", 2, "siamese"),
        ("siamese.seed=11", 11, "siamese"),
        ("grid/mean/seed-3", 3, "mean"),
        ("grid/mean/3", 3, "mean"),
        ("bert-2", 1, "bert-2"),  # no seed: part of the name
        ("layers12", 2, "layers12"),
        ("demo", 11711, "demo"),
    ],
)
def test_a_group_is_named_after_its_directory_without_the_seed(path, seed, name, run):
    assert [group.name for group in group_runs([run(path, seed)])] == [name]


def test_names_are_unique_and_no_longer_than_needed(run):
    runs = [run("x/a-1", 1, lr=1.0), run("y/a-1", 1, lr=2.0), run("b-1", 1, lr=3.0)]
    assert [group.name for group in group_runs(runs)] == ["x/a", "y/a", "b"]
    # one name, two settings: the seed's suffix tells them apart
    runs = [run("z/c-1", 1, lr=4.0), run("z/c-2", 2, lr=5.0)]
    assert [group.name for group in group_runs(runs)] == ["c-1", "c-2"]
    runs = [run("p/seed-1", 1, lr=6.0), run("q/p/seed-1", 1, lr=7.0)]
    first, second = (group.name for group in group_runs(runs))
    assert first != second


def test_no_run_is_counted_twice(run, tmp_path):
    one, again = run("a-1", 1), run("old/a-1", 1)
    (tmp_path / "link").symlink_to(one)
    for twice in (one, tmp_path / "link"):
        with pytest.raises(UserError, match="given twice"):
            group_runs([one, twice])
    with pytest.raises(UserError, match=r"a-1 and .*old/a-1 have the same config and seed 1"):
        group_runs([one, again])


def test_what_is_no_run_is_refused(run, tmp_path):
    with pytest.raises(UserError, match="absent: no run there"):
        group_runs([tmp_path / "absent"])
    (run("a", 1) / "config.yaml").write_text("tasks: {}\n")
    with pytest.raises(UserError, match="'seed' is missing"):
        group_runs([tmp_path / "a"])
