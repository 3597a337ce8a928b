"""One ONNX file for several tasks: each output has the scores of the run."""

import numpy as np
import pytest

from multitask import load
from multitask.inference.load_run import TrainedRun
from tests.support.exports import PAIRS, complaint, graph_outputs, main, trained

SEVERAL = ["--format", "onnx", "--task", "qqp,sts"]


@pytest.fixture(scope="module")
def pairs_run(course_files, tiny_encoder, tmp_path_factory):
    """Two siamese tasks with other poolings than each other's, and the weights of one step."""
    return trained(
        tmp_path_factory.mktemp("pairs") / "run",
        tiny_encoder,
        course_files,
        "training.select=joint",
        "tasks.qqp.pooling={name: layer_attention, variant: avg_all}",
        "tasks.sts.pooling=max",
    )


@pytest.mark.slow
def test_one_pass_gives_the_scores_of_both(pairs_run, tmp_path, capsys):
    pytest.importorskip("onnxruntime", reason="an extra of `export`")
    target = tmp_path / "pairs"
    assert main(pairs_run, target, *SEVERAL, "--int8") == 0
    said = capsys.readouterr().out
    for task in ("qqp", "sts"):
        assert f"{task} differ by" in said and f"{task}: int8 on" in said
    assert "session.run(['qqp', 'sts'], inputs)" in (target / "README.md").read_text()
    run = load(pairs_run)
    for file in ("model.onnx", "model_int8.onnx"):
        outputs = graph_outputs(target / file, PAIRS)
        assert list(outputs) == ["qqp", "sts"]
        logits, numbers = outputs.values()
        if file == "model.onnx":
            expected = [row["scores"][-1] for row in run.predict("qqp", PAIRS)]
            np.testing.assert_allclose(1 / (1 + np.exp(-logits)), expected, atol=1e-4)
            expected = [row["prediction"] for row in run.predict("sts", PAIRS)]
            np.testing.assert_allclose(numbers.clip(0, 5), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "onnx", "--task", "sst,sts"], "tasks.sts.input"),
        (["--format", "onnx", "--task", "qqp,sts", "tasks.sts.max_length=41"], "max_length=40"),
        (["--format", "onnx", "--task", "qqp,qqp"], "each once"),
        (["--format", "onnx", "--task", "qqp,none"], "no task 'none'"),
        (["--format", "transformers", "--task", "qqp,sts"], "only --format onnx"),
    ],
    ids=["inputs", "lengths", "twice", "unknown", "format"],
)
def test_tasks_that_do_not_fit_together(words, said, pairs_run, tmp_path, capsys):
    pytest.importorskip("onnxscript", reason="an extra of `export`")
    assert said in complaint(capsys, pairs_run, tmp_path / "model", *words)
    assert not list(tmp_path.iterdir())


def test_an_adapter_needs_a_pass_of_its_own(course_files, tiny_encoder, tmp_path, capsys):
    pytest.importorskip("onnxscript", reason="an extra of `export`")
    place = tmp_path / "run"
    run = trained(place, tiny_encoder, course_files, "tasks.sts.adapter=lora")
    said = complaint(capsys, run, tmp_path / "model", *SEVERAL, "training.select=joint")
    assert "tasks.sts.adapter" in said
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_each_pooling_that_may_have_no_graph_is_named(pairs_run, tmp_path, capsys, monkeypatch):
    pytest.importorskip("onnxscript", reason="an extra of `export`")

    def without_graph(*arguments, **options):
        raise NotImplementedError

    monkeypatch.setattr("torch.onnx.export", without_graph)
    said = complaint(capsys, pairs_run, tmp_path / "model", *SEVERAL)
    assert "tasks.qqp.pooling: layer_attention" in said and "tasks.sts.pooling: max" in said
    assert not list(tmp_path.iterdir())


def test_weights_of_two_steps_are_no_model(pairs_run, tmp_path, capsys, monkeypatch):
    made = TrainedRun.__init__

    def with_other_steps(self, *arguments):
        made(self, *arguments)
        self.steps = {**self.steps, "sts": self.steps["sts"] + 1}

    monkeypatch.setattr(TrainedRun, "__init__", with_other_steps)
    assert "training.select" in complaint(capsys, pairs_run, tmp_path / "model", *SEVERAL)
    assert not list(tmp_path.iterdir())
