"""YAML into one tree: scalars, `extends`, `defaults`, overrides, and where each value stands."""

import os
from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.config.yaml_merge import is_override, load_extended, load_tree, nested
from multitask.config.yaml_reader import dump_yaml
from multitask.sweep.grid import load_grid
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.messages import tree_refusal


def test_extends_chain_and_list(files):
    files(
        top="x: 1\ny: 1\nz: {p: 1, q: 1}\nl: [1, 2]\n",
        middle="extends: top.yaml\ny: 2\nz: {q: 2, r: 2}\n",
        side="y: 3\nl: [3]\n",
        a="extends: [middle.yaml, side.yaml]\nz: {r: 4}\n",
    )
    tree = load_tree("a.yaml")
    assert tree.value == {"x": 1, "y": 3, "l": [3], "z": {"p": 1, "q": 2, "r": 4}}
    assert [tree.where((key,)) for key in "xyl"] == ["top.yaml:1", "side.yaml:1", "side.yaml:2"]
    assert [tree.where(("z", key)) for key in "pqr"] == ["top.yaml:3", "middle.yaml:3", "a.yaml:2"]
    assert tree.where(("l", 0)) == "side.yaml:2"
    assert tree.where(("l", 1)) == "side.yaml:2"  # not where the list was that is gone


def test_extends_is_relative_to_the_file_that_says_it(files):
    Path("sub").mkdir()
    files(top="x: 1\n")
    Path("sub/b.yaml").write_text("extends: ../top.yaml\n")
    files(a="extends: sub/b.yaml\n")
    assert load_tree("a.yaml").value == {"x": 1}


def test_one_parent_twice_is_no_cycle(files):
    files(top="x: 1\n", b="extends: top.yaml\n", c="extends: top.yaml\n")
    files(a="extends: [b.yaml, c.yaml]\n")
    assert load_tree("a.yaml").value == {"x": 1}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x: 1\nextends: nowhere.yaml\n", ("a.yaml:2: extends", "no such file: nowhere.yaml")),
        ("extends: [b.yaml, 5]\n", ("a.yaml:1: extends", "list of file names")),
        ("extends: {b: 1}\n", ("a.yaml:1: extends", "expected a file name")),
        ("extends: a.yaml\n", ("a.yaml", "extends itself")),
        ("extends: b.yaml\n", ("extends itself",)),
    ],
)
def test_extends_that_leads_nowhere(text, parts, files):
    files(a=text, b="extends: a.yaml\n")
    message = tree_refusal()
    assert all(part in message for part in parts), message


HEADED = "tasks:\n  t:\n    head: {name: one, size: 3}\n    data: {labels: {a: x, b: y}, id: i}\n"


@pytest.mark.parametrize(
    ("child", "override", "expected"),
    [
        ("{head: two}", "tasks.t.head=two", "two"),
        ("{head: {name: two}}", "tasks.t.head.name=two", {"name": "two"}),
        (
            "{head: {name: one, x: 1}}",
            "tasks.t.head={name: one, x: 1}",
            {"name": "one", "size": 3, "x": 1},
        ),
        ("{head: {size: 5}}", "tasks.t.head.size=5", {"name": "one", "size": 5}),
        ("{head: null}", "tasks.t.head=null", None),
    ],
)
def test_another_method_drops_the_options_of_the_one_before(child, override, expected, files):
    files(top=HEADED, a=f"extends: top.yaml\ntasks:\n  t: {child}\n")
    assert load_tree("a.yaml").value["tasks"]["t"]["head"] == expected
    assert load_tree("top.yaml", [override]).value["tasks"]["t"]["head"] == expected


def test_options_on_top_of_a_bare_name(files):
    files(top="tasks: {t: {head: one}}\n", a="extends: top.yaml\ntasks: {t: {head: {size: 5}}}\n")
    tree = load_tree("a.yaml")
    assert tree.value["tasks"]["t"]["head"] == {"name": "one", "size": 5}
    assert tree.where(("tasks", "t", "head", "name")) == "top.yaml:1"
    assert tree.where(("tasks", "t", "head", "size")) == "a.yaml:2"
    assert tree.where(("tasks", "t", "head")) == "a.yaml:2"


def test_a_method_has_the_place_of_what_last_changed_it(files):
    files(a="tasks: {t: {head: one, size: 1}}\n")
    head = ["tasks.t.head={name: two}", "tasks.t.head.size=5"]
    tree = load_tree("a.yaml", [*head, "tasks.t.size=2"])
    assert tree.error(("tasks", "t", "head"), "").place == f"command line: {head[-1]}"
    assert tree.where(("tasks", "t")) == "a.yaml:1"


def test_labels_are_replaced_and_not_merged(files):
    files(top=HEADED, a="extends: top.yaml\ntasks: {t: {data: {labels: {b: z, c: w}}}}\n")
    data = load_tree("a.yaml").value["tasks"]["t"]["data"]
    assert data == {"labels": {"b": "z", "c": "w"}, "id": "i"}


def test_defaults_lie_underneath_every_task(files):
    files(
        top="defaults:\n  size: 1\n  head: {name: one, x: 1}\n  data: {id: i}\n",
        a="extends: top.yaml\n"
        "tasks:\n  s: {size: 2}\n  t:\n    head: two\n    data: {sep: x}\n  u: null\n"
        "defaults: {more: 5}\n",
    )
    tree = load_tree("a.yaml", ["defaults.size=7"])
    assert tree.value == {
        "tasks": {
            "s": {"size": 2, "head": {"name": "one", "x": 1}, "data": {"id": "i"}, "more": 5},
            "t": {"size": 7, "head": "two", "data": {"id": "i", "sep": "x"}, "more": 5},
        }
    }
    sources = {
        ("s", "size"): "a.yaml:3",
        ("t", "size"): "command line: defaults.size=7",
        ("s", "head", "x"): "top.yaml:3",
        ("t", "head"): "a.yaml:5",
        ("t", "data"): "a.yaml:6",
        ("s", "data"): "top.yaml:4",
        ("t", "data", "id"): "top.yaml:4",
        ("t", "data", "sep"): "a.yaml:6",
        ("t", "more"): "a.yaml:8",
        ("t",): "a.yaml:4",
    }
    assert {path: tree.where(("tasks", *path)) for path in sources} == sources
    assert tree.where(("tasks", "t", "unwritten", "deep")) == "a.yaml:4"


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("x=5", ("x",), 5),
        ("x=2e-5", ("x",), 2e-5),
        ("x=a=b", ("x",), "a=b"),
        (" x = 5", ("x",), 5),
        ("m.k=[1, {z: 2}]", ("m", "k"), [1, {"z": 2}]),
        ("m={new: 1}", ("m",), {"k": 0, "new": 1}),
        ("m.new.deep=x", ("m",), {"k": 0, "new": {"deep": "x"}}),
        ("m=null", ("m",), None),
        ("tasks.t=null", ("tasks",), {"u": {"k": 2}}),
        ("tasks.u.k=3", ("tasks",), {"t": {"k": 1}, "u": {"k": 3}}),
    ],
)
def test_overrides(override, path, value, files):
    files(a="x: 0\nm: {k: 0}\ntasks: {t: {k: 1}, u: {k: 2}}\n")
    tree = load_tree("a.yaml", [override])
    result = tree.value
    for key in path:
        result = result[key]
    assert result == value
    if path != ("tasks",):
        assert tree.where(path) == f"command line: {override}" or path == ("m",)


def test_the_last_override_counts(files):
    files(a="x: 0\n")
    assert load_tree("a.yaml", ["x=1", "x=2"]).value == {"x": 2}


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("x", "expected key.path=value"),
        ("=1", "expected key.path=value"),
        ("x..y=1", "expected key.path=value"),
        ("x=[1", "malformed YAML"),
        ("x={k: 1, k: 2}", "is given twice"),
        ("extends=b.yaml", "belongs in a file"),
    ],
)
def test_malformed_override_names_the_command_line(override, part, files):
    files(a="x: 0\n")
    message = tree_refusal("a.yaml", override)
    assert message.startswith("command line: ")
    assert override in message
    assert part in message


def test_unreadable_files(files):
    assert tree_refusal("nowhere.yaml") == (
        "nowhere.yaml: cannot read the config file: No such file or directory"
    )
    Path("directory.yaml").mkdir()
    assert "Is a directory" in tree_refusal("directory.yaml")
    Path("latin.yaml").write_bytes(b"x: caf\xe9\n")
    assert "save it as UTF-8" in tree_refusal("latin.yaml")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("configs/cs224n_minlm.yaml", "configs/cs224n_minilm.yaml"),
        ("cs224n_minlm.yaml", "configs/cs224n_minilm.yaml"),
        ("configs/ablations/poling.yaml", "configs/ablations/pooling.yaml"),
        ("configs/hire/minlm.yaml", "configs/hire/minilm.yaml"),
        ("my_topic.yaml", "my_topics.yaml"),
        ("wheels.yaml", None),
    ],
)
def test_a_missing_file_names_the_nearest(name, meant, files):
    Path("my_topics.yaml").write_text("seed: 1\n")
    Path("child.yaml").write_text(f"extends: {name}\n")
    for message in (tree_refusal(name), tree_refusal("child.yaml")):
        assert message.endswith(f"(did you mean {meant!r}?)" if meant else ("directory", name))


def test_a_text_as_encoder_is_its_name(files):
    Path("parent.yaml").write_text("encoder: {name: a, dropout: 0.3}\n")
    Path("child.yaml").write_text("extends: parent.yaml\nencoder: b\n")
    assert load_tree("child.yaml").value["encoder"] == {"name": "b", "dropout": 0.3}
    assert load_tree("parent.yaml", ["encoder=c"]).value["encoder"] == {"name": "c", "dropout": 0.3}
    tree = load_tree({"encoder": "d"}, ["encoder.freeze=true"])
    assert tree.value["encoder"] == {"name": "d", "freeze": True}
    Path("first.yaml").write_text("seed: 1\nencoder: e\n")
    assert load_tree("first.yaml").where(("encoder", "name")) == "first.yaml:2"


@pytest.mark.parametrize("text", ["", "# nothing but words\n", "\ufeff"])
def test_an_empty_file_still_has_a_place(text, files):
    files(a=text)
    tree = load_tree("a.yaml")
    assert tree.value == {}
    assert str(tree.error((), "message")) == "a.yaml:1: message"


def test_a_byte_order_mark_is_no_part_of_the_first_key(files):
    files(a="\ufeffx: 1\n")
    assert load_tree("a.yaml").value == {"x": 1}


# --- what a file may hold is bounded before it is expanded ---


def test_a_file_of_many_keys_is_refused_and_one_of_some_thousand_is_read_quickly(files):
    files(a="".join(f"k{i}:\n" for i in range(60_000)))
    assert "more than 50,000 values" in tree_refusal()
    keys = "".join(f"    k{i}: {i}\n" for i in range(500))
    names = "".join(f"  t{i}: {{k{i}: x}}\n" for i in range(20))
    files(a=f"defaults:\n{keys.replace('    ', '  ')}tasks:\n{names}")
    tasks = load_tree("a.yaml", ["defaults.k7=y"]).value["tasks"]
    assert (tasks["t3"]["k3"], tasks["t3"]["k7"], tasks["t7"]["k7"]) == ("x", "y", "x")


def test_files_that_extend_one_another_are_not_too_many(files):
    files(**{f"d{i}": f"extends: [d{i + 1}.yaml, d{i + 1}.yaml]\nk{i}: 1\n" for i in range(40)})
    files(d40="x: 1\n", **{f"c{i}": f"extends: c{i + 1}.yaml\n" for i in range(60)}, c60="x: 1\n")
    for name in ("d0.yaml", "c0.yaml"):
        assert "more than 50 files" in tree_refusal(name)
    assert load_tree("c15.yaml").value == {"x": 1}


def test_what_is_no_file_is_refused(files):
    os.mkfifo("pipe.yaml")
    Path("zero.yaml").symlink_to("/dev/zero")
    Path("loop.yaml").symlink_to("loop.yaml")
    files(a="extends: loop.yaml\n", large=f"x: {'y' * 2**20}\n")
    assert tree_refusal("pipe.yaml").startswith("pipe.yaml: neither a file nor")
    assert tree_refusal("zero.yaml").startswith("zero.yaml: neither a file nor")
    assert "symbolic links" in tree_refusal("loop.yaml")
    assert "symbolic links" in tree_refusal("a.yaml")
    assert "larger than 1,048,576 bytes" in tree_refusal("large.yaml")


def test_an_argument_that_is_not_utf_8_is_refused(files):
    files(a="x: 1\n")
    assert "not UTF-8" in tree_refusal("a.yaml", "x=caf\udce9")


def test_a_long_override_is_no_directory(files):
    files(a="x: 1\n")
    assert is_override("x=" + "y" * 5000)


def test_extends_falls_back_to_the_presets(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("extends: demo.yaml\nseed: 5\n")
    tree = load_tree(file)
    assert tree.value["seed"] == 5 and tree.value["tasks"]
    (tmp_path / "demo.yaml").write_text("device: cpu\n")  # a file next to it comes first
    assert load_tree(file).value == {"device": "cpu", "seed": 5}


def test_overrides_as_the_content_of_a_file_give_the_same_values(files):
    overrides = ["tasks.sst.head=a", "tasks.sst.head.size=3", "training.lr=1e-5", "seed=2"]
    overrides += ["tasks.sst.dropout=0.1", "tasks.sst.dropout=0.2"]
    values = nested(overrides)
    assert values["tasks"] == {"sst": {"head": {"name": "a", "size": 3}, "dropout": 0.2}}
    files(base="seed: 1\ntasks: {sst: {head: {name: b, other: 1}}}\n")
    files(over=dump_yaml({"extends": "base.yaml", **values}))
    assert load_tree("over.yaml").value == load_tree("base.yaml", overrides).value


DEFAULTS = "defaults: {data: {test: z}}\ntasks: {a: {data: {test: x}}, b: {data: {test: null}}, "
DEFAULTS += "c: {data: {dev: y}, smart: {weight: 1}}}\n"


def test_a_default_that_tasks_replace_is_refused(files):
    files(some=DEFAULTS, every="tasks: {a: {size: 1}, b: {size: 2}}")
    for file, override, tasks in (
        ("every", "defaults.size=3", "a, b"),
        ("every", "defaults.size=null", "a, b"),
        ("some", "defaults.data.test=null", "a"),
        ("some", "defaults.smart=null", "c"),  # a mapping is not taken away in silence
    ):
        message = tree_refusal(f"{file}.yaml", override)
        assert message.startswith(f"command line: {override}: has no effect on {tasks}, which set")
    both = load_tree("some.yaml", ["defaults.data.test=null", "tasks.a.data.test=null"]).value
    assert [task["data"]["test"] for task in both["tasks"].values()] == [None] * 3
    given = load_tree("some.yaml", ["defaults.data.test=w", "defaults.smart={eps: 2}"]).value
    assert [task["data"]["test"] for task in given["tasks"].values()] == ["x", None, "w"]
    assert given["tasks"]["c"]["smart"] == {"weight": 1, "eps": 2}


def test_an_override_is_known_in_the_task_and_in_the_defaults(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("training: {lr: 1}\ntasks: {a: {size: 1}, b: {}}\n")
    tree = load_tree(file, ["training.epochs=2", "defaults.length=3", "tasks.a.size=2"])
    known = [("training", "epochs"), ("tasks", "b", "length"), ("tasks", "a", "size")]
    assert all(map(tree.is_overridden, known))
    unknown = [("training", "lr"), ("training", "x"), ("tasks", "b", "size")]
    assert not any(map(tree.is_overridden, unknown))


@pytest.mark.parametrize("name", ["demo.yaml", "configs/demo.yaml", "ablations/pooling.yaml"])
def test_a_preset_is_found_from_any_directory(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = ROOT / "configs" / name.removeprefix("configs/")
    assert load_extended(Path(name)).value == load_extended(file).value
    if "/" not in name:
        (tmp_path / name).write_text("seed: 7\n")  # a file of this name comes first
        assert load_extended(Path(name)).value == {"seed": 7}


def test_a_grid_of_the_presets_finds_its_base(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_grid("configs/ablations/pooling.yaml").cells
    with pytest.raises(UserError, match=r"configs/no\.yaml: "):
        load_config("configs/no.yaml")
