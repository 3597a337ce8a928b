"""The flowchart of a config's model: a path from each input to its end, names escaped."""

import re

import pytest

from multitask.config import load_config
from multitask.config.diagram import diagram
from multitask.config.registry import HEADS, head_type
from tests.conftest import ROOT

NODE = re.compile(r"(\w+)(?:\(?\[.*?\]\)?)?")


def edges(chart):
    """The arrows of a chart, as pairs of node ids."""
    labels = re.sub(r'"[^"]*"', "", chart)
    lines = re.findall(r"^ *(.+?) (?:-->|---|-\.->) (.+)$", labels, re.MULTILINE)
    return [tuple(NODE.match(node)[1] for node in line) for line in lines]


def reached(chart, node):
    """The nodes behind a node."""
    found, new = set(), {node}
    while new:
        found |= new
        new = {after for before, after in edges(chart) if before in new} - found
    return found


TASKS = """\
encoder: {name: 'a"b<c#d`e'}
tasks:
  a: {data: {train: a, dev: a}, head: classification, projection: mlp,
      adapter: {name: pal, size: 4}, loss_weight: 2.0, smart: {bregman: 1.0}}
  b: {data: {train: b, dev: b}, head: binary, pooling: mean, eval_pooling: cls}
  c: {data: {dev: c}, share_head: a}
  d: {data: {train: d, dev: d}, share_pooling: a, head: regression}
"""


@pytest.fixture
def chart(files):
    files(a=TASKS)
    return diagram(load_config("a.yaml"))


def test_every_input_leads_to_its_own_end(chart):
    for node, end in (("t0", "loss"), ("t1", "loss"), ("t2", "scores"), ("t3", "loss")):
        assert f"{node}_{end}" in reached(chart, f"{node}_input")
    assert ("layers", "t0_adapter") in edges(chart) and ("t0_adapter", "t0_pooling") in edges(chart)
    assert ("layers", "t0_pooling") not in edges(chart)
    assert ("t0_head", "t2_scores") in edges(chart)  # the head of another task
    assert ("t0_projection", "t3_head") in edges(chart)  # the pooling and projection of another
    assert "t1_eval_pooling -.-> t1_head" in chart
    for words in ("pal (size 4)", "loss_weight 2", "SMART: weight 1.0, bregman 1.0"):
        assert words in chart


def test_labels_are_escaped_and_ids_are_not_names(chart):
    assert "a#quot;b#lt;c#35;d#96;e" in chart
    assert all(re.fullmatch(r"layers|t\d+_\w+", node) for edge in edges(chart) for node in edge)


SHARED = """\
stages: [{tasks: [a]}]
tasks:
  a: {data: {train: a, dev: a}, input: single, projection: mlp, head: contrastive}
  b: {data: {train: b, dev: b, text: s, text2: t, label_range: [0, 5]}, input: siamese,
      share_pooling: a, head: cosine_regression}
"""


def test_a_task_that_no_stage_trains_ends_in_scores(files):
    files(a=SHARED)
    chart = diagram(load_config("a.yaml"))
    assert ("t1_head", "t1_scores") in edges(chart) and "t1_loss" not in chart
    assert ("t0_head", "t0_loss") in edges(chart)
    chart = diagram(load_config("a.yaml", ["stages=null"]))
    assert ("t1_head", "t1_loss") in edges(chart) and "t1_scores" not in chart


def arrows(chart, node):
    """The lines into a node, without labels."""
    lines = [re.sub(r"\[[^\]]*\]", "", line.strip()) for line in chart.splitlines()]
    return [line for line in lines if line.endswith(f"> {node}")]


def test_a_projection_that_only_trains_is_not_between_pooling_and_scores(files):
    files(a=SHARED)
    only = ["tasks.a.head={name: contrastive, mlp_only_train: true}"]
    chart = diagram(load_config("a.yaml", only))
    both = ["t0_projection --> t0_head", "t0_pooling -.-> t0_head"]
    assert arrows(chart, "t0_head") == both
    assert arrows(chart, "t1_head") == ["t0_pooling -.-> t1_head"]
    chart = diagram(load_config("a.yaml", [*only, "stages=null"]))  # b trains too
    assert arrows(chart, "t1_head") == [line.replace("t0_head", "t1_head") for line in both]
    chart = diagram(load_config("a.yaml"))
    assert arrows(chart, "t1_head") == ["t0_projection --> t1_head"]


def test_the_pooling_of_scores_leads_to_the_heads_that_share_it(files):
    files(a=SHARED)
    for tasks in (["a"], ["a", "b"]):  # the task that shares it may name it too
        given = [f"tasks.{task}.eval_pooling=cls" for task in tasks]
        chart = diagram(load_config("a.yaml", given))
        assert arrows(chart, "t1_head") == ["t0_eval_pooling -.-> t1_head"]
        assert "t0_eval_pooling -.-> t0_head" in arrows(chart, "t0_head")
        assert '_eval_pooling["eval_pooling<br/>cls"]' in chart


@pytest.mark.parametrize("head", HEADS)
def test_every_task_type_is_drawn(head, files):
    text = f"tasks:\n  t: {{data: {{train: a, dev: a}}, head: {head}}}\n"
    files(a=text)
    chart = diagram(load_config("a.yaml"))
    assert head_type(head) and f"head<br/>{head}" in chart and "t0_loss" in chart


def test_the_command_prints_only_the_chart(capsys):
    from run_multitask import main

    file = ROOT / "configs" / "cs224n_pals.yaml"
    assert main(["check", str(file), "data_dir=nowhere", "--diagram"]) == 0
    printed = capsys.readouterr().out
    assert printed == diagram(load_config(file)) + "\n" and printed.startswith("flowchart LR\n")
