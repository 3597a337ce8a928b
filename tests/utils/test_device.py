import pytest
import torch

from multitask.utils.device import use_autocast

CPU = torch.device("cpu")
SAPPHIRE_RAPIDS = {
    "cpu_name": "Intel Xeon",
    "avx512_bf16": True,
    "avx512_fp16": True,
    "amx_bf16": True,
}


@pytest.mark.parametrize(
    ("capabilities", "faster"),
    [
        (SAPPHIRE_RAPIDS, True),
        (SAPPHIRE_RAPIDS | {"amx_bf16": False}, False),  # as some virtual machines show it
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "avx512_fp16": False}, True),
        ({"cpu_name": "AMD EPYC 9B14", "avx512_bf16": True}, True),
        ({"cpu_name": "AMD", "avx512_bf16": True, "avx512_fp16": True}, True),
        ({"cpu_name": "AMD EPYC 7B13", "avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_auto_takes_bf16_where_a_cpu_is_faster_in_it(capabilities, faster, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert use_autocast("auto", CPU) is faster
    assert use_autocast("bf16", CPU)
    assert not use_autocast("fp32", CPU)
