"""Tasks that name one another: what they take over, and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from multitask.config import load_config
from multitask.config.between_tasks import chosen_task
from multitask.utils.errors import UserError
from tests.support.messages import refusal

HOST = """\
tasks:
  host:
    data: {train: h.csv, dev: d.csv, text: first, text2: second, label: l, labels: [x, y]}
    input: siamese
    max_length: 32
    dropout: 0.2
    pooling: mean
    projection: tanh
    head: {name: siamese_paraphrase, features: [u, v]}
"""


@pytest.fixture
def config(files):
    """``config(guest)``: the path of a config of `host` and, with these keys of YAML, `guest`."""

    def write(guest: str) -> str:
        files(a=f"{HOST}  guest: {guest}\n")
        return "a.yaml"

    return write


def test_rows_come_with_their_columns_and_lengths_but_not_with_labels(config):
    file = config("{data: {same_rows_as: host, label: other}, head: siamese_paraphrase}")
    tasks = load_config(file).tasks
    guest, host = tasks["guest"], tasks["host"]
    assert (guest.data.train, guest.data.text, guest.data.text2) == ("h.csv", "first", "second")
    assert (guest.input, guest.max_length) == ("siamese", 32)
    assert (guest.data.label, guest.data.labels) == ("other", None)
    assert (guest.pooling.name, guest.projection, guest.dropout) == ("cls", None, 0.1)
    assert host.data.labels == {"x": "x", "y": "y"}


def test_a_head_comes_with_all_that_is_below_it_and_its_classes(config):
    tasks = load_config(
        config("{data: {dev: g.csv, text: first, text2: second}, share_head: host}")
    )
    guest, host = tasks.tasks["guest"], tasks.tasks["host"]
    for key in ("input", "adapter", "pooling", "projection", "head", "dropout"):
        assert getattr(guest, key) == getattr(host, key), key
    assert guest.data.labels == {"x": "x", "y": "y"}
    assert guest.max_length == 128  # of a row, not of the head
    assert guest.only_scored and not host.only_scored


def test_classes_that_the_task_names_are_not_replaced(config):
    data = "{dev: g, text: a, text2: b, labels: {1: x, 2: y}}"
    file = config(f"{{data: {data}, share_head: host, input: siamese}}")
    assert load_config(file).tasks["guest"].data.labels == {"1": "x", "2": "y"}


def test_a_pooling_comes_without_the_head(config):
    data = "{train: g.csv, dev: g.csv, text2: b, label_range: [0, 1]}"
    file = config(f"{{data: {data}, input: siamese, head: cosine_regression, share_pooling: host}}")
    guest = load_config(file).tasks["guest"]
    assert (guest.pooling.name, guest.projection.name) == ("mean", "tanh")
    assert (guest.head.name, guest.dropout) == ("cosine_regression", 0.1)


SAME_ROWS = "{data: {same_rows_as: host}, head: siamese_paraphrase}"
SAME_HEAD = "{data: {train: g, dev: g, text: a, text2: b}, share_head: host}"
SAME_POOLING = (
    "{data: {train: g, dev: g, text2: b}, input: siamese, head: siamese_paraphrase, "
    "share_pooling: host}"
)


@pytest.mark.parametrize(
    ("guest", "override", "path", "part"),
    [
        (SAME_ROWS, "tasks.guest.data.same_rows_as=hosts", "guest.data.same_rows_as", "'host'"),
        (SAME_ROWS, "tasks.guest.data.same_rows_as=guest", "guest.data.same_rows_as", "another"),
        (SAME_ROWS, "tasks.guest.max_length=16", "guest.max_length", "'host'"),
        (SAME_ROWS, "tasks.guest.batch_size=4", "guest.batch_size", "leave it out"),
        (SAME_ROWS, "tasks.guest.data.text=other", "guest.data.text", "leave it out"),
        (SAME_ROWS, "tasks.guest.data.train=g.csv", "guest.data.train", "'host'"),
        (SAME_ROWS, "tasks.guest.max_rows=9", "guest.max_rows", "leave it out"),
        (SAME_ROWS, "tasks.third={data: {same_rows_as: guest}, head: siamese_paraphrase}",
         "third.data.same_rows_as", "'host'"),
        (SAME_HEAD, "tasks.guest.share_head=hots", "guest.share_head", "'host'"),
        (SAME_HEAD, "tasks.guest.pooling=max", "guest.pooling", "'host'"),
        (SAME_HEAD, "tasks.guest.dropout=0.5", "guest.dropout", "'host'"),
        (SAME_HEAD, "tasks.guest.head_lr=0.5", "guest.head_lr", "leave it out"),
        (SAME_HEAD, "tasks.guest.data={train: null, dev: null}", "guest.data", "no rows"),
        (SAME_HEAD, "tasks.third={data: {dev: g, text2: b}, share_head: guest}",
         "third.share_head", "'host'"),
        (SAME_POOLING, "tasks.guest.projection=linear", "guest.projection", "'host'"),
        (SAME_HEAD, "tasks.guest.share_pooling=host", "guest.share_pooling", "`share_head`"),
        (SAME_POOLING, "tasks.guest.share_pooling=x", "guest.share_pooling", "another"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(guest, override, path, part, config):
    result = refusal(config(guest), override)
    assert f": tasks.{path}: " in result and part in result


def test_a_batch_size_of_the_defaults_is_no_contradiction(config):
    tasks = load_config(
        config(SAME_ROWS), ["defaults.batch_size=4", "tasks.host.batch_size=8"]
    ).tasks
    assert (tasks["host"].batch_size, tasks["guest"].batch_size) == (8, 4)


def test_a_saved_config_is_read_again_if_the_host_alone_names_its_rows(config, tmp_path):
    made = load_config(config(SAME_ROWS), ["tasks.host.max_rows=5", "tasks.host.batch_size=8"])
    (tmp_path / "saved.yaml").write_text(made.dump())
    assert load_config(tmp_path / "saved.yaml").resolved() == made.resolved()


THREE = """\
tasks:
  a: {data: {train: a, dev: a}, head: classification}
  b: {data: {train: b, dev: b}, head: classification}
  scored: {data: {dev: c}, share_head: a}
"""


@pytest.mark.parametrize(
    ("overrides", "path", "part"),
    [
        (["stages=[{tasks: [aa]}]"], "stages.0.tasks.0", "'a'"),
        (["stages=[{tasks: [a, scored]}]"], "stages.0.tasks.1", "that trains"),
        (["training.epoch=c"], "training.epoch", "longest"),
        (["stages=[{epoch: bb}]"], "stages.0.epoch", "'b'"),
        (["training.schedule_power=2"], "training.schedule_power", "polynomial"),
        (["stages=[{schedule: polynomial}, {schedule: cosine, schedule_power: 2}]"],
         "stages.1.schedule_power", "polynomial"),
        (["training.schedule_power=2", "training.schedule=polynomial",
          "stages=[{schedule: linear}, {schedule: cosine}]"],
         "training.schedule_power", "polynomial"),
        (["training.schedule_power=2", "stages=[{schedule: cosine}, {}]"],
         "training.schedule_power", "polynomial"),
        (["training.select=joined"], "training.select", "'joint'"),
        (["training.select=scored"], "training.select", "during training"),
        (["tasks.b.data={texts_of: [c], train: null, dev: null}"], "tasks.b.data.texts_of.0",
         "reads training rows"),
        (["tasks.a.smart.dropout=eval", "encoder.gradient_checkpointing=true"],
         "tasks.a.smart.dropout", "gradient_checkpointing"),
        (["tasks.a.course_file={name: x, column: c}", "tasks.b.course_file={name: x, column: c}"],
         "tasks.b.course_file.name", "one file"),
        (["tasks.a.glue_file=SST-2", "tasks.b.glue_file=SST-2"], "tasks.b.glue_file", "one file"),
        (["init_from=runs/x", "encoder.reinit_layers=1"], "encoder.reinit_layers", "init_from"),
        # tasks that are only evaluated
        (["tasks.a={evaluate_only: true, share_pooling: b, data: {train: null}}",
          "tasks.scored=null",
          "tasks.b={evaluate_only: true, share_pooling: a, data: {train: null}}"],
         "tasks.a.evaluate_only", "no task"),
        (["tasks.b.evaluate_only=true"], "tasks.b.evaluate_only", "share_pooling"),
        (["defaults={evaluate_only: true}"], "tasks.a.evaluate_only", "share_pooling"),
        (["tasks.scored.evaluate_only=true", "training.epoch=scored"], "training.epoch", "longest"),
        (["tasks.scored.evaluate_only=true", "tasks.scored.data.dev=null"],
         "tasks.scored.data.dev", "rows"),
        (["tasks.scored.evaluate_only=true", "tasks.scored.data.train=c"],
         "tasks.scored.data.train", "leave this out"),
        (["tasks.scored.evaluate_only=true", "tasks.b.share_head=scored"], "tasks.b.share_head",
         "that trains"),
        (["tasks.scored.evaluate_only=true", "training.select=scored", "training.holdout=0.1"],
         "training.select", "holdout"),
    ],
)  # fmt: skip
def test_references(overrides, path, part, files):
    files(a=THREE)
    result = refusal("a.yaml", *overrides)
    assert f": {path}: " in result and part in result


def test_smart_of_the_defaults_is_for_tasks_that_train(files):
    files(a=THREE)
    tasks = load_config("a.yaml", ["defaults.smart={weight: 2.0}"]).tasks
    assert tasks["a"].smart.weight == tasks["b"].smart.weight == 2.0
    assert tasks["scored"].smart is None
    assert ": tasks.scored.smart: " in refusal("a.yaml", "tasks.scored.smart={}")


TASK = "{{data: {{train: t.csv, dev: d.csv}}, head: binary, course_file: {{name: {}, column: c}}}}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mood", "Mood"),
        ("strasse", "straße"),
        ("\xe9tat", "e\u0301tat"),  # composed and decomposed
        ("\xc9tat", "e\u0301tat"),
        ("fin", "\ufb01n"),  # a ligature
        ("task_1", "task_\uff11"),  # a digit of another width
    ],
)
def test_names_that_are_one_file_name_on_some_disks(first, second, files):
    files(a=f"tasks: {{{first}: {TASK.format('x')}, {second}: {TASK.format('y')}}}\n")
    line = refusal("a.yaml")
    assert f"a.yaml:1: tasks.{second}: " in line and ascii(f"{first}-dev") in line
    files(a=f"tasks: {{a: {TASK.format(first)}, b: {TASK.format(second)}}}\n")
    assert refusal("a.yaml").startswith("a.yaml:1: tasks.b.course_file.name: a and b ")
    files(a=f"tasks: {{{first}: {TASK.format('x')}, b: {TASK.format('y')}}}\n")
    assert list(load_config("a.yaml").tasks) == [first, "b"]


def test_the_task_that_a_command_is_about():
    run, config = Path("runs/a"), SimpleNamespace(tasks={"sst": None, "sts": None})
    assert chosen_task(run, config, "sts") == "sts"
    assert chosen_task(run, SimpleNamespace(tasks={"sst": None}), None) == "sst"
    for task, part in (("stst", "did you mean 'sts'"), (None, "--task: one of sst, sts")):
        with pytest.raises(UserError, match=f"^runs/a: .*{part}"):
            chosen_task(run, config, task)
