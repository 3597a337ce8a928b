"""Runs with masked language modelling: two stages, reports, commands."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import run_multitask
from multitask import load
from multitask.models.weights import read_tensors
from multitask.reporting.compare import compare
from multitask.reporting.read_runs import Group
from multitask.reporting.sheet import MEAN
from multitask.store.run_directory import RunDirectory
from multitask.sweep.grid import load_grid
from multitask.training.setup import set_up
from multitask.training.train_run import train
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.masked_lm_run import CONFIG, EVERY_TASK, FAST, stages, tiny
from tests.support.run_files import events, report_of


@pytest.fixture(scope="module")
def overrides(tiny_encoder, course_files):
    return tiny(tiny_encoder, course_files)


@pytest.fixture(scope="module")
def command(overrides):
    return [CONFIG, *overrides, *FAST, "training.epochs=1", "tasks.mlm.batch_size=16"]


@pytest.fixture(scope="module")
def run_dir(command, tmp_path_factory):
    """A finished run of both stages."""
    directory = tmp_path_factory.mktemp("mlm") / "run"
    assert run_multitask.main([*command, stages(epochs=2), f"output_dir={directory}"]) == 0
    return directory


@pytest.mark.slow
def test_two_stages_of_one_config_and_the_loss_falls(overrides, tmp_path):
    directory = tmp_path / "run"
    learn = [stages(epochs=40, lr=3e-3), "tasks.mlm.head_lr=3e-3", "training.epochs=1"]
    assert run_multitask.main([CONFIG, *overrides, *FAST, *learn, f"output_dir={directory}"]) == 0
    log = events(directory)
    (begin,) = [event for event in log if event["event"] == "stage"]
    assert begin["stage"] == "tasks"
    turns = Counter((e["task"], e["step"] > begin["step"]) for e in log if e["event"] == "step")
    assert {task for task, later in turns if not later} == {"mlm"}
    assert {task for task, later in turns if later} == {"sst", "qqp", "sts"}
    losses = [e["loss"] for e in log if e["event"] == "step" and e["task"] == "mlm"]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:5])
    dev = [e["tasks"]["mlm"] for e in log if e["event"] == "eval" and e["step"] <= begin["step"]]
    assert dev[-1]["perplexity"] < 0.7 * dev[0]["perplexity"]
    trivial = report_of(directory)["tasks"]["mlm"]["baselines"]["trivial"]
    assert max(one["accuracy"] for one in dev) > trivial["accuracy"]
    assert min(one["perplexity"] for one in dev) < trivial["perplexity"]


@pytest.mark.slow
def test_the_shipped_grid_trains_both_cells_on_the_same_labelled_rows(overrides, tmp_path):
    file = ROOT / "configs" / "ablations" / "mlm.yaml"
    grid = load_grid(file, [*overrides, "training.epochs=1"])
    groups = []
    for cell in grid.cells:
        config = grid.config(cell, 1, tmp_path / cell.name)
        train(config, say=lambda line: None)
        groups.append(Group(cell.name, [tmp_path / cell.name]))
    assert [group.name for group in groups] == ["fine_tuned", "mlm_first"]
    plain, first = (events(group.runs[0]) for group in groups)
    (begin,) = [event["step"] for event in first if event["event"] == "stage"]
    steps = [[e for e in log if e["event"] == "step"] for log in (plain, first)]
    assert {e["task"] for e in steps[1][:begin]} == {"mlm"} and begin > 1
    turns = [(e["task"], e["rows"]) for e in steps[0]]
    assert [(e["task"], e["rows"]) for e in steps[1][begin:]] == turns

    one, other = (report_of(group.runs[0]) for group in groups)
    assert one["selection_split"] == other["selection_split"] == "holdout"
    for task in ("sst", "qqp", "sts"):
        assert one["tasks"][task]["data"] == other["tasks"][task]["data"]
    made = set_up(grid.config(grid.cells[0], 1, tmp_path), torch.device("cpu"), lambda line: None)
    rows = [row for data in made.data.splits.values() for row in data["train"].rows.texts]
    assert other["tasks"]["mlm"]["data"]["train"]["rows"] == len({t for row in rows for t in row})
    config = grid.config(grid.cells[1], 1, tmp_path)
    assert config.tasks["mlm"].max_rows is None and config.tasks["sst"].max_rows == 3000

    comparison = compare(groups, grid.baseline, resamples=20)
    base, longer = comparison["rows"]
    assert (
        "mlm" not in base["cells"] and base["cells"][MEAN] and longer["cells"][MEAN]["difference"]
    )
    assert all(group["holdout"][MEAN] for group in comparison["rows"])


def test_masked_lm_does_not_enter_the_mean_that_selects(run_dir):
    for event in events(run_dir):
        if event["event"] == "eval":
            scores = {task: result["accuracy" if task != "sts" else "pearson"]
                   for task, result in event["tasks"].items()}  # fmt: skip
            assert set(scores) == set(EVERY_TASK)
            three = np.mean([scores[task] for task in ("sst", "qqp", "sts")])
            assert event["joint"] == pytest.approx(three)
    report = report_of(run_dir)
    metric = {task: entry["dev"][entry["metric"]] for task, entry in report["tasks"].items()}
    three = np.mean([metric[task] for task in ("sst", "qqp", "sts")])
    assert report["overall"]["mean"] == pytest.approx(three)


def test_saved_weights_hold_the_tied_one_once_and_load_tied(run_dir):
    best = json.loads((run_dir / "best.json").read_text())
    saved = load_file(run_dir / "weights" / f"step-{best['joint']:08d}.safetensors")
    words = saved["encoder.embeddings.word.weight"]
    assert sum(tensor.shape == words.shape for tensor in saved.values()) == 1
    newest = RunDirectory(run_dir).saved_checkpoints()[-1]
    tensors = read_tensors(newest / "model.safetensors")
    assert set(tensors) == set(saved)
    moments = read_tensors(newest / "optimizer.safetensors")
    assert sum(tensor.shape == words.shape for tensor in moments.values()) == 2  # AdamW's two
    run = load(run_dir)
    run.predict("sst", ["a good film"])  # loads the weights
    head = run.model.head("mlm")
    assert head._tied[0] is run.model.encoder.word_embedding
    assert torch.equal(head._tied[0].weight, words)
    vectors = torch.randn(3, 32)
    with torch.no_grad():
        before = head(vectors)
        run.model.encoder.word_embedding.weight.mul_(2)
        torch.testing.assert_close(head(vectors) - head.bias, 2 * (before - head.bias))


def test_report_and_commands_of_a_run_with_masked_lm(run_dir, command, tmp_path, capsys):
    result = report_of(run_dir)["tasks"]["mlm"]
    assert (result["label_type"], result["metric"]) == ("tokens", "accuracy")
    assert result["classes"] is result["label_range"] is result["baselines"]["frozen"] is None
    dev = result["dev"]
    assert dev["perplexity"] == pytest.approx(np.exp(dev["loss"]))
    for page in ("report.md", "report.html"):
        assert "perplexity" in (run_dir / page).read_text()
    rows = [json.loads(line) for line in (run_dir / "predictions/mlm.dev.jsonl").open()]
    right, masked = (sum(row[key] for row in rows) for key in ("prediction", "label"))
    assert dev["accuracy"] == pytest.approx(right / masked)
    assert not list(run_dir.glob("predictions/mlm*.csv"))

    def main(*arguments):
        code = run_multitask.main(list(map(str, arguments)))
        return code, capsys.readouterr()

    code, out = main("check", *command)
    assert code == 0 and "tokens to predict)" in out.out and "[MASK]" in out.out
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\n")
    code, out = main("predict", run_dir, "--task", "mlm", "--file", texts)
    assert code == 2 and "take another task" in out.err
    with pytest.raises(UserError, match="task mlm looks at tokens and has no vector"):
        load(run_dir).encode(["a good film"], task="mlm")
    assert load(run_dir).encode(["a good film"]).shape == (1, 32)


@pytest.mark.slow
def test_comparison_and_ensemble_with_a_run_that_has_no_masked_lm(
    run_dir, command, tmp_path, capsys
):
    plain = tmp_path / "plain"
    more = ["stages=null", "tasks.mlm=null", f"output_dir={plain}"]
    words = [word for word in command if "tasks.mlm" not in word]
    assert run_multitask.main([*words, *more]) == 0
    out = tmp_path / "comparison"
    arguments = ["report", str(plain), str(run_dir), "--output", str(out)]
    assert run_multitask.main(arguments) == 0, capsys.readouterr().err
    comparison = json.loads((out / "comparison.json").read_text())
    assert [set(row["cells"]) - {MEAN} for row in comparison["rows"]] == [
        set(EVERY_TASK[:3]),
        set(EVERY_TASK),
    ]
    for group, directory in zip(comparison["rows"], (plain, run_dir), strict=True):
        mean = report_of(directory)["overall"]["mean"]
        assert group["cells"][MEAN]["mean"] == pytest.approx(mean)
    capsys.readouterr()
    assert run_multitask.main(["predict", str(plain), str(run_dir)]) == 0
    assert ": mlm." in capsys.readouterr().out


def test_masked_lm_alone_selects_by_its_own_accuracy(overrides, tmp_path, course_files):
    directory = tmp_path / "run"
    data = "{train: ids-sst-train.csv, dev: ids-sst-dev.csv, text: sentence, format: tsv}"
    config = tmp_path / "alone.yaml"
    config.write_text(
        f"encoder: {{dropout: 0.0}}\ntasks:\n  mlm:\n    data: {data}\n    max_length: 48\n"
        "    pooling: tokens\n    head: masked_lm\n"
    )
    words = [word for word in overrides if not word.startswith("tasks.")]
    more = ["training.epochs=2", "training.loss_normalization=unit", f"output_dir={directory}"]
    assert run_multitask.main([str(config), *words, *more]) == 0
    report = report_of(directory)
    assert report["overall"]["mean"] == report["tasks"]["mlm"]["dev"]["accuracy"]
    first = next(event for event in events(directory) if event["event"] == "step")
    assert 0.8 < first["loss"] < 1.5 * np.log(47)  # the log has the loss itself
