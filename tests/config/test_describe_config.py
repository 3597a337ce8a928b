"""A config in the words of the plan's and the report's tables, and as a flowchart."""

import re

import pytest

from multitask.config import load_config
from multitask.config.describe_config import (
    ABOVE_HEADER,
    TRAINED_HEADER,
    above_the_encoder,
    as_written,
    diagram,
    trained_with,
    training_line,
)
from multitask.config.registry import HEADS, head_type
from tests.conftest import ROOT

TASKS = """\
training: {epochs: 4, lr: 3.0e-5, head_lr: 2.0e-3, gradient_surgery: pcgrad, combine: joint}
tasks:
  a:
    data: {train: a, dev: a}
    pooling: {name: max_cls, last: 2}
    eval_pooling: mean
    projection: tanh
    adapter: {name: pal, size: 60}
    head: {name: classification, label_smoothing: 0.1}
    batch_size: 8
    accumulation: 4
    smart: {weight: 3.0, eps: 1.0e-4}
  b: {data: {train: b, dev: b}, head: binary, head_lr: 0.5}
  c: {data: {train: c, dev: c}, share_head: b}
  d: {data: {train: d, dev: d}, share_pooling: a, head: binary}
  scored: {data: {dev: e}, share_head: b}
"""


def test_what_is_above_the_encoder(files):
    files(a=TASKS)
    rows = above_the_encoder(load_config("a.yaml"))
    assert all(len(row) == len(ABOVE_HEADER) for row in rows)
    pooling = "max_cls (last 2), scored with mean"
    assert rows == [
        ("a", pooling, "tanh", "classification (label_smoothing 0.1)", "pal (size 60)", "-"),
        ("b", "cls", "-", "binary", "-", "-"),
        ("c", "cls", "-", "binary", "-", "all of b"),
        ("d", pooling, "tanh", "binary", "pal (size 60)", "all of a but its head"),
    ]


def test_a_tasks_recipe(files):
    files(a=TASKS)
    rows = [
        dict(zip(TRAINED_HEADER, row, strict=True)) for row in trained_with(load_config("a.yaml"))
    ]
    assert [row["rows a step"] for row in rows] == ["32", "16", "16", "16"]
    assert [row["head's rate"] for row in rows] == ["0.002", "0.5", "0.5", "0.002"]
    assert [row["SMART"] for row in rows] == ["weight 3.0, eps 0.0001", "-", "-", "-"]
    assert {row["input"] for row in rows} == {"single"}


def test_the_loop_in_a_line(files):
    files(a=TASKS)
    line = "4 epochs; encoder's rate 3e-05, linear schedule; round_robin, joint; pcgrad"
    assert training_line(load_config("a.yaml")) == line
    staged = load_config("a.yaml", ["stages=[{}, {}]"])
    assert training_line(staged) == f"{line}; in 2 stages, which may change this"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["schedule=cosine"], "cosine schedule"),
        (["schedule=polynomial"], "linear schedule (polynomial, power 1)"),
        (["schedule=polynomial", "schedule_power=2"], "polynomial schedule (power 2)"),
    ],
)
def test_a_polynomial_schedule_of_power_1_is_called_linear(overrides, words, files):
    files(a=TASKS)
    config = load_config("a.yaml", [f"training.{override}" for override in overrides])
    assert f", {words}; " in training_line(config)


def test_values_are_written_as_in_yaml():
    shown = [as_written(value) for value in ("mean", None, True, 0.5, ["u", "v"])]
    assert shown == ["mean", "null", "true", "0.5", '["u", "v"]']


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


CHART = """\
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
    files(a=CHART)
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
