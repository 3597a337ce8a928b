import numpy as np
import pytest
import torch

from multitask.utils.device import (
    autocast,
    autocast_dtype,
    emulates_bf16,
    gpu_facts,
    pick_device,
    send,
)
from multitask.utils.errors import UserError

CPU = torch.device("cpu")
XEON = {"cpu_name": "Intel Xeon", "avx512_bf16": True}
SAPPHIRE_RAPIDS = XEON | {"avx512_fp16": True, "amx_bf16": True}


@pytest.mark.parametrize(
    ("capabilities", "faster"),
    [
        (SAPPHIRE_RAPIDS, True),
        (SAPPHIRE_RAPIDS | {"amx_bf16": False}, False),  # as some virtual machines show it
        (XEON | {"avx512_fp16": False}, True),
        ({"cpu_name": "AMD EPYC 9B14", "avx512_bf16": True}, True),
        ({"cpu_name": "AMD", "avx512_bf16": True, "avx512_fp16": True}, True),
        ({"cpu_name": "AMD EPYC 7B13", "avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_auto_takes_bf16_where_a_cpu_is_faster_in_it(capabilities, faster, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert autocast_dtype("auto", CPU) == (torch.bfloat16 if faster else None)
    assert autocast_dtype("bf16", CPU) == torch.bfloat16
    assert autocast_dtype("fp16", CPU) == torch.float16
    assert autocast_dtype("fp32", CPU) is None


@pytest.mark.parametrize(
    ("card", "bf16", "expected"),
    [
        ((8, 0), True, torch.bfloat16),  # A100
        ((7, 5), False, torch.float16),  # T4
        ((7, 0), False, torch.float16),  # V100
        ((6, 1), False, None),  # GTX 1080
    ],
)
def test_auto_on_a_card(card, bf16, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: card)
    assert autocast_dtype("auto", torch.device("cuda")) == expected
    assert emulates_bf16(torch.device("cuda")) is not bf16


def test_arrays_are_sent_in_one_transfer():
    arrays = [np.arange(6).reshape(2, 3), np.array([7]), np.zeros((0, 2), dtype=np.int64)]
    for device in ("cpu", "meta"):
        sent = send(arrays, torch.device(device))
        assert [tuple(tensor.shape) for tensor in sent] == [(2, 3), (1,), (0, 2)]
    assert torch.equal(send(arrays, CPU)[0], torch.tensor([[0, 1, 2], [3, 4, 5]]))


def test_autocast_to_nothing_does_nothing():
    with autocast(torch.device("meta"), None):
        assert not torch.is_autocast_enabled("cpu")
    with autocast(CPU, torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("name", ["auto", "cuda"])
@pytest.mark.parametrize("rank", [None, "1"])
def test_a_gpu_has_its_number_and_fp32_means_fp32(name, rank, monkeypatch):
    """torch.cuda.set_device refuses a device without a number."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert pick_device(name) == torch.device("cuda", int(rank or 0))
    assert not torch.backends.cudnn.allow_tf32


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UserError, match="2 processes, and this machine has 1 GPUs"):
        pick_device("auto")


def test_facts_of_a_card(monkeypatch):
    assert gpu_facts(CPU) is None
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**29)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    facts = {"name": "Tesla T4", "cuda": "13.0", "peak_memory_gib": 1.5}
    assert gpu_facts(torch.device("cuda", 0)) == facts
