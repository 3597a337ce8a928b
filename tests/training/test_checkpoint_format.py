"""A checkpoint's content; kills and resumes are in test_resume.py."""

import json

import pytest
import torch

from multitask.store.run_directory import RunDirectory
from multitask.training.checkpoint_format import (
    FORMAT,
    Damaged,
    checksum,
    load_checkpoint,
    save_checkpoint,
)
from multitask.utils.errors import UserError

STATES = {
    "model": {"encoder.weight": torch.arange(6.0).view(2, 3), "bias": torch.zeros(2)},
    "optimizer": {
        "index": 1,
        "state": {"0": {"step": torch.tensor(3.0), "exp_avg": torch.ones(2, 3)}, "1": {}},
        "param_groups": [{"lr": 0.1, "betas": [0.9, 0.98], "params": [0, 1]}],
    },
    "surgery": {},
}
PROGRESS = {
    "step": 7,
    "evaluated_at": 4,
    "trained": {"sst": 4},
    "skipped": {"qqp": 3},
    "sentences": 12.5,
    "seconds": 0.5,
    "wall_seconds": 1.5,
}
STATES["progress"] = PROGRESS
STATES["optimizer"] |= {"began_after": 2, "epochs_before": 0.5}
STATES["selection"] = {"best": {"joint": [0.5, 4, 0], "sst": [None, None, 1]}}
STATES["streams"] = {"sst": {"passes": 1, "position": 3}}


def check_same(actual, expected):
    assert set(actual) == set(expected)
    for key, value in expected.items():
        if isinstance(value, dict):
            check_same(actual[key], value)
        elif isinstance(value, torch.Tensor):
            assert torch.equal(actual[key], value) and actual[key].dtype == value.dtype
        else:
            assert actual[key] == value


def test_nested_states_come_back_as_they_were(tmp_path):
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 7, STATES, {"joint": 7})
    save_checkpoint(run, 7, STATES | {"model": {"bias": torch.ones(1)}}, {"joint": 7})
    first, second = run.saved_checkpoints()
    assert (first.name, second.name) == ("step-00000007", "step-00000007+")
    check_same(load_checkpoint(first), STATES)
    assert sorted(file.suffix for file in first.iterdir()) == [".json"] + 2 * [".safetensors"]
    assert list(load_checkpoint(second)["model"]) == ["bias"]


def rewrite(file, **values):
    """Change values of state.json, and its checksum with them."""
    saved = json.loads(file.read_text()) | values
    file.write_text(json.dumps(saved | {"checksum": checksum(saved)}))


@pytest.mark.parametrize("number", [2, FORMAT + 1, "4"])
def test_another_format_is_refused_with_its_number(tmp_path, number):
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 7, STATES, {"joint": 7})
    (path,) = run.saved_checkpoints()
    rewrite(path / "state.json", format=number)
    with pytest.raises(UserError, match=rf"another version of this program \(format {number}, not"):
        load_checkpoint(path)


@pytest.fixture
def saved(tmp_path):
    """A checkpoint."""
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 7, STATES, {"joint": 4})
    return run.saved_checkpoints()[0]


def test_a_flipped_bit_of_any_byte_is_noticed(saved):
    bits = 0
    for file in saved.iterdir():
        content = file.read_bytes()
        for place in range(0, len(content), 7):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            file.write_bytes(changed)
            with pytest.raises(Damaged, match=file.name.replace(".", r"\.")):
                load_checkpoint(saved)
            bits += 1
        file.write_bytes(content)
    assert bits > 100
    check_same(load_checkpoint(saved), STATES)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 5}', "[" * 10**5])
def test_a_state_that_is_none_is_damage(text, saved):
    (saved / "state.json").write_text(text)
    with pytest.raises(Damaged, match=r"state\.json is damaged"):
        load_checkpoint(saved)
