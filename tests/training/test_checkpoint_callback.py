"""Going back to a checkpoint: the same data, and weights that are damaged."""

import pytest
import torch

from multitask.config.run_directory import RunDirectory
from multitask.models.weights import read_tensors, write_tensors
from multitask.training.checkpoint_callback import SameData, newest_intact, prune_weights
from multitask.training.checkpoint_format import save_checkpoint
from multitask.utils.errors import UserError


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


def test_a_run_goes_on_with_the_same_data_alone():
    data = SameData({"sst": "a", "qqp": "b"})
    data.load_state_dict(data.state_dict())
    data.load_state_dict({"sst": "a", "qqp": "b", "gone": "c"})
    with pytest.raises(UserError, match="the data of qqp are not those"):
        data.load_state_dict({"sst": "a"})


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
