"""Runs in fp16, with options that are not the defaults: an overflow on two processes, a kill, and
all that a finished run is used for."""

import json
import math

import numpy as np
import pytest

import run_multitask
from multitask import load
from tests.conftest import save_tiny_encoder
from tests.support.commands import small
from tests.support.kill import kill_inside
from tests.support.processes import TORCHRUN, launch
from tests.support.run_files import events, report_of, results

pytestmark = pytest.mark.slow

TASKS = ("sst", "qqp", "sts")
# the first scale overflows, and the next one is an everyday one
OVERFLOWS = """
import functools, sys
from torch.amp import GradScaler
from multitask.training import trainer
scaler = functools.partial(GradScaler, init_scale=2.0**60, backoff_factor=2.0**-50)
trainer.GradScaler = scaler
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""
SURGERY = ["training.combine=joint", "training.gradient_surgery=pcgrad"]


def command(encoder, course_files, *changes):
    fixed = ["training.precision=fp16", "training.frozen_baseline=false"]
    return small(encoder, course_files, *fixed, *changes)


@pytest.mark.parametrize("changes", [[], SURGERY], ids=["alternate", "surgery"])
def test_an_overflow_skips_exactly_one_step_on_two_processes(changes, course_files, tmp_path):
    encoder = save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)
    script = tmp_path / "overflows.py"
    script.write_text(OVERFLOWS)
    # without dropout, whose noise each rank draws for itself
    plain = ["encoder.dropout=0", *(f"tasks.{task}.dropout=0" for task in TASKS)]
    given = command(encoder, course_files, *plain, *changes, "training.max_steps=5")
    runs = {"alone": [], "both": TORCHRUN}
    for name, launcher in runs.items():
        done = launch(launcher, script, *given, f"output_dir={tmp_path / name}")
        assert done.returncode == 0, done.stderr
    alone, both = (events(tmp_path / name) for name in runs)
    for log in (alone, both):
        assert [(e["step"], e["scale"]) for e in log if e["event"] == "overflow"] == [(1, 2.0**10)]
        norms = {e["step"]: e["grad_norm"] for e in log if e["event"] == "step"}
        assert [step for step, norm in norms.items() if norm is None] == [1]
        assert len(norms) == 5 and all(map(math.isfinite, list(norms.values())[1:]))
    losses, wanted = ([e["loss"] for e in log if e["event"] == "step"] for log in (both, alone))
    np.testing.assert_allclose(losses, wanted, rtol=1e-2)


OPTIONS = {
    "smart": [
        "training.loss_weighting=uncertainty",
        "training.layer_decay=0.9",
        "training.select=per_task",
        "training.holdout=0.2",
        "defaults.accumulation=2",
        "encoder.gradient_checkpointing=true",
        "tasks.sst.projection=tanh",
        "tasks.sst.smart.weight=1",
    ],
    "ternary": [*SURGERY, "encoder.bitlinear={}", "tasks.sts.pooling=layer_attention"],
}
EXPORTS = {
    "smart": [
        ("sst", "--format", "transformers"),
        ("sst", "--format", "transformers", "--encoder-only"),
        ("sts", "--format", "sentence-transformers"),
        ("qqp", "--format", "onnx", "--int8"),
    ],
    "ternary": [("sst", "--format", "ternary")],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_is_killed_resumed_and_used(name, tiny_encoder, course_files, tmp_path):
    more = ["training.epochs=2", "training.checkpoint_steps=4", *OPTIONS[name]]
    given = command(tiny_encoder, course_files, *more)
    unbroken, run = tmp_path / "unbroken", tmp_path / "run"
    assert run_multitask.main([*given, f"output_dir={unbroken}"]) == 0
    again = [*given, f"output_dir={run}"]
    kill_inside("multitask.training.trainer:train_step", "after", 6, again)
    assert run_multitask.main([*again, "--resume"]) == 0
    assert events(run) == events(unbroken) and results(run) == results(unbroken)
    report = report_of(run)
    assert report["precision"] == "fp16"

    loaded = load(run)
    pairs = [("a cat sees a dog", "a cat")] * 2
    for task, texts in (("sst", ["a good film", "dull"]), ("qqp", pairs), ("sts", pairs)):
        assert len(loaded.predict(task, texts)) == 2
    assert np.isfinite(loaded.encode(["a good film"])).all()

    assert run_multitask.main(["evaluate", str(run)]) == 0
    evaluated = json.loads((run / "evaluation-dev.json").read_text())
    for task in TASKS:
        assert evaluated[task]["metrics"] == report["tasks"][task]["dev"]
    saved = {file: file.read_text() for file in (run / "predictions").glob("*.dev.jsonl")}
    for file in saved:
        file.unlink()
    assert run_multitask.main(["predict", str(run)]) == 0
    assert saved and saved == {file: file.read_text() for file in saved}

    for number, (task, *how) in enumerate(EXPORTS[name]):
        target = str(tmp_path / f"export-{number}")
        assert run_multitask.main(["export", str(run), target, "--task", task, *how]) == 0
