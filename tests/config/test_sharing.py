"""The values that a task takes over from the task whose rows, pooling or head it shares."""

import pytest

from multitask.config import load_config
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
        (SAME_ROWS, "tasks.guest.data.same_rows_as=hosts", "data.same_rows_as", "another task"),
        (SAME_ROWS, "tasks.guest.data.same_rows_as=guest", "data.same_rows_as", "another task"),
        (SAME_ROWS, "tasks.guest.max_length=16", "max_length", "must be as in 'host'"),
        (SAME_ROWS, "tasks.guest.batch_size=4", "batch_size", "leave this to that task"),
        (SAME_ROWS, "tasks.guest.data.text=other", "data.text", "leave this to that task"),
        (SAME_ROWS, "tasks.third={data: {same_rows_as: guest}, head: siamese_paraphrase}", None,
         "name the task with the rows: 'host'"),
        (SAME_HEAD, "tasks.guest.share_head=hots", "share_head", "did you mean 'host'?"),
        (SAME_HEAD, "tasks.guest.pooling=max", "pooling", "must be as in 'host'"),
        (SAME_HEAD, "tasks.guest.dropout=0.5", "dropout", "must be as in 'host'"),
        (SAME_HEAD, "tasks.guest.head_lr=0.5", "head_lr", "must be as in 'host'"),
        (SAME_HEAD, "tasks.guest.data={train: null, dev: null}", "data", "no rows at all"),
        (SAME_HEAD, "tasks.third={data: {dev: g, text2: b}, share_head: guest}", None,
         "name the task that owns the head: 'host'"),
        (SAME_POOLING, "tasks.guest.projection=linear", "projection", "must be as in 'host'"),
        (SAME_HEAD, "tasks.guest.share_pooling=host", "share_pooling", "leave out `share_head`"),
        (SAME_POOLING, "tasks.guest.share_pooling=x", "share_pooling", "expected another task"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(guest, override, path, part, config):
    result = refusal(config(guest), override)
    assert part in result
    if path is not None:
        assert f": tasks.guest.{path}: " in result


def test_a_batch_size_of_the_defaults_is_no_contradiction(config):
    tasks = load_config(
        config(SAME_ROWS), ["defaults.batch_size=4", "tasks.host.batch_size=8"]
    ).tasks
    assert (tasks["host"].batch_size, tasks["guest"].batch_size) == (8, 4)


def test_a_saved_config_is_read_again_if_the_host_alone_names_its_rows(config, tmp_path):
    made = load_config(config(SAME_ROWS), ["tasks.host.max_rows=5", "tasks.host.batch_size=8"])
    (tmp_path / "saved.yaml").write_text(made.dump())
    assert load_config(tmp_path / "saved.yaml").resolved() == made.resolved()
