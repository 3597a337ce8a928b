"""Runs that start from another run: what is taken, what is refused, and what the report says."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from multitask.config import load_config
from multitask.models.weights import read_tensors
from multitask.store.run_directory import RunDirectory
from multitask.training.setup import set_up
from tests.conftest import ROOT, save_tiny_encoder
from tests.support.commands import main
from tests.support.glue_files import write_glue
from tests.support.run_files import report_of

GLUE = ROOT / "configs" / "glue"


@pytest.fixture(scope="module")
def glue_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


def small(encoder: Path, glue_files: Path, task: str) -> list[str]:
    return [
        f"encoder.name={encoder}",
        f"data_dir={glue_files}",
        "training.precision=fp32",
        "training.epochs=1",
        "training.head_lr=0.01",
        f"tasks.{task}.max_length=48",
        f"tasks.{task}.projection={{name: tanh, output_dim: 8}}",
    ]


@pytest.fixture(scope="module")
def mnli_run(glue_files, tiny_encoder, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "mnli"
    alone = ["tasks.mnli_mm=null", "tasks.ax=null"]
    overrides = [*small(tiny_encoder, glue_files, "mnli"), *alone, f"output_dir={run}"]
    assert main(GLUE / "mnli.yaml", *overrides) == 0
    return run


def prepared(encoder: Path, glue_files: Path, *overrides: str, task: str = "rte"):
    tiny = small(encoder, glue_files, task)
    config = load_config(GLUE / f"{task}.yaml", [*tiny, *overrides])
    return set_up(config, torch.device("cpu"), lambda line: None)


def weights(run: Path) -> dict[str, torch.Tensor]:
    step = json.loads((run / "best.json").read_text())["joint"]
    return read_tensors(RunDirectory(run).weights_of(step))


def test_rows_that_the_run_has_trained_on_and_that_are_held_out_here_are_said(
    mnli_run, tiny_encoder, glue_files
):
    def said(task, *overrides):
        more = [f"init_from={mnli_run}", *overrides]
        if task == "mnli":
            more += ["tasks.mnli_mm=null", "tasks.ax=null"]
        plan = prepared(tiny_encoder, glue_files, *more, task=task)
        return [line for line in plan.warnings if "held out" in line]

    assert said("mnli") == [] and said("rte", "training.holdout=0.2") == []
    (line,) = said("mnli", "training.holdout=0.2")
    assert line.startswith("mnli: ") and str(mnli_run) in line


@pytest.mark.parametrize("take", ["encoder", "pooling", "head"])
def test_just_what_take_names_is_taken(take, mnli_run, tiny_encoder, glue_files):
    alone = ["tasks.mnli_mm=null", "tasks.ax=null"]
    plain = prepared(tiny_encoder, glue_files, *alone, task="mnli").model.state_dict()
    chosen = f"init_from={{run: {mnli_run}, take: {take}}}"
    made = prepared(tiny_encoder, glue_files, *alone, chosen, task="mnli")
    saved, actual = weights(mnli_run), made.model.state_dict()
    parts = {"encoder": ("encoder.",), "pooling": ("encoder.", "tasks.mnli.projection.")}
    taken = parts.get(take, ("encoder.", "tasks.mnli.projection.", "tasks.mnli.head."))
    for name, tensor in actual.items():
        expected = saved[name] if name.startswith(taken) else plain[name]
        assert torch.equal(tensor, expected), name
    moved = [name for name in saved if not torch.equal(saved[name], plain[name])]
    assert any(name.startswith("encoder.") for name in moved)
    assert any(name.startswith("tasks.mnli.head.") for name in moved)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["qqp", "sts"])
def test_a_task_that_shares_a_pooling(task, tiny_overrides, tmp_path):
    """Named as the source it stands for the owner of the pooling; beside it that one is taken."""
    both = [*tiny_overrides, "tasks.sst=null", "tasks.sts.share_pooling=qqp"]
    both += ["tasks.qqp.projection={name: tanh, output_dim: 8}", "training.head_lr=0.01"]
    both += ["tasks.qqp.adapter={name: low_rank, size: 4}", "training.frozen_baseline=false"]
    config = ROOT / "configs" / "cs224n.yaml"
    assert main(config, *both, "training.max_steps=3") == 0
    saved = weights(tmp_path / "run")
    start = f"init_from={{run: {tmp_path / 'run'}, task: {task}, take: pooling}}"
    made = set_up(load_config(config, [*both, start]), torch.device("cpu"), lambda line: None)
    fresh = set_up(load_config(config, both), torch.device("cpu"), lambda line: None)
    result, plain = made.model.state_dict(), fresh.model.state_dict()
    moved = {name for name in saved if not torch.equal(saved[name], plain[name])}
    for prefix in ("tasks.qqp.projection.", "adapters.qqp."):
        names = [name for name in result if name.startswith(prefix)]
        assert moved.intersection(names)
        assert all(torch.equal(result[name], saved[name]) for name in names)


def test_the_report_names_the_run(mnli_run, tiny_encoder, glue_files, tmp_path, monkeypatch):
    monkeypatch.chdir(mnli_run.parent)
    overrides = [*small(tiny_encoder, glue_files, "rte"), f"output_dir={tmp_path / 'rte'}"]
    assert main(GLUE / "rte.yaml", *overrides, "init_from=mnli", "training.epochs=2") == 0
    report = report_of(tmp_path / "rte")
    start = report["init_from"]
    assert start["run"] == str(mnli_run) and start["task"] == "mnli"
    assert (start["take"], start["seed"]) == ("encoder", 11711)
    assert start["step"] == json.loads((mnli_run / "best.json").read_text())["joint"]
    page = (tmp_path / "rte" / "report.md").read_text()
    assert f"started from: {mnli_run} (seed 11711): encoder of task mnli" in page.replace("\\", "")
    # the finished run does not need the run that it started from
    hidden = mnli_run.with_name("hidden")
    mnli_run.rename(hidden)
    try:
        assert main("predict", tmp_path / "rte") == 0
    finally:
        hidden.rename(mnli_run)


def refused(capsys, *arguments: object) -> str:
    assert main("check", *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 48}, ", 32] there, [63, 48] here"),
        ({"num_attention_heads": 1}, "num_attention_heads is 4 there, 1 here"),
        # it also runs in another implementation, which is not what is wrong
        ({"kind": "distilbert"}, "model_type is bert there, distilbert here"),
        ({}, "vocabularies"),
    ],
)
def test_another_encoder_is_one_line(changes, words, mnli_run, glue_files, tmp_path, capsys):
    other = save_tiny_encoder(tmp_path / "other", **changes)
    if not changes:
        file = other / "tokenizer.json"
        file.write_text(file.read_text().replace('"cat"', '"kitten"'))
    tiny = small(other, glue_files, "rte")
    assert words in refused(capsys, GLUE / "rte.yaml", *tiny, f"init_from={mnli_run}")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{{run: {run}, take: head}}", "task rte: linear.weight"),
        ("{{run: {run}, take: head}}", "`take: pooling`"),
        ("{{run: {run}, task: mlni}}", "'mnli'"),
        ("{run}/nowhere", "no run there"),
        ("{{run: {run}, take: all}}", "init_from.take"),
        ("{run} | encoder.implementation=transformers", "`encoder.implementation`"),
        ("{run} | -report.json", "--resume"),  # not finished
        ("{run} | -encoder", "--keep-weights"),  # its weights were removed
    ],
)
def test_mistakes_are_one_line(value, words, mnli_run, tiny_encoder, glue_files, tmp_path, capsys):
    run = Path(shutil.copytree(mnli_run, tmp_path / "copy"))
    value, _, change = value.format(run=run).partition(" | ")
    if change.startswith("-"):
        gone = run / change[1:]
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    more = [change] if "=" in change else []
    tiny = [*small(tiny_encoder, glue_files, "rte"), *more, f"init_from={value}"]
    assert words in refused(capsys, GLUE / "rte.yaml", *tiny)


def test_a_copy_of_the_encoder_elsewhere_is_the_same_one(
    mnli_run, tiny_encoder, tmp_path, glue_files
):
    shutil.copytree(tiny_encoder, tmp_path / "copy")
    made = prepared(tmp_path / "copy", glue_files, f"init_from={mnli_run}")
    assert made.init_from.run == str(mnli_run)


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ("[neutral, entailment, contradiction]", False),
        ("{entailment: yes, neutral: perhaps, contradiction: no}", True),  # other names, who knows
    ],
)
def test_a_head_of_the_same_classes_in_another_order(
    labels, fits, mnli_run, tiny_encoder, glue_files, capsys
):
    alone = ["tasks.mnli_mm=null", "tasks.ax=null", "tasks.mnli.glue_file=null"]
    alone.append(f"tasks.mnli.data.labels={labels}")
    tiny = [*small(tiny_encoder, glue_files, "mnli"), *alone]
    start = f"init_from={{run: {mnli_run}, take: head}}"
    if fits:
        prepared(tiny_encoder, glue_files, *alone, start, task="mnli")
        return
    error = refused(capsys, GLUE / "mnli.yaml", *tiny, start)
    assert "as entailment, neutral" in error and "as neutral, entailment" in error
    without = start.replace("head", "pooling")
    prepared(tiny_encoder, glue_files, *alone, without, task="mnli")


def test_a_head_of_other_labels_is_one_line(tiny_encoder, glue_files, tmp_path, capsys):
    """One logit of two classes has the shape of a regression's number."""
    run = tmp_path / "rte"
    assert (
        main(GLUE / "rte.yaml", *small(tiny_encoder, glue_files, "rte"), f"output_dir={run}") == 0
    )
    capsys.readouterr()
    tiny = small(tiny_encoder, glue_files, "stsb")
    start = f"init_from={{run: {run}, take: head}}"
    error = refused(capsys, GLUE / "stsb.yaml", *tiny, start)
    assert "'binary'" in error and "'number'" in error and "`take: pooling`" in error
    prepared(tiny_encoder, glue_files, start.replace("take: head", "take: pooling"), task="stsb")


WEIGHTED = "tasks.mnli.head={{name: classification, class_weights: {}}}"


@pytest.mark.parametrize("there", ["null", "[1.0, 2.0, 3.0]"])
@pytest.mark.parametrize("here", ["null", "balanced", "[3.0, 1.0, 2.0]"])
def test_class_weights_are_those_of_this_config(there, here, tiny_encoder, glue_files, tmp_path):
    """They say how to train, so a head can be taken whatever they were."""
    alone = ["tasks.mnli_mm=null", "tasks.ax=null"]
    first = [*small(tiny_encoder, glue_files, "mnli"), *alone, "training.frozen_baseline=false"]
    first += [f"output_dir={tmp_path / 'run'}", "training.max_steps=1", WEIGHTED.format(there)]
    assert main(GLUE / "mnli.yaml", *first) == 0
    chosen = f"init_from={{run: {tmp_path / 'run'}, take: head}}"
    settings = [*alone, WEIGHTED.format(here)]
    plain = prepared(tiny_encoder, glue_files, *settings, task="mnli").model.head("mnli")
    made = prepared(tiny_encoder, glue_files, *settings, chosen, task="mnli").model.head("mnli")
    assert torch.equal(
        made.linear.weight, weights(tmp_path / "run")["tasks.mnli.head.linear.weight"]
    )
    if here == "null":
        assert made.class_weights is None
    else:
        assert torch.equal(made.class_weights, plain.class_weights)
