"""The GLUE presets on tiny files in the official formats, and the server's files to the letter."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.sweep.grid import load_grid
from multitask.sweep.sweep_directory import plan_runs
from multitask.tasks import glue
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.glue_files import FOLDERS, SIZES, rows_of, write_glue, write_hub, write_shared
from tests.support.run_files import report_of

PRESETS = ROOT / "configs" / "glue"
TASKS = {"mnli": ["mnli", "mnli_mm", "ax"], "multitask": [*FOLDERS, "mnli_mm", "ax"]}


@pytest.fixture(scope="module")
def glue_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hub(tmp_path_factory.mktemp("hub"))


def tasks_of(name: str) -> list[str]:
    return TASKS.get(name, [name])


def hub_path(name: str, hub: Path) -> list[str]:
    return [f"tasks.{task}.data.path={hub}" for task in tasks_of(name)]


def small(encoder: Path, names: list[str]) -> list[str]:
    lengths = [f"tasks.{name}.max_length=48" for name in names]
    return [f"encoder.name={encoder}", "training.precision=fp32", *lengths]


@pytest.mark.parametrize("name", [*FOLDERS, "multitask"])
def test_every_preset_passes_check(
    name, glue_files, hub, tiny_encoder, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    overrides = small(tiny_encoder, tasks_of(name))
    of_hub = [*overrides, *hub_path(name, hub)]
    assert main("check", PRESETS / "hub" / f"{name}.yaml", *of_hub) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main("check", PRESETS / f"{name}.yaml", f"data_dir={glue_files}", *overrides) == 0
    plan = capsys.readouterr().out
    if name not in ("cola", "sst2", "multitask"):
        assert "(segments: 2)" in plan
    assert f"{SIZES['train']}" in plan


@pytest.mark.parametrize("task", FOLDERS)
def test_official_files_and_hub_read_alike(task, glue_files, hub):
    """The order of labels is the trap: RTE's 0 is entailment, WNLI's is not."""
    actual = []
    for folder, overrides in (("", [f"data_dir={glue_files}"]), ("hub", hub_path(task, hub))):
        config = load_config(PRESETS / folder / f"{task}.yaml", overrides)
        head = {"stsb": "number", "mnli": "class"}.get(task, "binary")
        reader = label_reader(config, task, task_type(head))
        rows = load_rows(config, task, "dev", reader)
        test = load_rows(config, task, "test", reader)
        assert test.labels is None and test.ids == [str(i) for i in range(SIZES["test"])]
        actual.append((reader, rows))
    (reader, rows), (other, again) = actual
    assert rows.texts == again.texts and rows.labels.tolist() == again.labels.tolist()
    assert reader.names == other.names
    expected = rows_of(task, "dev_matched" if task == "mnli" else "dev")
    assert [list(texts) for texts in rows.texts] == [texts for texts, _ in expected]
    for label, (_, gold) in zip(rows.labels, expected, strict=True):
        shown = reader.names[int(label)] if isinstance(gold, str) else label
        assert shown == gold


@pytest.fixture(scope="module")
def rte_run(glue_files, tiny_encoder, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "rte"
    overrides = [*small(tiny_encoder, ["rte"]), f"data_dir={glue_files}", "training.epochs=2"]
    assert main(PRESETS / "rte.yaml", *overrides, f"output_dir={run}") == 0
    return run


def test_rte_from_training_to_the_servers_file(rte_run, capsys):
    file = rte_run / "predictions" / "glue" / "RTE.tsv"
    text = file.read_text()
    header, *lines, last = text.split("\n")
    assert header == "index\tprediction" and last == ""
    assert [line.split("\t")[0] for line in lines] == [str(i) for i in range(SIZES["test"])]
    saved = (rte_run / "predictions" / "rte.test.jsonl").read_text().splitlines()
    names = ["entailment", "not_entailment"]
    predicted = [names[json.loads(line)["prediction"]] for line in saved]
    assert [line.split("\t")[1] for line in lines] == predicted
    report = report_of(rte_run)
    assert report["tasks"]["rte"]["classes"] == names
    assert any("RTE.tsv: 7 test rows, and the server wants 3,000" in w for w in report["warnings"])
    file.unlink()
    assert main("predict", rte_run) == 0
    assert file.read_text() == text and "RTE.tsv" in capsys.readouterr().out


def test_mnli_is_scored_on_both_dev_sets_and_ax_is_predicted(
    glue_files, tiny_encoder, tmp_path, capsys
):
    overrides = [*small(tiny_encoder, tasks_of("mnli")), f"data_dir={glue_files}"]
    overrides += ["training.epochs=1", "training.select=per_task", "training.holdout=0.2"]
    runs = [tmp_path / f"run-{seed}" for seed in (1, 2)]
    for seed, run in enumerate(runs, 1):
        assert main(PRESETS / "mnli.yaml", *overrides, f"seed={seed}", f"output_dir={run}") == 0
    report = report_of(runs[0])
    assert list(report["tasks"]) == ["mnli", "mnli_mm"]
    assert report["tasks"]["mnli_mm"]["dev"]["accuracy"] is not None
    assert report["tasks"]["mnli_mm"]["turns"] == {"trained": 0, "skipped": 0}
    assert "train" not in report["tasks"]["mnli_mm"]["data"]
    assert report["tasks"]["mnli_mm"]["selected_step"] == report["tasks"]["mnli"]["selected_step"]
    assert main("evaluate", runs[0]) == 0
    capsys.readouterr()
    assert main("predict", *runs, "--output", tmp_path / "both") == 0
    files = sorted(file.name for file in (tmp_path / "both" / "predictions" / "glue").iterdir())
    assert files == ["AX.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    members = []
    for run in runs:
        lines = (run / "predictions" / "ax.test.jsonl").read_text().splitlines()
        members.append([json.loads(line)["scores"] for line in lines])
    words = ["entailment", "neutral", "contradiction"]
    mean = np.mean(members, axis=0).argmax(axis=1)
    lines = (tmp_path / "both" / "predictions" / "glue" / "AX.tsv").read_text().splitlines()
    assert lines[1:] == [f"{i}\t{words[k]}" for i, k in enumerate(mean)]


def test_rte_from_snli_as_the_page_shows_it(tiny_encoder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = write_shared(tmp_path / "shared")
    for name, task in (("snli_minilm", "snli"), ("rte_from_snli_minilm", "rte")):
        tiny = [*small(tiny_encoder, [task]), f"data_dir={data}"]
        assert main(PRESETS / f"{name}.yaml", *tiny) == 0, capsys.readouterr().err
    report = report_of(tmp_path / "runs" / "rte_from_snli_minilm")
    assert report["init_from"]["run"] == str(tmp_path / "runs" / "snli_minilm")
    snli = report_of(tmp_path / "runs" / "snli_minilm")
    assert snli["tasks"]["snli"]["data"]["dev"]["unlabelled_dropped"] == 1
    assert any("dev rows are in train" in warning for warning in snli["warnings"])
    grid = load_grid(PRESETS / "from_snli_minilm.yaml", [*small(tiny_encoder, ["rte"]), tiny[-1]])
    assert grid.seeds == [1, 2, 3, 4, 5] and grid.baseline == "rte"
    starts = {}
    for run in plan_runs(grid, Path("runs/from_snli_minilm"))[: len(grid.cells)]:
        assert run.config.training.holdout == 0.1
        assert main(*run.arguments) == 0, capsys.readouterr().err
        starts[run.cell] = report_of(run.directory).get("init_from")
    assert starts["rte"] is None and starts["rte_from_snli"] == report["init_from"]
    everything = ["cola", "mrpc", "rte", "wnli", "sst2", "sst5", "stsb_course"]
    tiny = [*small(tiny_encoder, everything), f"data_dir={data}"]
    assert main("check", PRESETS / "minilm.yaml", *tiny) == 0


LETTERS = {
    "CoLA": "0\t0\n1\t1\n2\t1\n",
    "STS-B": "0\t0.00000\n1\t5.00000\n2\t2.50000\n",
    "QNLI": "0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n",
    "MNLI-m": "0\tentailment\n1\tneutral\n2\tneutral\n",
}
ALIKE = {"SST-2": "CoLA", "MRPC": "CoLA", "QQP": "CoLA", "WNLI": "CoLA"}
ALIKE |= {"RTE": "QNLI", "MNLI-mm": "MNLI-m", "AX": "MNLI-m"}
NAMES = {"CoLA": ("no", "yes"), "QNLI": glue.ENTAILMENT, "MNLI-m": glue.NLI, "STS-B": ()}


@pytest.mark.parametrize("name", glue.FILES)
def test_a_file_of_the_server_to_the_letter(name):
    like = ALIKE.get(name, name)
    predictions = np.array([2.5, -1.0, 9.0]) if name == "STS-B" else np.array([1, 0, 1])
    text = glue.submission(name, ["2", "0", "1"], predictions, NAMES[like])
    assert text == "index\tprediction\n" + LETTERS[like]


@given(st.permutations(list(range(12))))
def test_rows_come_in_the_order_of_their_index(order):
    text = glue.submission("WNLI", [str(i) for i in order], np.array(order) % 2, ("no", "yes"))
    assert text.splitlines()[1:] == [f"{i}\t{i % 2}" for i in range(12)]


@pytest.mark.parametrize("ids", [["0", "2"], ["0", "0"], ["a", "1"], ["-1", "0"], ["1", "2"]])
def test_a_lost_or_doubled_row_is_refused(ids):
    with pytest.raises(UserError, match=r"RTE\.tsv needs"):
        glue.submission("RTE", ids, np.zeros(len(ids), int), glue.ENTAILMENT)


@pytest.mark.parametrize(
    ("preset", "overrides", "words"),
    [
        ("rte", ["tasks.rte.data.labels=[not_entailment, entails]"], "`labels` must name them"),
        ("wnli", ["tasks.wnli.data.labels={1: entailment, 0: other}"], "must name 0, then 1"),
        ("rte", ["tasks.rte.glue_file=QQP"], "QQP.tsv holds 0 and 1"),
        ("sst2", ["tasks.sst2.glue_file=RTE"], "RTE.tsv holds the words entailment"),
        ("rte", ["tasks.rte.glue_file=rte"], "unknown glue_file 'rte' (known: CoLA"),
        ("mnli", ["tasks.ax.glue_file=MNLI-m"], "mnli and ax would write one file, 'MNLI-m.tsv'"),
        ("mnli", ["tasks.ax.data.test=null"], "the task has no rows at all"),
        ("mnli", ["stages=[{tasks: [mnli_mm]}]"], "stages.0.tasks.0: expected a task that trains"),
        ("cola", ["tasks.cola.data.header=null"], "no column 'sentence'"),
    ],
)
def test_mistakes_are_one_line(preset, overrides, words, glue_files, tiny_encoder, capsys):
    names = tasks_of(preset)
    arguments = [*small(tiny_encoder, names), f"data_dir={glue_files}", *overrides]
    assert main("check", PRESETS / f"{preset}.yaml", *arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_the_files_at_hand_read_as_their_readme_says():
    data = ROOT.parent / "shared" / "data" / "glue"
    if not data.is_dir():
        pytest.skip(f"the GLUE files are not at hand ({data})")
    plain = ["tasks.{}.data.id=null", "tasks.{}.data.test=null"]
    for task, train, dev in (
        ("cola", 8551, 1043),
        ("rte", 2490, 277),
        ("wnli", 635, 71),
        ("sst2", 67349, 872),
    ):
        overrides = [f"data_dir={data}", *(line.format(task) for line in plain)]
        config = load_config(PRESETS / f"{task}.yaml", overrides)
        reader = label_reader(config, task, task_type("binary"))
        sizes = [len(load_rows(config, task, split, reader)) for split in ("train", "dev")]
        assert sizes == [train, dev]
