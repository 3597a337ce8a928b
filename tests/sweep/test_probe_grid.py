"""Probe grids: cells composed of heads that were trained once, on vectors encoded once."""

import json
import shutil
from pathlib import Path

import filelock
import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.models.encoders import BertEncoder
from multitask.reporting.sheet import MEAN
from multitask.sweep import probe_grid, run_sweep
from multitask.training import frozen_probe
from multitask.training.setup import set_up
from tests.conftest import ROOT
from tests.support.plain_probe import plainly_trained
from tests.support.run_files import report_of

GRID = """
grid:
  tasks.sst.pooling: [cls, mean]
  tasks.qqp.pooling: [mean, max]
"""
CELLS = ["cls-mean", "cls-max", "mean-mean", "mean-max"]


@pytest.fixture(scope="module")
def head(tiny_encoder: Path, course_files: Path) -> str:
    """The first lines of a grid file; the head of `sts` has nothing to train."""
    return (
        f"base: {ROOT / 'configs' / 'cs224n.yaml'}\n"
        "set:\n"
        f"  data_dir: {course_files}\n"
        f"  encoder.name: {tiny_encoder}\n"
        "  defaults.max_length: 48\n"
        "  training.precision: fp32\n"
        "  training.head_lr: 0.01\n"
        "  training.holdout: 0.2\n"
        "probe: true\n"
        "seeds: [1, 2]\n"
    )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str) -> Path:
    """An empty working directory with a grid file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(head + GRID)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, head: str) -> Path:
    """The output of the whole grid; read only."""
    directory = tmp_path_factory.mktemp("finished")
    (directory / "g.yaml").write_text(head + GRID)
    assert ablate(directory / "g.yaml", "--output", directory / "out") == 0
    return directory / "out"


@pytest.fixture
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """No comparison, which takes longer than these probe_grid."""
    monkeypatch.setattr(run_sweep, "write_table", lambda *arguments: [])


def ablate(*arguments: object) -> int:
    return run_multitask.main(["ablate", *map(str, arguments)])


def report(output: Path, cell: str, seed: int) -> dict:
    return report_of(output / "cells" / cell / f"seed-{seed}")


def numbers(output: Path) -> dict:
    """Return the reports by cell and seed, without what differs between two starts."""
    result = {}
    for cell in CELLS:
        for seed in (1, 2):
            one = report(output, cell, seed)
            result[cell, seed] = {"tasks": one["tasks"], "overall": one["overall"]}
    return result


# ---- what a cell is


def test_rows_are_composed_of_probes(finished):
    """A task's entry depends on the task's own setting and the seed, on nothing else."""
    result = numbers(finished)
    for seed in (1, 2):
        for cell in CELLS:
            sst, qqp = cell.split("-")
            tasks = result[cell, seed]["tasks"]
            assert (tasks["sst"]["pooling"], tasks["qqp"]["pooling"]) == (sst, qqp)
            assert tasks["sst"] == result[f"{sst}-mean", seed]["tasks"]["sst"]
            assert tasks["qqp"] == result[f"cls-{qqp}", seed]["tasks"]["qqp"]
            assert tasks["sts"] == result["cls-mean", 1]["tasks"]["sts"]  # nothing to train
    for task, cells in (("sst", ("cls-mean", "mean-mean")), ("qqp", ("cls-mean", "cls-max"))):
        losses = [result[cell, s]["tasks"][task]["dev"]["loss"] for cell in cells for s in (1, 2)]
        assert len(set(losses)) == 4


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize(("cell", "seed"), [("mean-mean", 1), ("cls-max", 2)])
def test_a_row_equals_its_probes_trained_alone(cell, seed, desk, head, finished):
    sst, qqp = cell.split("-")
    alone = f"cells: {{one: {{tasks.sst.pooling: {sst}, tasks.qqp.pooling: {qqp}}}}}\n"
    (desk / "one.yaml").write_text(head.replace("[1, 2]", f"[{seed}]") + alone)
    assert ablate("one.yaml") == 0
    expected = report(desk / "runs" / "one", "one", seed)
    composed = report(finished, cell, seed)
    assert composed["tasks"] == expected["tasks"]
    assert composed["overall"] == expected["overall"]


def test_a_row_is_the_frozen_baseline_of_an_ordinary_run(desk, finished):
    config = finished / "cells" / "cls-max" / "seed-2" / "config.yaml"
    changes = ["training.frozen_baseline=true", "training.max_steps=1", "output_dir=trained"]
    assert run_multitask.main([str(config), *changes]) == 0
    trained = report_of(desk / "trained")
    probe = report(finished, "cls-max", 2)
    for task, entry in probe["tasks"].items():
        frozen = trained["tasks"][task]["baselines"]["frozen"]
        assert {key: entry["dev"][key] for key in frozen} == pytest.approx(frozen, rel=1e-5)
        same = ("data", "metric", "label_type", "classes", "label_range", "input", "head")
        for key in same:
            assert entry[key] == trained["tasks"][task][key]
        assert entry["baselines"]["trivial"] == trained["tasks"][task]["baselines"]["trivial"]
    times = {"train_sentences_per_s", "epoch_seconds", "dev_seconds"}
    assert set(trained) - set(probe) == {*times, "trained_parameters", "conflict"}
    assert set(probe) - set(trained) == {"probe"}
    assert probe["probe"] is True and probe["encoder"] == trained["encoder"]


@pytest.mark.usefixtures("no_table")
def test_the_encoder_runs_once_for_each_task_and_split(desk, monkeypatch):
    """Every split is one batch here; poolings, cells and seeds cost no more passes, a repeated
    sentence of pairs no more than one."""
    rows = []
    original = BertEncoder.encode

    def counting(self, embeddings, *arguments, **more):
        rows.append(len(embeddings))
        return original(self, embeddings, *arguments, **more)

    monkeypatch.setattr(BertEncoder, "encode", counting)
    assert ablate("g.yaml") == 0
    sst, pair = [32, 8, 12], [64, 16, 24]  # train, holdout, dev; pairs have two sentences
    assert rows[:3] == sst and len(rows) == 9
    assert all(seen <= texts for seen, texts in zip(rows[3:], pair + pair, strict=True))
    assert sum(rows[3:]) < sum(pair + pair)


def test_a_directory_holds_what_the_comparison_needs(finished):
    run = finished / "cells" / "mean-max" / "seed-2"
    assert {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()} == {
        "checksums",
        "config.yaml",
        "report.json",
        "predictions/sst.dev.jsonl",
        "predictions/qqp.dev.jsonl",
        "predictions/sts.dev.jsonl",
    }
    config = load_config(run / "config.yaml")
    assert (config.seed, config.tasks["sst"].pooling.name) == (2, "mean")
    rows = [json.loads(line) for line in (run / "predictions/sst.dev.jsonl").open()]
    right = [row["label"] == row["prediction"] for row in rows]
    assert len(rows) == 12
    measured = report(finished, "mean-max", 2)["tasks"]["sst"]["dev"]["accuracy"]
    assert sum(right) / 12 == pytest.approx(measured)


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize("kept", [2**31, 0], ids=["states kept", "encoded anew"])
def test_a_pooler_with_parameters_is_trained_with_its_head(desk, head, kept, monkeypatch):
    """Against a plain loop through the whole model, whose encoder is frozen. It stops six epochs
    after its best, or at the twelfth."""
    monkeypatch.setattr(frozen_probe, "STORED_BYTES", kept)
    monkeypatch.setattr(frozen_probe, "EPOCHS", 12)
    monkeypatch.setattr(frozen_probe, "PATIENCE", 6)
    pooling = "{name: max_seq_mha, last: 2, dropout: 0.2}"
    cells = f"cells: {{a: {{tasks.sst.pooling: {pooling}, tasks.qqp.pooling: hire}}}}\n"
    text = head.replace("[1, 2]", "[2]")
    (desk / "g.yaml").write_text(text + cells)
    assert ablate("g.yaml") == 0
    result = report(desk / "runs" / "g", "a", 2)["tasks"]
    config = load_config(desk / "runs/g/cells/a/seed-2/config.yaml")
    prepared = set_up(config, torch.device("cpu"), lambda line: None)
    steps: list[tuple[int, int]] = []
    for task in ("sst", "qqp"):
        dev, selected, done = plainly_trained(prepared, task)
        assert result[task]["selected_step"] == selected
        assert result[task]["turns"]["trained"] == done
        steps.append((selected, done))
        assert result[task]["dev"]["loss"] == pytest.approx(dev.loss, rel=1e-4)
    (late, _), (soon, done) = steps  # one gains after waiting, one stops early
    assert late > 6 and soon > 0 and done < 12


def test_the_comparison_says_that_rows_are_composed(finished):
    comparison = json.loads((finished / "comparison.json").read_text())
    for cell, group in zip(CELLS, comparison["rows"], strict=True):
        assert (group["name"], group["seeds"]) == (cell, [1, 2])
        means = [report(finished, cell, seed)["overall"]["mean"] for seed in (1, 2)]
        assert group["cells"][MEAN]["values"] == pytest.approx(means)
    for name in ("table.md", "table.tex"):
        assert "Rows composed of probes: every run." in (finished / name).read_text()


def test_a_probe_has_no_weights_to_load(finished, capsys):
    assert run_multitask.main(["evaluate", str(finished / "cells" / "cls-max" / "seed-1")]) == 2
    assert "heads of a probe grid keep no weights: train " in capsys.readouterr().err


# ---- what is refused


@pytest.mark.parametrize(
    "option",
    ["--jobs 2", "--engine ray", "--cpus-per-run 2", "--gpus-per-run 1", "--keep-weights"],
)
def test_options_of_training_are_refused(option, desk, capsys):
    assert ablate("g.yaml", *option.split()) == 2
    assert "g.yaml: a probe grid" in capsys.readouterr().err
    assert not (desk / "runs").exists()


@pytest.mark.parametrize(
    ("values", "cells", "place"),
    [
        ("tasks.sst.adapter: low_rank", GRID, "g.yaml:3: tasks.sst.adapter"),
        ("init_from: {run: elsewhere, take: pooling}", GRID, "g.yaml:3: init_from.take"),
        ("init_from: {run: elsewhere, take: head}", GRID, "g.yaml:3: init_from.take"),
        (
            "tasks.sst.metric: null",
            "cells:\n  a: {}\n  b: {tasks.sst.head: regression, tasks.sst.pooling: mean}\n",
            "g.yaml:14: tasks.sst.head: ",
        ),
        (
            "tasks.mlm: {data: {texts_of: [sst]}, pooling: tokens, head: masked_lm}",
            GRID,
            "g.yaml:3: tasks.mlm.head: ",
        ),
    ],
)
def test_what_has_no_probe_is_refused_before_any_training(values, cells, place, desk, head, capsys):
    (desk / "g.yaml").write_text(head.replace("set:", f"set:\n  {values}") + cells)
    assert ablate("g.yaml") == 2
    assert f"error: {place}" in capsys.readouterr().err


def test_trained_runs_and_probes_do_not_share_a_directory(desk, head, finished, capsys):
    (desk / "trained.yaml").write_text(head.replace("probe: true", "probe: false") + GRID)
    assert ablate("trained.yaml", "--output", finished) == 2
    assert "holds probes, no trained runs: choose another" in capsys.readouterr().err
    (desk / "out").mkdir()
    (desk / "out" / "grid.yaml").write_text(head.replace("probe: true\n", "") + GRID)
    assert ablate("g.yaml", "--output", "out") == 2
    assert "holds trained runs, no probes: choose another" in capsys.readouterr().err


# ---- failing, stopping, going on


def test_a_probe_that_diverges_fails_the_rows_with_it(desk, head, capsys, monkeypatch):
    monkeypatch.setattr("multitask.config.base.Strict.largest", 1e38)
    cells = "cells: {a: {}, b: {tasks.sst.head_lr: 1.0e+37}}\n"
    (desk / "g.yaml").write_text(head.replace("[1, 2]", "[1]") + cells)
    assert ablate("g.yaml") == 2
    captured = capsys.readouterr()
    reason = "task sst: the head's scores on the frozen encoder are not finite numbers"
    assert f"cell 2/2 b seed 1: failed: {reason}" in captured.out
    assert "1 of 2 runs failed: b seed 1" in captured.err
    assert (desk / "runs/g/cells/a/seed-1/report.json").exists()
    assert not (desk / "runs/g/cells/b").exists()
    assert reason in (desk / "runs/g/table.md").read_text()


def test_a_second_start_trains_nothing(desk, finished, capsys, monkeypatch):
    shutil.copytree(finished, desk / "runs" / "g")
    monkeypatch.setattr(probe_grid, "set_up", None)
    assert ablate("g.yaml") == 0
    assert "8 of 8 runs are finished already" in capsys.readouterr().out


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize(("trained", "done"), [(2, 0), (4, 2), (8, 5)])
def test_an_interrupted_grid_goes_on_to_the_same_numbers(
    trained, done, desk, finished, capsys, monkeypatch
):
    """Stopped after so many of the 5 probes of each seed: 3 for the first row, then one more each
    for the second and the third; the fourth needs none."""
    count = 0
    original = probe_grid.train_probe

    def stopped(*arguments, **options):
        nonlocal count
        count += 1
        if count > trained:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(probe_grid, "train_probe", stopped)
        assert ablate("g.yaml") == 2
    assert f"interrupted: {done} of 8 runs are finished" in capsys.readouterr().err
    written = {file: file.stat().st_mtime_ns for file in desk.rglob("report.json")}
    assert len(written) == done
    for file in [*written][:1]:  # as a kill leaves it: the report comes last
        shutil.rmtree(file.parent / "predictions")
        file.unlink()
        del written[file]
    assert ablate("g.yaml") == 0
    assert numbers(desk / "runs" / "g") == numbers(finished)
    assert len(list(desk.rglob("sst.dev.jsonl"))) == 8
    assert {file: file.stat().st_mtime_ns for file in written} == written
    assert all(lock.read_text() == "" for lock in desk.rglob("owner.lock"))


@pytest.mark.usefixtures("no_table")
def test_one_process_works_and_the_other_waits_for_it(desk, finished, capsys, monkeypatch):
    """The other one finishes all but one row while this one waits."""
    (desk / "runs/g").mkdir(parents=True)
    (desk / "runs/g/grid.yaml").write_text("probe: true\n")
    other = filelock.FileLock(desk / "runs/g/cells/owner.lock")
    (desk / "runs/g/cells").mkdir()
    other.acquire()
    owned = probe_grid.owned

    def watched(*arguments, waiting):
        def meanwhile(name: str) -> None:
            waiting(name)
            shutil.copytree(finished / "cells", desk / "runs/g/cells", dirs_exist_ok=True)
            (desk / "runs/g/cells/mean-max/seed-1/report.json").unlink()
            other.release()

        return owned(*arguments, waiting=meanwhile)

    monkeypatch.setattr(probe_grid, "owned", watched)
    assert ablate("g.yaml") == 0
    output = capsys.readouterr().out
    assert "runs/g is held by another process (" in output and ": waiting for it" in output
    assert "7 of 8 runs are finished already" in output
    assert "cell 8/8 mean-max seed 1: mean " in output
    assert numbers(desk / "runs" / "g") == numbers(finished)
