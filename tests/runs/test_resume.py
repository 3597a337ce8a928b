"""kill -9 at several moments, then --resume: the same numbers as the uninterrupted run."""

from pathlib import Path

import pytest

import run_multitask
from tests.support.kill import kill_inside
from tests.support.run_files import events, results

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
            "multitask.training.checkpoint_save_restore:Checkpoints.save_best",
            "after",
            2,
        ),  # weights written, not the rest
        ("multitask.training.checkpoint_format:write_text", "before", 4),  # inside a checkpoint
        (
            "multitask.training.checkpoint_save_restore:prune",
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
