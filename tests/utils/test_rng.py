"""Random states: the same numbers twice, on every kind of device."""

import pytest
import torch

from multitask.utils.rng import pack_rng, replayed, unpack_rng


def test_the_same_numbers_twice_and_then_the_next():
    torch.manual_seed(1)
    states = pack_rng()
    first = torch.rand(3)
    with replayed(states):
        assert torch.equal(torch.rand(3), first)
    second = torch.rand(3)
    unpack_rng(states)
    assert torch.equal(torch.rand(6), torch.cat([first, second]))


def test_the_random_state_of_apples_gpu_is_saved(monkeypatch: pytest.MonkeyPatch):
    state = [torch.tensor([7], dtype=torch.uint8)]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda new: state.__setitem__(0, new))
    packed = pack_rng()
    state[0] = torch.tensor([8], dtype=torch.uint8)
    unpack_rng(packed)
    assert state[0].tolist() == [7]
