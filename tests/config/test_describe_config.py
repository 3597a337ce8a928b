"""A config in the words of the plan's and the report's tables."""

import pytest

from multitask.config import load_config
from multitask.config.describe_config import (
    ABOVE_HEADER,
    TRAINED_HEADER,
    above_the_encoder,
    as_written,
    trained_with,
    training_line,
)

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
