"""Groups of tasks: the order they give, and where a mistake in their file is."""

import pytest

from multitask.config.yaml_merge import load_extended
from multitask.reporting.figures.task_groups import OTHERS, in_groups, load_groups
from multitask.utils.errors import UserError
from tests.conftest import ROOT

GROUPS = {"single": ["sst", "cola"], "pairs": ["rte"]}
SHIPPED = [
    path
    for path in sorted((ROOT / "configs").rglob("*.yaml"))
    if "groups" in load_extended(path).value
]


def test_tasks_follow_the_file_and_those_without_a_group_come_last():
    order, groups = in_groups(["mine", "rte", "cola", "sst", "cola"], GROUPS)
    assert order == [3, 2, 4, 1, 0]
    assert groups == ["single", "single", "single", "pairs", OTHERS]


def test_groups_of_other_tasks_are_an_error():
    with pytest.raises(UserError, match=r"--groups: no group has a task of the runs \(a, b\): add"):
        in_groups(["a", "b", "a"], GROUPS)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_file_of_groups_in_the_configs_loads(path):
    assert load_groups(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: {}", "x.yaml:1: groups: "),
        ("rows: {a: [sst]}", "x.yaml:1: rows: unknown key"),
        ("groups: {a: sst}", "x.yaml:1: groups.a: "),
        ("groups:\n  a: [sst]\n  b: [rte, sst]", "x.yaml:3: groups.b.1: sst is already in 'a': na"),
        ("[]", "x.yaml"),
        ("{", "x.yaml"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_groups("x.yaml")
    assert message in str(caught.value) and "\n" not in str(caught.value)
