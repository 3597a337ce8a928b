"""A checkpoint's content, and going back to one whose files, or whose weights, are damaged.

Kills and resumes are in test_resume.py.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from multitask.models.weights import read_tensors, write_tensors
from multitask.store import files
from multitask.store.checkpoint import FORMAT, Damaged, write_sealed
from multitask.store.files import replacing
from multitask.store.run_directory import RunDirectory
from multitask.training.checkpoints import load_checkpoint, newest_intact, prune, save_checkpoint
from multitask.utils.errors import UserError

STATES = {
    "model": {"encoder.weight": torch.arange(6.0).view(2, 3), "bias": torch.zeros(2)},
    "optimizer": {
        "index": 1,
        "state": {"0": {"step": torch.tensor(3.0), "exp_avg": torch.ones(2, 3)}, "1": {}},
        "param_groups": [{"lr": 0.1, "betas": [0.9, 0.98], "params": [0, 1]}],
    },
    "surgery": {},
    "selection": {"best": {"joint": [0.5, 4, 0], "sst": [None, None, 1]}},
}


def check_same(actual, expected):
    assert set(actual) == set(expected)
    for key, value in expected.items():
        if isinstance(value, dict):
            check_same(actual[key], value)
        elif isinstance(value, torch.Tensor):
            assert torch.equal(actual[key], value) and actual[key].dtype == value.dtype
        else:
            assert actual[key] == value


def test_nested_states_come_back_as_they_were_and_a_second_one_of_a_step_replaces_the_first(
    tmp_path,
):
    run = RunDirectory(tmp_path)
    for states in (STATES | {"model": {"bias": torch.ones(1)}}, STATES):
        save_checkpoint(run, 7, states, {"joint": 7})
    (saved,) = run.saved_checkpoints()
    check_same(load_checkpoint(run, saved), STATES)
    assert sorted(file.suffix for file in saved.iterdir()) == [".json"] + 2 * [".safetensors"]


@pytest.mark.parametrize("number", [2, FORMAT + 1, "4"])
def test_another_format_is_refused_with_its_number(tmp_path, number):
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 7, STATES, {"joint": 7})
    (path,) = run.saved_checkpoints()
    values = json.loads((path / "state.json").read_text())
    del values["checksum"]
    write_sealed(path / "state.json", values | {"format": number})
    with pytest.raises(UserError, match=rf"format {number}, not {FORMAT}"):
        newest_intact(run, print)


def test_a_flipped_bit_of_any_byte_is_noticed(tmp_path):
    run, bits = RunDirectory(tmp_path), 0
    save_checkpoint(run, 7, STATES, {"joint": 4})
    (saved,) = run.saved_checkpoints()
    for file in saved.iterdir():
        content = file.read_bytes()
        for place in range(0, len(content), 7):
            flip(file, place)
            with pytest.raises(Damaged, match=re.escape(file.name)):
                load_checkpoint(run, saved)
            file.write_bytes(content)
            bits += 1
    assert bits > 100
    check_same(load_checkpoint(run, saved), STATES)


# --- damage ---


def states(step: int) -> dict:
    return {"model": {"weight": torch.full((3,), float(step))}, "log": {"size": 0}}


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints of the steps 4 and 8, whose best step is 4."""
    run = RunDirectory(tmp_path)
    run.make(run.weights)
    write_sealed(run.marker, {"format": 2})
    write_tensors(run.weights_of(4), states(4)["model"])
    for step in (4, 8):
        save_checkpoint(run, step, states(step), {"joint": 4})
    return run


def flip(file, place=-2):
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << abs(place) % 8
    file.write_bytes(content)


def test_damaged_weights_are_written_again_from_the_checkpoint_of_their_step(run, capsys):
    flip(run.weights_of(4))
    assert newest_intact(run, print) == run.checkpoint(8)
    assert "the weights in" in capsys.readouterr().err
    assert read_tensors(run.weights_of(4))["weight"].tolist() == [4.0] * 3


def test_weights_that_nobody_has_make_a_checkpoint_useless_and_nothing_is_changed(run, capsys):
    """The one before it may train up to them again."""
    for file in (run.weights_of(4), run.checkpoint(4) / "model.safetensors"):
        flip(file)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    with pytest.raises(UserError, match="every checkpoint is damaged"):
        newest_intact(run, print)
    assert f"{run.checkpoint(8)} needs {run.weights_of(4)}" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}


def test_a_damaged_checkpoint_is_set_aside_where_another_was_before(run):
    aside = run.checkpoints / "damaged-step-00000008"
    aside.mkdir()
    (aside / "file").touch()
    flip(run.checkpoint(8) / "model.safetensors")
    assert newest_intact(run, print) == run.checkpoint(4)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [aside.name, "step-00000004"]


def test_copies_under_other_names_are_neither_deleted_nor_used(run):
    names = ["step-00000002.bak", "step-best", "step-8", "step-00000008 (1)", "step-000000009"]
    for name in names:
        shutil.copytree(run.checkpoint(8), run.checkpoints / name)
        shutil.copy(run.weights_of(4), run.weights / f"{name}.safetensors")
    (run.checkpoints / "step-notes.txt").touch()
    assert newest_intact(run, print) == run.checkpoint(8)
    prune(run, 1, {"joint": 4})
    left = {path.name for path in run.checkpoints.iterdir()}
    assert left == {*names, "step-notes.txt", "step-00000008"}
    assert len(list(run.weights.iterdir())) == 1 + len(names)


def test_a_checkpoint_of_another_run_or_step_is_not_used(run, tmp_path, capsys):
    other = RunDirectory(tmp_path / "other")
    other.path.mkdir()
    write_sealed(other.marker, {"format": 2, "config": "another"})
    save_checkpoint(other, 12, states(12), {"joint": 12})
    shutil.copytree(other.checkpoint(12), run.checkpoint(12))
    shutil.copytree(run.checkpoint(8), run.checkpoint(10))
    assert newest_intact(run, print) == run.checkpoint(8)
    assert capsys.readouterr().out.count("is of another run or step; falling back") == 2


def test_a_damaged_checkpoint_is_not_deleted_and_weights_that_nobody_needs_are(run):
    (run.checkpoint(4) / "state.json").write_text("{")
    write_tensors(run.weights_of(9), states(9)["model"])
    prune(run, 1, {"joint": 8})
    assert run.checkpoint(4).is_dir() and list(run.saved_weights()) == [4]


def test_a_checkpoint_whose_replacement_was_killed_between_two_renames_is_used(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchange", lambda made, target: False)
        patch.setattr(files, "_clear", lambda scratch: None)
        patch.setattr(Path, "replace", lambda made, target: None)
        with replacing(run.checkpoint(8)) as made:
            shutil.copytree(run.checkpoint(8), made)
    assert not run.checkpoint(8).exists()
    assert newest_intact(run, print) == run.checkpoint(8)
