"""Groups of runs, the settings in which they differ, and their saved predictions."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.read_runs import (
    check_same_rows,
    differing_settings,
    group_runs,
    load_split,
    resampled_metric,
    shown,
)
from multitask.store.run_directory import RunDirectory, load_lines
from multitask.utils.errors import UserError
from tests.support.fabricated_run import edited, rewritten, write_run


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
    assert [(group.name, group.runs) for group in groups] == [("a", [first, third]), ("c", [other])]


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
    groups = group_runs([trained, probe, other])
    assert [group.runs for group in groups] == [[trained], [probe, other]]


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


leaves = st.sampled_from([None, True, 0, 2.5, "cls", [1, 2]])
trees = st.recursive(
    leaves, lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=8
)
configs = st.lists(st.dictionaries(st.sampled_from("abc"), trees, max_size=3), min_size=1)


def test_only_what_differs_is_told_by_its_dotted_key():
    encoder = {"name": "e", "freeze": True}
    first = {"seed": 1, "output_dir": "x", "data_dir": "d", "encoder": encoder}
    second = {"seed": 2, "output_dir": "y", "data_dir": "z", "encoder": encoder}
    assert differing_settings([first, second]) == [{}, {}]
    second["encoder"] = {"name": "e", "freeze": False}
    told = differing_settings([first, second])
    assert told == [{"encoder.freeze": True}, {"encoder.freeze": False}]


def test_a_task_that_some_lack_is_true_and_differs_among_those_that_have_it():
    tasks = [
        {"sst": {"lr": 1, "rows": 5}, "sts": {"lr": 1}},
        {"sst": {"lr": 2, "rows": 5}},
        {"sts": {"lr": 1}},
    ]
    result = differing_settings([{"tasks": each} for each in tasks])
    assert result == [
        {"tasks.sst": True, "tasks.sst.lr": 1, "tasks.sts": True},
        {"tasks.sst": True, "tasks.sst.lr": 2},
        {"tasks.sts": True},
    ]


def test_a_method_is_one_value_and_its_name_where_it_has_no_options():
    plain = {"tasks": {"qqp": {"head": {"name": "siamese"}, "projection": None}}}
    options = {"name": "siamese", "features": ["u", "v"]}
    other = {"tasks": {"qqp": {"head": options, "projection": {"name": "tanh"}}}}
    assert differing_settings([plain, other]) == [
        {"tasks.qqp.head": "siamese", "tasks.qqp.projection": None},
        {"tasks.qqp.head": options, "tasks.qqp.projection": "tanh"},
    ]


def at(tree, key):
    """Return the value at a dotted key; "absent" if there is none."""
    for name in key.split("."):
        if not isinstance(tree, dict) or name not in tree:
            return "absent"
        tree = tree[name]
    return tree


@given(configs)
def test_two_configs_are_told_apart_just_if_they_differ_and_by_keys_that_do(configs):
    told = differing_settings(configs)
    for one, other in itertools.combinations(range(len(configs)), 2):
        assert (told[one] == told[other]) == (configs[one] == configs[other])
    for key in {key for settings in told for key in settings}:
        there = [at(config, key) for config in configs]
        assert any(value != there[0] for value in there)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("mean", "mean"),
        ("null", "null"),
        (None, "null"),
        (True, "true"),
        (2e-05, "2e-05"),
        (3, "3"),
        ({"name": "h", "features": ["u", "<b>"]}, "{name: h, features: [u, <b>]}"),
    ],
)
def test_a_value_is_shown_as_it_is_typed(value, text):
    assert shown(value) == text


ROWS = 60


@pytest.fixture
def copied_run(tmp_path):
    write_run(tmp_path / "a", rows=ROWS, seed=1)
    return tmp_path / "a"


@pytest.fixture
def other(tmp_path):
    write_run(tmp_path / "b", rows=ROWS, seed=2, noise=0.4)
    return tmp_path / "b"


def dev_rows(copied_run, task="sst"):
    """The dev rows of a task as the run's report has it."""
    return load_split(copied_run, task, "dev", RunDirectory(copied_run).load_report().tasks[task])


@pytest.mark.parametrize(("task", "metric"), [("sst", "accuracy"), ("sts", "pearson")])
def test_the_rows_give_the_reported_score(task, metric, copied_run):
    result = dev_rows(copied_run, task)
    reported = RunDirectory(copied_run).load_report().tasks[task].dev[metric]
    assert (result.metric, len(result.rows)) == (metric, ROWS)
    assert result.value() == pytest.approx(reported)
    saved = load_lines(copied_run / "predictions" / f"{task}.dev.jsonl")
    assert result.rows.ids == [record["id"] for record in saved]


def test_test_rows_without_labels_have_no_score_and_are_read(copied_run):
    file = RunDirectory(copied_run).predictions_of("sst", "test")
    records = [
        r | {"label": None} for r in load_lines(copied_run / "predictions" / "sst.dev.jsonl")
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = RunDirectory(copied_run).load_report().tasks["sst"]
    outcome = load_split(copied_run, "sst", "test", result)
    assert outcome.rows.labels is None and len(outcome.rows) == ROWS


def test_dev_rows_that_are_cut_short_are_refused(copied_run):
    """Of half the rows, the score may still be the same."""
    rewritten(copied_run, "sst", lambda i, r: r if i < 50 else None)
    edited(copied_run, lambda r: r["tasks"]["sst"]["dev"].update(accuracy=None))
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl has 50 rows, but report\.json says 60"):
        dev_rows(copied_run)


def test_predictions_that_do_not_belong_to_the_report_are_refused(copied_run):
    file = copied_run / "predictions" / "sst.dev.jsonl"
    rewritten(copied_run, "sst", lambda i, r: r | {"prediction": 0})
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl gives accuracy .* but report\.json says"):
        dev_rows(copied_run)
    file.write_text(file.read_text()[:-30])
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl: damaged or incomplete.*predict"):
        dev_rows(copied_run)
    file.unlink()
    with pytest.raises(UserError, match=r"sst\.dev\.jsonl does not exist"):
        dev_rows(copied_run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i, r: r | {"id": "x"} if i == 4 else r, "dev row 5 has another id"),
        (lambda i, r: r | {"label": (r["label"] + 1) % 5} if i == 59 else r, "another label"),
        (lambda i, r: None if i == 0 else r, "60 against 59"),
    ],
)
def test_other_dev_rows_cannot_be_paired(change, words, copied_run, other):
    rewritten(other, "sst", change)
    edited(other, lambda r: r["tasks"]["sst"]["dev"].update(accuracy=None, rows=None))
    with pytest.raises(UserError, match=words) as error:
        check_same_rows("sst", dev_rows(copied_run), dev_rows(other))
    for part in ("sst: ", str(copied_run), str(other)):
        assert part in str(error.value)


def test_other_metrics_cannot_stand_in_one_column(copied_run, other):
    edited(other, lambda r: r["tasks"]["para"].update(metric="f1"))
    with pytest.raises(UserError, match="accuracy of binary labels against f1 of binary labels"):
        check_same_rows("para", dev_rows(copied_run, "para"), dev_rows(other, "para"))


def test_runs_are_resampled_together(copied_run, other):
    both = [dev_rows(copied_run), dev_rows(other)]
    result = resampled_metric("sst", both, 7)
    assert result.shape == (7, 2)
    np.testing.assert_array_equal(result, resampled_metric("sst", both, 7))
    np.testing.assert_array_equal(result[:, :1], resampled_metric("sst", both[:1], 7))
    drawn = np.arange(ROWS)[None, ::2]
    rows = both[1].rows.labels[::2], both[1].predictions[::2]
    assert both[1].values(drawn)[0] == pytest.approx(accuracy_score(*rows))
