"""The grid file: cells and their names, the config of each, and every mistake with its line."""

import itertools
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.config.yaml_merge import load_extended
from multitask.sweep.grid import SAFE_NAME, Grid, load_grid
from multitask.utils.errors import UserError
from tests.conftest import ROOT

BASE = f"base: {ROOT / 'configs' / 'cs224n_minilm.yaml'}\nseeds: [1, 2]\n"
POOLINGS = ["cls", "mean", "max"]


@pytest.fixture
def written(tmp_path: Path):
    """``written(text)`` is the grid of a file ``g.yaml`` with that text."""

    def read(text: str, *overrides: str) -> Grid:
        (tmp_path / "g.yaml").write_text(text)
        return load_grid(tmp_path / "g.yaml", list(overrides))

    return read


def names(grid: Grid) -> list[str]:
    return [cell.name for cell in grid.cells]


def test_every_combination_in_order_of_the_file(written):
    keys = [f"  tasks.{task}.pooling: [cls, mean, max]\n" for task in ("sst", "qqp", "sts")]
    grid = written(BASE + "grid:\n" + "".join(keys))
    assert names(grid) == ["-".join(p) for p in itertools.product(POOLINGS, repeat=3)]
    assert grid.baseline == "cls-cls-cls"
    for cell in grid.cells:
        config = grid.config(cell, 7, Path("somewhere"))
        result = [config.tasks[task].pooling.name for task in ("sst", "qqp", "sts")]
        assert "-".join(result) == cell.name
        assert (config.seed, config.output_dir) == (7, "somewhere")


def test_named_cells_are_combined_with_the_grid(written):
    grid = written(
        BASE + "set: {defaults.max_rows: 50, training.epochs: 4}\n"
        "cells:\n  siamese: {}\n"
        "  alone: {tasks.qqp: null, training.epochs: 5, training.sampler: {name: round_robin}}\n"
        "grid:\n  training.lr: [1e-5, 2e-5]\n  tasks.sst.projection: [null, tanh]\n"
        "baseline: alone-lr_1e-05-tanh\n"
    )
    assert names(grid) == [
        f"{name}-lr_{lr}-{projection}"
        for name in ("siamese", "alone")
        for lr in ("1e-05", "2e-05")
        for projection in ("projection_null", "tanh")
    ]
    assert grid.baseline == "alone-lr_1e-05-tanh"
    first, last = (grid.config(grid.cells[i], 1, Path()) for i in (0, -1))
    assert first.training.epochs == 4 and last.training.epochs == 5
    assert set(first.tasks) == {"sst", "qqp", "sts"} and set(last.tasks) == {"sst", "sts"}
    assert {task.max_rows for task in first.tasks.values()} == {50}
    assert first.tasks["sst"].projection is None and last.tasks["sst"].projection.name == "tanh"


def test_the_axes_hold_labels_and_values_and_each_cell_its_place_on_them(written):
    grid = written(
        BASE + "set: {defaults.max_rows: 50}\n"
        "cells: {siamese: {}, longer: {training.epochs: 5}}\n"
        "grid:\n  encoder.name: [a/b c, packaged-minilm]\n"
        "  tasks.qqp.head:\n    plain: siamese_paraphrase\n"
        "    uv: {name: siamese_paraphrase, features: [u, v]}\n"
    )
    uv = {"name": "siamese_paraphrase", "features": ["u", "v"]}
    assert [tuple(axis.values()) for axis in grid.axes] == [
        ("cells", ["siamese", "longer"], [{}, {"training.epochs": 5}]),
        ("encoder.name", ["a-b-c", "packaged-minilm"], ["a/b c", "packaged-minilm"]),
        ("tasks.qqp.head", ["plain", "uv"], ["siamese_paraphrase", uv]),
    ]
    assert grid.cells[5].name == "longer-a-b-c-uv"
    config = grid.config(grid.cells[5], 1, Path())
    assert config.encoder.name == "a/b c"
    assert config.tasks["qqp"].head.options == {"features": ["u", "v"]}
    for cell in grid.cells:
        assert list(cell.point) == [axis["key"] for axis in grid.axes]
        assert "-".join(cell.point.values()) == cell.name
    points = [tuple(cell.point.values()) for cell in grid.cells]
    assert points == list(itertools.product(*(axis["labels"] for axis in grid.axes)))


def test_numbers_are_named_with_as_much_of_their_key_as_tells_them_apart(written):
    grid = written(
        BASE + "grid:\n  tasks.sst.max_rows: [10]\n  tasks.qqp.max_rows: [20]\n"
        "  encoder.freeze: [true]\n"
    )
    assert names(grid) == ["sst.max_rows_10-qqp.max_rows_20-freeze_true"]


VALUES = {
    "training.lr": st.sampled_from([1e-5, 2e-5, 3e-4]),
    "training.epochs": st.integers(1, 9),
    "tasks.sst.pooling": st.sampled_from(POOLINGS),
    "tasks.qqp.pooling": st.sampled_from(POOLINGS),
    "encoder.freeze": st.booleans(),
    "tasks.sts.max_rows": st.sampled_from([None, 10, 20]),
}


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_cells_are_the_product_with_unique_names_in_a_stable_order(data, tmp_path):
    keys = data.draw(st.permutations(list(VALUES)))[: data.draw(st.integers(1, 3))]
    axes = {k: data.draw(st.lists(VALUES[k], min_size=1, max_size=3, unique=True)) for k in keys}
    cells = data.draw(st.lists(st.sampled_from(["a", "b.1", "C_x"]), unique=True))
    content = {
        "base": str(ROOT / "configs" / "cs224n_minilm.yaml"),
        "seeds": [3],
        "grid": axes,
        "cells": {name: {} for name in cells},
    }
    file = tmp_path / "grid.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    grid, again = load_grid(file), load_grid(file)
    points = list(itertools.product(*axes.values()))
    assert len(grid.cells) == len(points) * max(1, len(cells))
    assert grid.cells == again.cells
    folded = [name.casefold() for name in names(grid)]
    assert len(set(folded)) == len(folded)
    assert all(SAFE_NAME.fullmatch(name) for name in names(grid))
    expected = [point for _ in range(max(1, len(cells))) for point in points]
    for cell, point in zip(grid.cells, expected, strict=True):
        resolved = grid.config(cell, 3, Path()).resolved()
        for key, value in zip(axes, point, strict=True):
            actual = resolved
            for part in key.split("."):
                actual = actual[part]
            assert actual == ({"name": value} if key.endswith("pooling") else value)


def test_the_resolved_grid_makes_the_same_cells_anywhere(written, tmp_path):
    grid = written(
        BASE + "set: {training.epochs: 4}\ncells: {a: {}, b: {tasks.qqp: null}}\n",
        "training.epochs=5",
        "data_dir=somewhere",
    )
    (tmp_path / "deep").mkdir()
    again_file = tmp_path / "deep" / "again.yaml"
    again_file.write_text(yaml.safe_dump(grid.resolved, sort_keys=False))
    again = load_grid(again_file)
    for one, other in zip(grid.cells, again.cells, strict=True):
        assert grid.config(one, 1, Path()).dump() == again.config(other, 1, Path()).dump()
    assert again.config(again.cells[0], 1, Path()).training.epochs == 5


def test_a_grid_extends_another_and_the_base_stays_relative_to_its_file(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.yaml").symlink_to(ROOT / "configs" / "demo.yaml")
    (tmp_path / "cs224n_minilm.yaml").symlink_to(ROOT / "configs" / "cs224n_minilm.yaml")
    (tmp_path / "cs224n.yaml").symlink_to(ROOT / "configs" / "cs224n.yaml")
    (tmp_path / "first.yaml").write_text("base: base.yaml\nseeds: [1]\ncells: {a: {}}\n")
    (tmp_path / "sub" / "next.yaml").write_text("extends: ../first.yaml\nseeds: [4, 5]\n")
    grid = load_grid(tmp_path / "sub" / "next.yaml")
    assert (names(grid), grid.seeds) == (["a"], [4, 5])


SHARED = "{share_head: qqp, head: siamese_paraphrase, metric: accuracy}"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("grid:\n  tasks.sst.poolin: [cls]\n", 4, "tasks.sst.poolin"),
        ("grid:\n  tasks.sst.pooling: [cls, mena]\n", 4, "'mena'"),
        ("cells:\n  a: {}\n  b:\n    training.epochss: 3\n", 6, "'epochs'?"),
        ("cells: {a: {}}\nset:\n  training.epochs: many\n", 5, "training.epochs"),
        ("cells:\n  a:\n    tasks.qqp.input: single\n", 5, "tasks.qqp.input"),
        ("", 1, "no cells"),
        ("cells: {}\ngrid: {}\n", 1, "no cells"),
        ("grid:\n  training.epochs: []\n", 4, "grid.training.epochs"),
        ("grid:\n  training.epochs: 3\n", 4, "grid.training.epochs"),
        ("grid:\n  training.epochs: [3, 3]\n", 3, "cell epochs_3: "),
        ("cells: {a: {}, A: {}}\n", 3, "cell A: "),
        ("cells: {a/b: {}}\n", 3, "cells.a/b"),
        ("cells: {..: {}}\n", 3, "'..'"),
        ("cells:\n  a:\n", 4, "cells.a"),
        ("cells: {a: {}, b: {}}\nbaseline: bb\n", 4, "'bb' (did you mean 'b'?)"),
        ("cells: {a: {seed: 3}}\n", 3, "cells.a.seed"),
        ("cells: {a: {output_dir: x}}\n", 3, "--output DIR"),
        ("cells: {a: {extends: x}}\n", 3, "`base`"),
        ("cells: {a: {training..lr: 1}}\n", 3, "a config key"),
        ("grid:\n  tasks.qqp.head: [{name: binary}]\n", 4, "grid.tasks.qqp.head.0"),
        ("grid:\n  encoder.name: ['/']\n", 4, "needs a label"),
        ("set: {training.lr: 1}\ngrid:\n  training.lr: [1, 2]\n", 5, "grid.training.lr"),
        ("cells: {a: {device: cpu}}\ngrid: {device: [cpu]}\n", 4, "grid.device"),
        ("grid:\n  tasks: {all: {}, two: {sts: null}}\n", 4, "`tasks`"),
        ("cells: {a: {}}\ncell: {}\n", 4, "cell: unknown key (did you mean 'cells'?)"),
        (f"cells: {{{'a' * 101}: {{}}}}\n", 3, "100 characters"),
        ("grid: {" + ", ".join(f"a.k{i}: {[*range(100)]}" for i in range(4)) + "}\n", 3, "1,000"),
        (f"probe: true\ncells:\n  a:\n    tasks.sts: {SHARED}\n", 6, "tasks.sts.share_head"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(text, line, words, written, tmp_path):
    with pytest.raises(UserError) as caught:
        written(BASE + text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'g.yaml'}:{line}: "), message
    assert words in message and "\n" not in message


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("seeds: [1]\n", "g.yaml:1: the key 'base' is missing"),
        ("base: nowhere.yaml\nseeds: [1]\n", "g.yaml:1: base: no such file: "),
        ("base: .\nseeds: [1]\n", "g.yaml:1: base: "),
        ("base: ~/nowhere.yaml\nseeds: [1]\n", f"base: no such file: {Path.home()}/nowhere.yaml"),
        (BASE.replace("[1, 2]", str([*range(1001)])), "1,000"),
        (BASE.replace("[1, 2]", "[]"), "g.yaml:2: seeds"),
        (BASE.replace("[1, 2]", "[0, 2, 0]"), "g.yaml:2: seeds"),
        (BASE.replace("[1, 2]", "[1, -2]"), "g.yaml:2: seeds.1"),
        (BASE.replace("[1, 2]", "[1, x]"), "g.yaml:2: seeds.1"),
        (BASE.splitlines()[0] + "\n", "the key 'seeds' is missing"),
    ],
)
def test_base_and_seeds_are_checked(head, words, written):
    with pytest.raises(UserError) as caught:
        written(head + "cells: {a: {}}\n")
    assert words in str(caught.value)


def test_a_mistake_that_is_not_in_an_override_names_the_cell(written, tmp_path):
    (tmp_path / "base.yaml").write_text("training: {epochs: 0}\ntasks: {}\n")
    with pytest.raises(UserError, match=r"g.yaml:1: cell a: .*base.yaml:1: training.epochs"):
        written("base: base.yaml\nseeds: [1]\ncells: {a: {}}\n")


def test_a_mistake_on_the_command_line_is_told_as_such(written):
    with pytest.raises(UserError, match=r"^command line: training.epochss: unknown key"):
        written(BASE + "cells: {a: {}}\n", "training.epochss=3")
    with pytest.raises(UserError, match=r"g.yaml:3: grid.device: "):
        written(BASE + "grid: {device: [cpu]}\n", "device=cuda")


PROBE = BASE + "probe: true\n"


def test_cells_of_a_probe_grid_differ_in_what_follows_the_encoder(written):
    grid = written(
        PROBE + "set: {training.epochs: 7, encoder.dropout: 0.0}\n"
        "cells:\n"
        "  a: {}\n"
        "  b: {defaults.dropout: 0.3, tasks.sst.projection: tanh, tasks.qqp.head_lr: 0.1}\n"
        "  c: {tasks.sst: {pooling: max, head: classification}}\n"
    )
    assert grid.probe and grid.resolved["probe"] is True


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cells: {a: {}, b: {encoder.dropout: 0.0}}\n", "encoder.dropout"),
        ("cells: {a: {training.epochs: 5}, b: {}}\n", "training.epochs"),
        ("cells: {a: {}, b: {tasks.qqp: null}}\n", "tasks.qqp"),
        ("cells: {a: {}, b: {defaults.max_length: 9}}\n", "tasks.sst.max_length"),
        ("cells: {a: {}, b: {tasks.sst: {pooling: max, max_rows: 9}}}\n", "tasks.sst.max_rows"),
        ("cells: {a: {}}\ngrid: {tasks.sst.metric: [accuracy, macro_f1]}\n", "tasks.sst.metric"),
    ],
)
def test_cells_of_a_probe_grid_differ_in_nothing_else(text, key, written, tmp_path):
    with pytest.raises(UserError) as caught:
        written(PROBE + text)
    assert str(caught.value).startswith(f"{tmp_path / 'g.yaml'}:3: probe: cell ")
    assert f" {key}" in str(caught.value)


def test_the_probes_of_all_poolings_are_those_of_the_trained_grid():
    grids = [load_grid(ROOT / "configs/ablations" / f"pooling{end}.yaml") for end in ("", "_probe")]
    assert [grid.probe for grid in grids] == [False, True]
    assert grids[0].cells == grids[1].cells and len(grids[0].cells) == 27
    assert (grids[0].seeds, grids[0].baseline) == (grids[1].seeds, grids[1].baseline)


def test_the_grid_in_the_docs_is_valid(tmp_path):
    text = (ROOT / "docs" / "ablations.md").read_text()
    (yaml_text,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "g.yaml"
    file.write_text(yaml_text.replace("../", f"{ROOT}/configs/"))
    grid = load_grid(file)
    assert len(grid.cells) == 2 * 2 * 2 * 2 and grid.baseline == names(grid)[0]


SHIPPED = [
    f
    for d in ("ablations", "papers")
    for f in sorted((ROOT / "configs" / d).glob("*.yaml"))
    if "title" not in load_extended(f).value  # a table's layout
]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_grids_have_cells_and_seeds(file):
    """The file that others extend names no cells itself.

    One seed is enough to search a recipe by. In a grid of two axes, four runs of each value do.
    """
    if file.stem in ("short", "low_resource"):
        with pytest.raises(UserError, match="no cells"):
            load_grid(file)
        return
    grid = load_grid(file)
    long = [len(axis["labels"]) for axis in grid.axes if len(axis["labels"]) > 1]
    repeated = len(long) > 1 and len(grid.cells) * len(grid.seeds) >= 4 * max(long)
    assert len(grid.cells) > 1 or len(grid.seeds) > 3  # one setting: teachers
    assert len(grid.seeds) >= (1 if repeated or file.stem == "recipe" else 3)
