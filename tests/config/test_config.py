"""A loaded config: its values, its dump, and where its errors point."""

from pathlib import Path

import pytest

from multitask.config import EMBEDDED_DIR, Config, load_config
from multitask.config.config import seen_corpora
from multitask.utils.errors import UserError


def test_later_errors_name_the_source_too(base):
    """Code that works with a config raises with the same sources."""
    config = load_config(base, ["seed=3"])
    assert str(config.error(("tasks", "t", "data", "dev"), "no such file")) == (
        "base.yaml:7: tasks.t.data.dev: no such file"
    )
    assert str(config.error(("seed",), "bad")) == "command line: seed=3: seed: bad"


def test_later_errors_name_the_option_they_are_about(base):
    override = "tasks.pair.head.size=3"
    config = load_config(base, [override])
    path = ("tasks", "pair", "head")
    assert str(config.error(path, UserError("too large", ("size",)))) == (
        f"command line: {override}: tasks.pair.head.size: too large"
    )
    assert config.error(path, UserError("too many")).place == f"command line: {override}"
    assert load_config(base).error(path, UserError("too many")).place == "base.yaml:12"


def test_values_as_written(base):
    config = load_config(
        base,
        [
            "tasks.t.data.labels=[neg, 1, true]",
            "tasks.pair.data.labels={0: no, 1.0: yes}",
            "tasks.t.data.unlabelled=['', -1, n/a]",
            "training.lr=1",
        ],
    )
    assert config.tasks["t"].data.labels == {"neg": "neg", "1": "1", "True": "True"}
    assert config.tasks["pair"].data.labels == {"0": "no", "1.0": "yes"}
    assert config.tasks["t"].data.unlabelled == ["", "-1", "n/a"]
    assert isinstance(config.training.lr, float)
    assert config.tasks["t"].pooling.name == "cls"
    assert config.tasks["pair"].head.options == {"features": ["abs_diff"]}
    assert config.output_dir == str(Path("runs") / "base")


def test_data_directory(base, monkeypatch):
    assert load_config(base).data_path("x.csv") == EMBEDDED_DIR / "x.csv"
    result = load_config(base, ["data_dir=here"])
    assert result.data_path("x.csv") == Path.cwd() / "here" / "x.csv"
    assert result.data_path("/there/x.csv") == Path("/there/x.csv")
    monkeypatch.setenv("HOME", "/home/me")
    assert load_config(base, ["data_dir=~/d"]).data_dir == "/home/me/d"


def test_dump_keeps_text_that_looks_like_a_number(base, tmp_path):
    given = [
        "encoder.revision='12e4567'",
        "tasks.t.data.label='08'",
        "tasks.t.data.labels={'1e5': 'no', x: '2020-01-01'}",
        "tasks.t.data.text='null'",
    ]
    config = load_config(base, given)
    dumped = tmp_path / "config.yaml"
    dumped.write_text(config.dump(), encoding="utf-8")
    assert load_config(dumped).resolved() == config.resolved()


def test_resolved_has_every_key(base):
    resolved = load_config(base).resolved()
    assert set(resolved) == set(Config.model_fields)
    assert resolved["tasks"]["t"]["early_stopping"] == {"patience": None, "min_delta": 0.0}


ROLES = """\
defaults: {batch_size: 8}
tasks:
  a: {data: {train: a, dev: a}, head: classification, batch_size: 4}
  b: {data: {train: b, dev: b}, head: classification}
  scored: {data: {dev: c}, share_head: a}
  suite: {data: {dev: d}, share_pooling: b, head: binary, evaluate_only: true}
"""


def test_the_roles_of_tasks(files):
    files(a=ROLES)
    config = load_config("a.yaml")
    assert config.trained_tasks() == ["a", "b"]
    assert config.selecting_tasks() == {"a": "a", "b": "b", "scored": "a", "suite": "b"}
    staged = load_config("a.yaml", ["stages=[{tasks: [b]}]"])
    assert staged.trained_tasks() == ["b"]


def test_what_is_written_in_a_task_is_no_default(files):
    files(a=ROLES)
    config = load_config("a.yaml", ["tasks.b.dropout=0.2"])
    written = [("a", "batch_size"), ("b", "dropout"), ("scored", "data")]
    shared = [("b", "batch_size"), ("a", "dropout"), ("scored", "smart")]
    assert not any(config.is_default(("tasks", *path)) for path in written)
    assert all(config.is_default(("tasks", *path)) for path in shared)


@pytest.mark.parametrize(
    ("override", "known"),
    [
        ("seed=1", True),  # the packaged encoder
        ("encoder.from_scratch=true", False),
        ("encoder.name=bert-base-uncased", False),
    ],
)
def test_corpora_that_an_encoder_has_seen(override, known, base):
    assert ("quora" in seen_corpora(load_config(base, [override]))) == known
    said = load_config(base, [override, "encoder.seen_corpora={mine: all of it}"])
    assert seen_corpora(said) == {"mine": "all of it"}


def test_labels_that_make_a_config_too_large_to_be_read_again_are_refused(base):
    labels = {"x" * 2_000 + str(n): "x" for n in range(1_000)}
    with pytest.raises(UserError, match="1,048,576"):
        load_config(base).with_labels({"t": labels})
