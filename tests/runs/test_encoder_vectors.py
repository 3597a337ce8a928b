"""Matryoshka and R-Drop on each type of encoder: resumed, cut, two tasks in one exported graph."""

import json

import numpy as np
import pytest

import run_multitask
from multitask import load
from multitask.models.encoders.hf_layout import LAYOUTS
from tests.support import encoder_run, exports
from tests.support.commands import main
from tests.support.kill import kill_inside
from tests.support.run_files import events, results
from tests.support.sts_files import write_suites

TEXTS = ["a good film", "a bad film that is longer than others", "the dog"]
SIZE = 5
# a task with vectors and one with classes for each of two graphs; R-Drop in three tasks of four
CHANGES = [
    "tasks.sst.r_drop={weight: 2}",
    "tasks.sst.projection=tanh",
    "tasks.qqp.r_drop={weight: 0.5}",
    "tasks.qqp.dropout=0.2",
    "tasks.qqp.pooling={name: layer_attention, variant: avg_all}",
    "tasks.sts.r_drop={}",
    "tasks.sts.pooling=max",
    "tasks.sts.dropout=0.1",
    f"tasks.sts.head={{name: cosine_regression, matryoshka: [32, 12, {SIZE}]}}",
    "tasks.views={data: {train: ids-sst-train.csv, dev_share: 0.2, text: sentence}}",
    "tasks.views.pooling=mean",
    f"tasks.views.head={{name: contrastive, matryoshka: [{SIZE}, 24], temperature: 0.2}}",
    "tasks.views.max_length=48",
    "training.lr=1e-3",
    "training.head_lr=0.01",
    "training.combine=joint",
    "training.checkpoint_steps=2",
    "training.max_steps=5",
    "training.frozen_baseline=false",
]


@pytest.fixture(scope="module")
def suites(tmp_path_factory):
    return write_suites(tmp_path_factory.mktemp("suites"))


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.slow
def test_a_run_with_matryoshka_and_r_drop(kind, course_files, suites, tmp_path, capsys):
    dropout = ["encoder.dropout=0.2"] if LAYOUTS[kind].dropout else []
    whole, run = tmp_path / "whole", tmp_path / "run"
    command = [
        encoder_run.arguments(kind, course_files, tmp_path, place, *CHANGES, *dropout)
        for place in (whole, run)
    ]
    assert run_multitask.main(command[0]) == 0
    kill_inside("multitask.training.trainer:train_step", "after", 3, command[1])
    assert run_multitask.main([*command[1], "--resume"]) == 0
    check_equal(whole, run)
    for line in events(run, "step"):
        assert (line.get("consistency", 0) > 0) == (line["task"] != "views")
    assert main("evaluate", run) == 0
    check_cut_vectors(run, suites, tmp_path, capsys)
    check_graphs(run, tmp_path)
    transformers = ["--format", "transformers", "--task", "sst"]
    transformers += [] if LAYOUTS[kind].classifier else ["--encoder-only"]
    assert exports.main(run, tmp_path / "transformers", *transformers) == 0  # it compares


def check_equal(whole, run):
    """Both have the same numbers and weights."""
    assert results(run) == results(whole)
    one, other = (
        {file.name: file.read_bytes() for file in place.glob("weights/*")} for place in (whole, run)
    )
    assert one and one == other


def check_cut_vectors(run, suites, place, capsys):
    """``sts`` and ``index`` count the first numbers of a vector."""
    scores, alone = place / "scores", place / "alone"
    cut = ("sts", run, "--data", suites, "--task", "sts", "--dim", SIZE)
    assert main(*cut, "--layers", "--output", scores) == 0
    assert main("sts", run, "--data", suites, "--task", "sts", "--output", alone) == 0
    reports = [json.loads((part / "sts.json").read_text()) for part in (scores, alone)]
    assert f"{SIZE}" in reports[0]["of"] and reports[0]["average"] != reports[1]["average"]
    file, index = place / "texts.txt", place / "index"
    file.write_text("\n".join(TEXTS))
    made = ("index", run, "--texts", file, "--out", index, "--task", "views", "--dim", SIZE)
    assert main(*made) == 0
    assert json.loads((index / "index.json").read_text())["origin"]["dim"] == SIZE
    vectors = load(run).encode([*TEXTS, "a film"], task="views")[:, :SIZE].astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    best = int(np.argmax(vectors[:-1] @ vectors[-1]))
    capsys.readouterr()
    assert main("search", index, "a film", "--top", 1) == 0
    assert f"{vectors[best] @ vectors[-1]:.3f}  line {best + 1}: " in capsys.readouterr().out


def check_graphs(run, place):
    """Graphs of two tasks give the run's scores of a padded batch."""
    pytest.importorskip("onnxruntime", reason="an extra of `export`")
    trained = load(run)
    for tasks, rows in (("qqp,sts", exports.PAIRS), ("sst,views", [(text,) for text in TEXTS])):
        target = place / tasks
        small = ["--int8"] if tasks == "qqp,sts" else []
        assert exports.main(run, target, "--format", "onnx", "--task", tasks, *small) == 0
        first, second = exports.graph_outputs(target / "model.onnx", rows).values()
        if tasks == "qqp,sts":
            made = [1 / (1 + np.exp(-first)), second.clip(0, 5)]
            expected = [[row["scores"][-1] for row in trained.predict("qqp", rows)]]
            expected += [[row["prediction"] for row in trained.predict("sts", rows)]]
            for output in exports.graph_outputs(target / "model_int8.onnx", rows).values():
                assert np.isfinite(output).all()
        else:
            made = [np.exp(first) / np.exp(first).sum(1, keepdims=True), second]
            expected = [[row["scores"] for row in trained.predict("sst", TEXTS)]]
            expected += [trained.encode(TEXTS, task="views")]
        for actual, wanted in zip(made, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, atol=1e-3)
