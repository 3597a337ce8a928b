"""kill -9 at several moments, then --resume: the same numbers as the uninterrupted run."""

import functools
from pathlib import Path

import pytest
from torch.amp import GradScaler

import run_multitask
from multitask.training import trainer
from tests.support.commands import small
from tests.support.kill import kill_inside
from tests.support.run_files import events, report_of, results

pytestmark = pytest.mark.slow

STEP, SCORE = "multitask.training.trainer:train_step", "multitask.inference.scoring:Scorer.score"
CHECKPOINTS = "multitask.training.checkpoints"
PRESET, MASKED_LM = "configs/cs224n.yaml", "configs/cs224n_mlm.yaml"
SETTINGS = ["training.epochs=3", "training.checkpoint_steps=4"]
JOINT = ["training.combine=joint", "training.gradient_surgery=gradvac"]
JOINT += ["training.loss_weighting=uncertainty"]
SMART = "defaults.smart={eps: 1e-3, noise: 1e-3, bregman: 1.0}"
ADAPTERS = [
    "tasks.sst.adapter={name: pal, size: 12, heads: 3}",
    "tasks.qqp.adapter={name: houlsby, size: 7}",
    "tasks.sts.adapter={name: low_rank, size: 5, layers: [2]}",
    "stages=[{freeze: [encoder, adapters], epochs: 1}, {freeze: [encoder, heads], epochs: 1}, "
    "{freeze: [sst.adapter, qqp], epochs: 1}, {epochs: 1}]",
]
# what has a state besides weights and moments: the step after which it is killed, the settings
METHODS = {
    "smart": (6, PRESET, [SMART, "defaults.smart.every=2", "training.conflict_steps=3",
                                "training.schedule=polynomial", "training.schedule_power=2"]),
    "smart, joint": (6, PRESET, [SMART, *JOINT, "training.surgery_every=2"]),
    "joint, second stage": (6, PRESET, [
        *JOINT, "stages=[{tasks: [sst, qqp], epochs: 1}, {tasks: [qqp, sts], epochs: 3}]"]),
    "adapters, second stage": (14, PRESET, ADAPTERS),
    "gradual ternary": (4, PRESET, ["encoder.bitlinear={gradual: 0.5}"]),
    "masked LM": (7, MASKED_LM, [
        "tasks.mlm.max_length=48",
        "stages=[{tasks: [mlm], epochs: 2}, {tasks: [sst, qqp, sts], epochs: 1}]"]),
}  # fmt: skip


def command(overrides: list[str], run_dir: Path, *more: str, preset: str = PRESET) -> list[str]:
    return [preset, *overrides, *SETTINGS, f"output_dir={run_dir}", *more]


@pytest.fixture(scope="module")
def overrides(tiny_encoder: Path, course_files: Path) -> list[str]:
    return small(tiny_encoder, course_files, "training.precision=bf16")[1:]


@pytest.fixture(scope="module")
def uninterrupted(overrides: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("reference") / "run"
    assert run_multitask.main(command(overrides, run_dir)) == 0
    return run_dir


@pytest.mark.parametrize(
    ("place", "when", "nth"),
    [
        (STEP, "before", 3),  # no checkpoint yet
        (STEP, "after", 14),  # between two checkpoints
        (SCORE, "before", 5),  # inside an evaluation
        (f"{CHECKPOINTS}:write_tensors", "after", 2),  # weights written, not the rest
        (f"{CHECKPOINTS}:write_state", "before", 4),  # inside a checkpoint
        (f"{CHECKPOINTS}:prune", "before", 4),  # checkpoint written, old ones still there
        # trained, report unfinished
        ("multitask.inference.write_predictions:write_predictions", "before", 2),
    ],
)
def test_killed_run_resumes_to_the_same_numbers(
    place: str, when: str, nth: int, overrides: list[str], uninterrupted: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    kill_inside(place, when, nth, command(overrides, run_dir))
    assert not (run_dir / "report.json").exists()
    assert run_multitask.main(command(overrides, run_dir, "--resume")) == 0
    assert events(run_dir) == events(uninterrupted)  # every loss to the last bit, no step twice
    assert results(run_dir) == results(uninterrupted)
    assert not [path for path in run_dir.rglob("*") if path.name.startswith(".")]  # no scraps


@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_of_a_method_resumes_to_the_same_numbers(name, overrides, tmp_path):
    nth, preset, settings = METHODS[name]
    if "gradient_surgery" in str(settings):
        pytest.importorskip("torchjd")
    settings = [*settings, "training.frozen_baseline=false"]
    whole, killed = (
        command(overrides, tmp_path / directory, *settings, preset=preset)
        for directory in ("whole", "killed")
    )
    assert run_multitask.main(whole) == 0
    kill_inside(STEP, "after", nth, killed)
    assert run_multitask.main([*killed, "--resume"]) == 0
    assert events(tmp_path / "killed") == events(tmp_path / "whole")
    assert results(tmp_path / "killed") == results(tmp_path / "whole")


def test_a_run_in_fp16_resumes_with_its_scale(overrides, tmp_path, monkeypatch):
    """The scale doubles in every second step here; the steps that overflow are in the log."""
    make = functools.partial(GradScaler, init_scale=2.0**70, growth_interval=2)
    monkeypatch.setattr(trainer, "GradScaler", make)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    in_fp16 = [*overrides, "training.precision=fp16"]
    assert run_multitask.main(command(in_fp16, unbroken)) == 0
    step, calls = trainer.train_step, []

    def ends(*args, **more):
        calls.append(1)
        if len(calls) == 14:
            raise KeyboardInterrupt
        return step(*args, **more)

    with monkeypatch.context() as once:
        once.setattr(trainer, "train_step", ends)
        assert run_multitask.main(command(in_fp16, broken)) != 0
    assert run_multitask.main(command(in_fp16, broken, "--resume")) == 0
    assert events(broken) == events(unbroken) and results(broken) == results(unbroken)
    assert len(events(broken, "overflow")) > 3
    assert report_of(broken)["precision"] == "fp16"
