"""The grids of the pooling papers: what each trains; and one of their kind from end to end."""

import fnmatch
import json
import re
from pathlib import Path

import pytest

import run_multitask
from multitask.config import Config, load_config
from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.layout import load_layout
from multitask.sweep.ablation_table import write_table
from multitask.sweep.grid import load_grid
from multitask.sweep.sweep_directory import plan_runs
from multitask.training.train_run import train
from tests.conftest import ROOT
from tests.support.glue_files import FOLDERS, write_shared

CONFIGS = ROOT / "configs"
GRIDS = sorted(
    path
    for folder in ("maxpoolbert", "hire")
    for path in (CONFIGS / folder).glob("*.yaml")
    if "base" in load_extended(path).value
)
LOCAL = {"cola", "mrpc", "rte", "wnli", "sst2", "sst5", "stsb_course"}
# a table, and the grids whose runs it takes
TABLES = [
    ("maxpoolbert/table2", "maxpoolbert/glue"),
    ("maxpoolbert/table2_minilm", "maxpoolbert/minilm maxpoolbert/minilm_5"),
    ("maxpoolbert/table3", "maxpoolbert/glue"),
    ("maxpoolbert/table3_minilm", "maxpoolbert/minilm maxpoolbert/minilm_5"),
    ("maxpoolbert/table6", "maxpoolbert/roberta"),
    ("maxpoolbert/table7", "maxpoolbert/k"),
    (
        "maxpoolbert/table7_minilm",
        "maxpoolbert/minilm maxpoolbert/minilm_5 maxpoolbert/minilm_k maxpoolbert/minilm_k_5",
    ),
    ("maxpoolbert/size_table", "maxpoolbert/training_size"),
    ("maxpoolbert/size_table_minilm", "maxpoolbert/minilm_size"),
    ("hire/selection_table", "hire/selection"),
    ("hire/table1", "hire/glue"),
    ("hire/table1_minilm", "hire/minilm hire/minilm_5"),
    ("hire/table4", "hire/ablation4"),
    ("hire/table5", "hire/ablation5"),
    ("hire/table6", "hire/ablation6"),
    ("hire/table4_to_6_minilm", "hire/minilm hire/minilm_ablation"),
    (
        "papers/layer_attention_table1",
        "papers/layer_attention_eq6 papers/layer_attention_eq7 papers/layer_attention_eq8",
    ),
    (
        "papers/layer_attention_table1_minilm",
        "ablations/layer_attention_eq6 ablations/layer_attention_eq7 ablations/layer_attention_eq8",
    ),
    ("papers/layer_attention_eq7_mlp", "ablations/layer_attention_eq7"),
    ("papers/layer_attention_table2", "ablations/layer_attention"),
    ("papers/layer_attention_table2", "papers/layer_attention_bert_base"),
    ("papers/layer_attention_table2_mean", "ablations/layer_attention"),
    ("papers/layer_attention_table1_reinit", "ablations/layer_attention_eq7_reinit"),
    ("papers/layer_attention_table2_reinit", "ablations/layer_attention_reinit"),
    ("papers/layer_attention_table5", "ablations/layer_attention_diffcse"),
    ("papers/minibert_table1", "papers/multitask_minibert"),
    ("papers/minibert_table2", "papers/multitask_minibert"),
    ("papers/minibert_table1", "papers/multitask_minibert_hub"),
    ("papers/minibert_table2", "papers/multitask_minibert_hub"),
    ("papers/minibert_multitask", "papers/multitask_minibert"),
]
# most of its rows are of other systems, and `from_mnli` is trained for four tasks alone
OF_OTHERS = {"hire/table2"}
# rows of table 1 that are printed alone
OTHER_SYSTEMS = {"mt_dnn", "xlnet", "albert"}
MAXPOOL = ["cls", "max_cls", "mha", "max_seq_mha", "mean_seq_mha"]


def cells(name: str) -> tuple[set[str], list[str], int]:
    """A grid's tasks, rows and number of runs."""
    grid = load_grid(CONFIGS / f"{name}.yaml")
    rows = list(dict.fromkeys(cell.row for cell in grid.cells))
    return {cell.task for cell in grid.cells}, rows, len(grid.cells) * len(grid.seeds)


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_grid_trains_one_task_a_run(path):
    grid = load_grid(path)
    for cell in grid.cells:
        config = grid.config(cell, 1, Path())
        trained = [name for name, task in config.tasks.items() if not task.only_scored]
        assert trained == [cell.task]
        if "minilm" not in path.stem:  # the papers have one rate
            assert config.training.lr == config.training.head_lr
        else:
            assert config.encoder.name == "packaged-minilm" and config.training.holdout == 0.1
            assert {cell.task} <= LOCAL
            for option in ("last", "layers"):
                chosen = config.tasks[cell.task].pooling.options.get(option, 1)
                assert max(chosen) <= 6 if isinstance(chosen, list) else chosen <= 6
    local = "DATA-DIR" in path.read_text()
    assert local == ("minilm" in path.stem) or path.stem == "glue_hub"


def test_the_grids_are_those_of_the_papers():
    nine = set(FOLDERS)
    assert cells("maxpoolbert/glue") == (nine, MAXPOOL, 9 * 5 * 3)
    assert cells("maxpoolbert/k")[:2] == (
        {"cola", "mrpc", "rte"},
        [f"k_{k}" for k in (1, 2, 3, 4, 6, 12)],
    )
    curve = [f"k_{k}" for k in (3, 4, 6)]  # 1 and 2 are rows of minilm
    assert cells("maxpoolbert/minilm_k") == ({"cola"}, curve, 3 * 3)
    assert cells("maxpoolbert/minilm_k_5") == ({"mrpc", "rte"}, curve, 2 * 3 * 5)
    one, two = cells("maxpoolbert/minilm"), cells("maxpoolbert/minilm_5")
    assert one[0] | two[0] == LOCAL and two[2] == 2 * 6 * 5
    assert one[1] == two[1] == ["cls", "mean", *MAXPOOL[1:]]
    assert cells("hire/selection")[2] == 9 * 6 * 5
    assert cells("hire/glue") == (nine, ["roberta", "hire"], 9 * 2 * 5)
    assert cells("hire/minilm_ablation")[0] == {"cola"}


@pytest.mark.parametrize(("layout", "grids"), TABLES)
def test_a_tables_rows_and_columns_are_cells_and_tasks_of_its_grids(layout, grids):
    table = load_layout(CONFIGS / f"{layout}.yaml")
    loaded = [load_grid(CONFIGS / f"{name}.yaml") for name in grids.split()]
    trained = {
        (task, cell.row)
        for grid in loaded
        for cell in grid.cells
        for task in grid.config(cell, 1, Path()).tasks
    }
    for column in (each for each in table.columns if not each.mean):
        start = f"{column.cells}-" if column.cells else ""
        ours = {row for row in table.rows if not row.endswith("_published")} - OTHER_SYSTEMS
        assert {(column.task, start + row) for row in ours} <= trained


def test_every_layout_of_a_task_has_its_grids():
    """A layout without tasks holds printed values alone; glue/table.yaml takes any runs."""
    files = [file for file in CONFIGS.rglob("*.yaml") if "columns" in load_extended(file).value]
    of_tasks = {
        f"{file.parent.name}/{file.stem}"
        for file in files
        if any(column.task for column in load_layout(file).columns)
    }
    assert of_tasks - OF_OTHERS - {"glue/table"} == {layout for layout, _ in TABLES}


@pytest.mark.parametrize("equation", ["eq6", "eq7", "eq8"])
def test_the_rows_of_table_1_are_trained_as_the_files_of_the_same_names(equation):
    grid = load_grid(CONFIGS / "papers" / f"layer_attention_{equation}.yaml")
    assert len(grid.cells) == 6
    for cell in grid.cells:
        made = grid.config(cell, 1, Path())
        alone = load_config(CONFIGS / "layer_attention" / f"{cell.name}.yaml")
        assert made.encoder == alone.encoder, cell.name
        task, wanted = made.tasks["contrastive"], alone.tasks["contrastive"]
        assert task.pooling.name == wanted.pooling.name  # with the options of the paper by default
        for key in ("data", "input", "projection", "batch_size", "max_length"):
            assert getattr(task, key) == getattr(wanted, key), (cell.name, key)
        options = task.head.options | {"chunk": None}
        plain = {"mlp_only_train": False, "chunk": None}
        assert options == plain | wanted.head.options | {"chunk": None}, cell.name
        for key in ("lr", "head_lr", "epochs", "eval_steps", "select"):
            assert getattr(made.training, key) == getattr(alone.training, key), (cell.name, key)


@pytest.mark.parametrize("name", ["layer_attention_table1", "layer_attention_table1_minilm"])
def test_the_rows_of_table_1_are_compared_within_an_encoder_and_an_equation(name):
    table = load_layout(CONFIGS / "papers" / f"{name}.yaml")
    _, baselines = table.baselines(list(table.rows))
    for row, baseline in baselines.items():
        objective = next(part for part in row.split("_") if part.startswith("eq"))
        start = row[: row.index(objective)] + objective
        assert baseline == (None if row == f"{start}_cls" else f"{start}_cls")


def settings(name: str) -> dict[str, Config]:
    """The resolved config of each cell of a grid, by the cell's name."""
    grid = load_grid(CONFIGS / f"{name}.yaml")
    return {cell.name: grid.config(cell, 1, Path()) for cell in grid.cells}


def differing(left: Config, right: Config) -> set[str]:
    """The keys in which two configs differ: of `training`, and of tasks as TASK.KEY."""
    found = {key for key, value in left.training if value != getattr(right.training, key)}
    for name, task in left.tasks.items():
        other = right.tasks[name]
        found |= {f"{name}.{key}" for key, value in task if value != getattr(other, key)}
    return found


def test_the_cells_of_the_mini_bert_grid_differ_in_what_their_names_say():
    cells = settings("papers/multitask_minibert")
    nine, joint, alternate = (
        cells[name] for name in ("multitask_9_epochs", "multitask", "cls_cls_cls")
    )
    assert differing(nine, joint) == {"epochs"} and nine.training.epochs == 9
    assert joint.training.epochs == alternate.training.epochs == 3
    assert differing(joint, alternate) == {"combine"} and joint.training.combine == "joint"
    best, literal = cells["cls_mean_mean"], cells["literal_heads"]
    assert differing(alternate, best) == {"qqp.pooling", "sts.pooling"}
    assert differing(literal, best) == {"qqp.head", "sts.head"}
    head = literal.tasks["qqp"].head
    assert head.name == "siamese_paraphrase" and head.options["features"] == ["u", "v", "abs_diff"]
    assert literal.tasks["sts"].head.name == "cosine_with_embeddings"


def test_one_row_of_equation_7_keeps_its_mlp_and_one_does_not():
    cells = settings("ablations/layer_attention_eq7")
    kept = {name: cell.tasks["contrastive"].head.options for name, cell in cells.items()}
    assert {name for name, options in kept.items() if options["mlp_only_train"]} == {"eq7_cls"}
    apart = differing(cells["eq7_cls_mlp"], cells["eq7_attention"])
    assert {key.partition(".")[2] for key in apart} == {"pooling"}  # the suites share it


@pytest.mark.parametrize("folder", ["ablations", "papers"])
def test_the_cells_of_a_grid_have_the_same_dev_rows(folder):
    files = sorted((CONFIGS / folder).glob("layer_attention*.yaml"))
    grids = [load_grid(file) for file in files if "cells" in load_extended(file).value]
    assert len(grids) > 3
    for grid in grids:
        tasks = [grid.config(cell, 1, Path()).tasks["contrastive"] for cell in grid.cells]
        assert len({task.data.model_dump_json() for task in tasks}) == 1


def test_the_hubs_grid_takes_all_rows():
    grid = load_grid(CONFIGS / "papers" / "multitask_minibert_hub.yaml")
    for cell in grid.cells:
        config = grid.config(cell, 1, Path())
        assert config.encoder.name == "bert-base-uncased" and not config.training.holdout
        assert {task.max_rows for task in config.tasks.values()} == {None}
        assert config.training.epochs == (9 if cell.name == "multitask_9_epochs" else 3)
        assert config.training.lr == 2e-5  # section 4.6
        assert {task.data.format for task in config.tasks.values()} == {"hub"}


@pytest.mark.parametrize("folder", ["maxpoolbert", "hire"])
def test_a_page_names_every_grid_and_layout(folder):
    page = (ROOT / "docs" / "measured" / f"{folder}.md").read_text()
    names = {path.name for path in GRIDS if path.parent.name == folder}
    names |= {f"{name.split('/')[1]}.yaml" for name, _ in TABLES if name.startswith(folder)}
    assert not [name for name in names if f"`{name}`" not in page]


def test_what_is_measured_on_minilm_has_a_table_on_a_page():
    of_minilm = {layout: grids.split() for layout, grids in TABLES if layout.endswith("_minilm")}
    del of_minilm["papers/layer_attention_table1_minilm"]  # its page is no page of `GRIDS`
    measured = {f"{path.parent.name}/{path.stem}" for path in GRIDS if "minilm" in path.stem}
    chosen = {name for name in measured if name.endswith("_rate")}  # has another kind of table
    assert measured - chosen == {name for grids in of_minilm.values() for name in grids}
    for folder, name in (path.split("/") for path in chosen):
        page = (ROOT / "docs" / "measured" / f"{folder}.md").read_text()
        assert f"<!-- measured: sheet grids/{name}_cola -->" in page
    for layout in of_minilm:
        folder, name = layout.split("/")
        page = (ROOT / "docs" / "measured" / f"{folder}.md").read_text()
        assert f"<!-- measured: sheet papers/{name} -->" in page
        table = load_layout(CONFIGS / f"{layout}.yaml")
        printed = any(row.printed for row in table.rows.values())
        assert not printed or "another encoder than ours" in (table.source or "")


def test_the_figures_of_hire_are_drawn_from_cells_that_there_are():
    texts = [path.read_text() for path in (CONFIGS / "hire").glob("*.yaml")]
    trained = {
        output: load_grid(ROOT / config)
        for text in texts
        for config, output in re.findall(r" ablate (\S+) .*--output (\S+)", text)
    }
    drawn = [
        words
        for text in texts
        for words in re.findall(r" importance (.*) --groups .* --output", text)
    ]
    assert len(drawn) == 2
    for run in " ".join(drawn).split():
        output, _, cell = run.removesuffix("/seed-1").partition("/cells/")
        assert fnmatch.filter(
            [cells_of_grid.name for cells_of_grid in trained[output].cells], cell
        ), run


def test_a_grid_of_two_poolings_becomes_a_table(tiny_encoder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_shared(tmp_path / "data")
    base = CONFIGS / "glue" / "minilm.yaml"
    (tmp_path / "small.yaml").write_text(
        f"base: {base}\ntasks: [mrpc]\nseeds: [1]\ngrid: {{defaults.pooling: [cls, mean]}}\n"
        f"set: {{encoder.name: {tiny_encoder}, training.epochs: 1, defaults.max_length: 48}}\n"
    )
    grid, output = load_grid("small.yaml", ["data_dir=data"]), Path("runs/small")
    runs = plan_runs(grid, output)
    for run in runs:  # in this process, which has torch already
        _, config, *overrides = run.arguments
        train(load_config(config, overrides), say=lambda line: None)
    (output / "grid.yaml").write_text(dump_yaml(grid.resolved))
    write_table(grid, runs, output, [])
    shown = capsys.readouterr().out
    assert "mrpc:\n" in shown and "runs/small/tasks/mrpc/table.md" in shown
    layout = str(CONFIGS / "maxpoolbert" / "table2.yaml")
    assert run_multitask.main(["table", layout, "runs/small", "--output", "out"]) == 0
    table = json.loads((tmp_path / "out" / "paper.json").read_text())
    rows = {row["name"]: row["cells"] for row in table["rows"]}
    reports = {
        name: json.loads(
            (tmp_path / f"runs/small/cells/mrpc-{name}/seed-1/report.json").read_text()
        )
        for name in ("cls", "mean")
    }
    for name, report in reports.items():
        dev = report["tasks"]["mrpc"]["dev"]
        accuracy, f1 = rows[name]["MRPC Acc."], rows[name]["MRPC F1"]
        assert accuracy["mean"] == pytest.approx(100 * dev["accuracy"])
        assert f1["mean"] == pytest.approx(100 * dev["f1"])
        assert accuracy["epoch_seconds"] == pytest.approx(report["epoch_seconds"])
        assert accuracy["dev_seconds"] > 0
    assert rows["cls"]["MRPC Acc."]["printed"] == 82.43
    assert rows["mean"]["MRPC Acc."]["printed"] is None
    assert rows["max_cls"]["CoLA MCC"]["values"] == []
