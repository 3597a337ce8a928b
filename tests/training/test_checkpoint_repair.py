"""Going back to a checkpoint whose files, or whose weights, are damaged."""

import shutil

import pytest
import torch

from multitask.models.weights import read_tensors, write_tensors
from multitask.store.run_directory import RunDirectory
from multitask.training.checkpoint_format import save_checkpoint
from multitask.training.checkpoint_repair import find_intact, mend
from multitask.training.checkpoint_save_restore import prune, prune_weights
from multitask.utils.errors import UserError


def newest_intact(run, say):
    """Find the newest intact checkpoint and mend what is damaged, as a resume does."""
    found = find_intact(run, say)
    mend(run, found)
    return found.path


def states(step: int) -> dict:
    """The least that a checkpoint of a step has."""
    times = {"sentences": 1.0, "seconds": 1.0, "wall_seconds": 1.0}
    return {
        "model": {"weight": torch.full((3,), float(step))},
        "progress": {"step": step, "evaluated_at": step, "trained": {}, "skipped": {}} | times,
        "optimizer": {"index": 0, "began_after": 0, "epochs_before": 0.0},
        "selection": {"best": {}},
        "streams": {},
    }


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints of the steps 4 and 8, whose best step is 4."""
    run = RunDirectory(tmp_path)
    run.make(run.weights)
    write_tensors(run.weights_of(4), states(4)["model"])
    for step in (4, 8):
        save_checkpoint(run, step, states(step), {"joint": 4})
    return run


def flip(file):
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


def test_damaged_weights_are_written_again_from_the_checkpoint_of_their_step(run, capsys):
    flip(run.weights_of(4))
    assert newest_intact(run, print) == run.saved_checkpoints()[-1]
    assert "the weights in" in capsys.readouterr().err
    assert read_tensors(run.weights_of(4))["weight"].tolist() == [4.0] * 3


def test_weights_that_nobody_has_make_a_checkpoint_useless(run, capsys):
    """The one before it may train up to them again."""
    first, second = run.saved_checkpoints()
    for file in (run.weights_of(4), first / "model.safetensors"):
        flip(file)
    with pytest.raises(UserError, match="every checkpoint is damaged"):
        newest_intact(run, print)
    assert f"{second} needs {run.weights_of(4)}" in capsys.readouterr().out


def test_a_checkpoint_is_set_aside_where_another_was_before(run):
    before = run.damaged(run.checkpoint(8).with_name("step-00000008"))
    before.mkdir()
    (before / "file").touch()
    flip(run.saved_checkpoints()[-1] / "model.safetensors")
    assert newest_intact(run, print) == run.saved_checkpoints()[-1]
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert names == ["damaged-step-00000008", "damaged-step-00000008+", "step-00000004"]


def test_other_files_among_the_weights_are_left_alone(run):
    stray = run.weights / "step-abc.safetensors"
    stray.touch()
    write_tensors(run.weights_of(9), states(9)["model"])
    prune_weights(run, {8})
    assert sorted(run.weights.iterdir()) == [run.weights_of(4), stray]


@pytest.fixture
def own(run):
    """The same run, whose checkpoints name it."""
    run.marker.write_text('{"format": 1, "started_with": {}}')
    shutil.rmtree(run.checkpoints)
    for step in (4, 8):
        save_checkpoint(run, step, states(step), {"joint": 4})
    return run


def test_copies_among_the_checkpoints_are_neither_deleted_nor_used(own):
    first, second = own.saved_checkpoints()
    names = ["step-00000002.bak", "step-best", "step-8", "step-00000012", "step-00000008 (1)"]
    for name in names:
        shutil.copytree(second, own.checkpoints / name)
    (own.checkpoints / "step-notes.txt").touch()
    assert own.saved_checkpoints() == [first, second] and own.checkpoints_of(12) == []
    assert newest_intact(own, print) == second
    prune(own, keep=1)
    left = {path.name for path in own.checkpoints.iterdir()}
    assert left == {*names, "step-notes.txt", second.name}


def test_a_checkpoint_of_another_run_is_neither_deleted_nor_used(own, tmp_path):
    other = RunDirectory(tmp_path / "other")
    other.path.mkdir()
    other.marker.write_text('{"format": 1, "started_with": {"config": "another"}}')
    save_checkpoint(other, 12, states(12), {"joint": 12})
    place = shutil.copytree(other.checkpoint(12).with_name("step-00000012"), own.checkpoint(12))
    assert newest_intact(own, print) == own.checkpoints / "step-00000008"
    prune(own, keep=1)
    assert place.is_dir() and len(own.saved_checkpoints()) == 1


def test_a_damaged_checkpoint_is_not_deleted(own):
    first, _ = own.saved_checkpoints()
    (first / "state.json").write_text("{")
    prune(own, keep=1)
    assert first.is_dir()


def test_looking_for_a_checkpoint_writes_nothing(own, capsys):
    flip(own.weights_of(4))
    flip(own.saved_checkpoints()[-1] / "model.safetensors")
    before = {path: path.stat().st_mtime_ns for path in own.path.rglob("*")}
    found = find_intact(own, print)
    assert before == {path: path.stat().st_mtime_ns for path in own.path.rglob("*")}
    assert found.path == own.saved_checkpoints()[0]
    assert found.damaged == (own.saved_checkpoints()[1],) and [*found.copies] == [own.weights_of(4)]


@pytest.mark.parametrize("name", ["step-4", "step-000000009", "step-00000009 (copy)", "step-best"])
def test_copies_among_the_weights_are_left_alone(name, own):
    copy = own.weights / f"{name}.safetensors"
    shutil.copy(own.weights_of(4), copy)
    prune_weights(own, {8})
    assert copy.is_file()
