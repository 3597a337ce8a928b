"""kill -9 at several moments, then --resume: the same numbers as the uninterrupted run."""

import functools
from pathlib import Path

import pytest
from torch.amp import GradScaler

import run_multitask
from multitask.training import trainer
from tests.support.kill import kill_inside
from tests.support.run_files import events, report_of, results

pytestmark = pytest.mark.slow

SETTINGS = ["training.epochs=3", "training.checkpoint_steps=4"]


def command(overrides: list[str], run_dir: Path, *more: str) -> list[str]:
    return ["configs/cs224n.yaml", *overrides, *SETTINGS, f"output_dir={run_dir}", *more]


@pytest.fixture(scope="module")
def overrides(tiny_encoder: Path, course_files: Path) -> list[str]:
    lengths = [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts")]
    return [
        f"data_dir={course_files}",
        f"encoder.name={tiny_encoder}",
        "training.precision=bf16",
        *lengths,
    ]


@pytest.fixture(scope="module")
def uninterrupted(overrides: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("reference") / "run"
    assert run_multitask.main(command(overrides, run_dir)) == 0
    return run_dir


@pytest.mark.parametrize(
    ("place", "when", "nth"),
    [
        ("multitask.training.trainer:train_step", "before", 3),  # no checkpoint yet
        ("multitask.training.trainer:train_step", "after", 14),  # between two checkpoints
        ("multitask.inference.scoring:Scorer.score", "before", 5),  # inside an evaluation
        (
            "multitask.training.checkpoints:write_tensors",
            "after",
            2,
        ),  # weights written, not the rest
        ("multitask.training.checkpoints:write_state", "before", 4),  # inside a checkpoint
        (
            "multitask.training.checkpoints:prune",
            "before",
            4,
        ),  # checkpoint written, old ones still there
        (
            "multitask.inference.write_predictions:write_predictions",
            "before",
            2,
        ),  # trained, report unfinished
    ],
)
def test_killed_run_resumes_to_the_same_numbers(
    place: str,
    when: str,
    nth: int,
    overrides: list[str],
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    kill_inside(place, when, nth, command(overrides, run_dir))
    assert not (run_dir / "report.json").exists()
    assert run_multitask.main(command(overrides, run_dir, "--resume")) == 0
    assert events(run_dir) == events(uninterrupted)  # every loss to the last bit, no step twice
    assert results(run_dir) == results(uninterrupted)
    assert not [path for path in run_dir.rglob("*") if path.name.startswith(".")]  # no scraps


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
