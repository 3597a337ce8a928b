"""What a checkpoint holds and how old ones are read; kills and resumes are in test_resume.py."""

import json

import pytest
import torch

from multitask.config.run_directory import RunDirectory
from multitask.training.checkpoint import (
    FORMAT,
    SameData,
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
    "progress": {"step": 7, "trained": {"sst": 4}, "sentences": 12.5},
    "surgery": {},
}


def check_same(found, expected):
    assert set(found) == set(expected)
    for key, value in expected.items():
        if isinstance(value, dict):
            check_same(found[key], value)
        elif isinstance(value, torch.Tensor):
            assert torch.equal(found[key], value) and found[key].dtype == value.dtype
        else:
            assert found[key] == value


def test_nested_states_come_back_as_they_were(tmp_path):
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 7, STATES, {"joint": 7})
    save_checkpoint(run, 7, {"model": {"bias": torch.ones(1)}}, {"joint": 7})
    first, second = run.saved_checkpoints()
    assert (first.name, second.name) == ("step-00000007", "step-00000007+")
    check_same(load_checkpoint(first), STATES)
    assert sorted(file.suffix for file in first.iterdir()) == [".json"] + 2 * [".safetensors"]
    assert list(load_checkpoint(second)) == ["model"]


@pytest.mark.parametrize("number", [2, FORMAT + 1, "4"])
def test_another_format_is_refused_with_its_number(tmp_path, number):
    run = RunDirectory(tmp_path)
    save_checkpoint(run, 1, STATES, {"joint": 1})
    (path,) = run.saved_checkpoints()
    saved = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(saved | {"format": number}))
    with pytest.raises(UserError, match=rf"another version of this program \(format {number}, not"):
        load_checkpoint(path)


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


def test_a_run_goes_on_with_the_same_data_alone():
    data = SameData({"sst": "a", "qqp": "b"})
    data.load_state_dict(data.state_dict())
    data.load_state_dict({"sst": "a", "qqp": "b", "gone": "c"})
    with pytest.raises(UserError, match="the data of qqp are not those"):
        data.load_state_dict({"sst": "a"})
