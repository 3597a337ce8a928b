"""A checkpoint's content and how old ones are read; kills and resumes are in test_resume.py."""

import json

import pytest
import torch

from multitask.config.run_directory import RunDirectory
from multitask.training.checkpoint_format import (
    FORMAT,
    Damaged,
    checksum,
    from_format_3,
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


def test_a_checkpoint_of_format_4_has_no_checksum_of_its_state(saved):
    state = json.loads((saved / "state.json").read_text())
    del state["checksum"]
    (saved / "state.json").write_text(json.dumps(state))
    with pytest.raises(Damaged):
        load_checkpoint(saved)
    (saved / "state.json").write_text(json.dumps(state | {"format": 4}))
    check_same(load_checkpoint(saved), STATES)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("progress", "step", 10**9),
        ("progress", "step", 6),
        ("progress", "evaluated_at", 8),
        ("progress", "evaluated_at", -1),
        ("progress", "trained", {"sst": 1.5}),
        ("progress", "skipped", {"sst": 999}),
        ("progress", "seconds", -1.0),
        ("progress", "wall_seconds", float("inf")),
        ("optimizer", "epochs_before", -0.5),
        ("optimizer", "began_after", 999),
        ("optimizer", "index", 8),
        ("selection", "best", {"joint": [0.5, 99, 0]}),
        ("streams", "sst", {"passes": 10**9, "position": 0}),
    ],
)
def test_numbers_that_no_run_has_are_damage(part, key, value, saved):
    """In an older checkpoint, whose state has no checksum."""
    state = json.loads((saved / "state.json").read_text())
    state["parts"][part][key] = value
    del state["checksum"]
    (saved / "state.json").write_text(json.dumps(state | {"format": 4}))
    with pytest.raises(Damaged, match="that no run has"):
        load_checkpoint(saved)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 5}', "[" * 10**5])
def test_a_state_that_is_none_is_damage(text, saved):
    (saved / "state.json").write_text(text)
    with pytest.raises(Damaged, match=r"state\.json is damaged"):
        load_checkpoint(saved)


def test_format_3_becomes_the_states_of_the_parts():
    one, two = torch.ones(2), torch.zeros(2)
    tensors = {
        "model": {"encoder.weight": one},
        "optimizer": {"0.step": one, "0.exp_avg": two, "12.step": one},
        "rng": {"0.cpu": one, "1.cpu": two},
        "seen": {"sst.0": one, "sst.1": two},
        "surgery": {"sst.qqp": one},
    }
    selection = {"best": {"joint": [0.5, 3, 0]}}
    saved = {
        "step": 5,
        "stage": {"index": 1, "began": 3, "epochs_before": 1.0, "train_scores": {"sst": 0.5}},
        "evaluated_at": 3,
        "trained": {"sst": 5},
        "skipped": {},
        "sentences": 80.0,
        "seconds": 1.5,
        "wall_seconds": 2.5,
        "optimizer": [{"lr": 0.1}],
        "scheduler": {"last_epoch": 5},
        "streams": {"sst": {"passes": 0, "position": 2}},
        "selection": selection,
        "log_size": 99,
        "data": {"sst": "hash"},
    }
    states = from_format_3(tensors, saved)
    assert states["optimizer"]["state"] == {
        "0": {"step": one, "exp_avg": two},
        "12": {"step": one},
    }
    assert (states["optimizer"]["index"], states["optimizer"]["began_after"]) == (1, 3)
    assert states["optimizer"]["param_groups"] == [{"lr": 0.1}]
    assert states["rng"] == {"0": {"cpu": one}, "1": {"cpu": two}}
    assert states["turns"] == {
        "train_scores": {"sst": 0.5},
        "seen": {"sst": {"scores": one, "labels": two}},
    }
    assert states["surgery"] == {"sst.qqp": one}
    assert states["progress"]["step"] == 5 and states["progress"]["wall_seconds"] == 2.5
    assert states["log"] == {"size": 99} and states["selection"] is selection
    assert states["data"] == {"sst": "hash"} and states["teacher"] == {}
