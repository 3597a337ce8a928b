"""The settings in which groups differ, against a flat comparison of every key."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.reporting.comparison.settings import differing_settings, shown

leaves = st.sampled_from([None, True, 0, 2.5, "cls", [1, 2]])
trees = st.recursive(
    leaves, lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=8
)
configs = st.lists(st.dictionaries(st.sampled_from("abc"), trees, max_size=3), min_size=1)


def test_only_what_differs_is_told_by_its_dotted_key():
    first = {
        "seed": 1,
        "output_dir": "x",
        "data_dir": "d",
        "encoder": {"name": "e", "freeze": True},
    }
    second = {**first, "seed": 2, "output_dir": "y", "data_dir": "z"}
    assert differing_settings([first, second]) == [{}, {}]
    second["encoder"] = {"name": "e", "freeze": False}
    assert differing_settings([first, second]) == [
        {"encoder.freeze": True},
        {"encoder.freeze": False},
    ]


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
