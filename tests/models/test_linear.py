"""fp32 products against float64, and when torch's products are used."""

import pytest
import torch
from torch.nn import functional

from multitask.models import linear as module
from multitask.models.linear import Linear, linear, prefers_onednn

onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN"
)


@pytest.fixture
def calls(monkeypatch):
    """How often oneDNN was asked for a product; it is taken whatever the processor."""
    monkeypatch.setattr(module, "ONEDNN", True)
    seen = []

    def counted(*given):
        seen.append(given)
        return original(*given)

    original = module._product
    monkeypatch.setattr(module, "_product", counted)
    return seen


def given(dtype=torch.float32, rows=7, inner=24, outer=40):
    torch.manual_seed(0)
    shapes = ((rows, inner), (outer, inner), (outer,))
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def results(function, inputs):
    out = function(*inputs)
    torch.manual_seed(1)
    return [out, *torch.autograd.grad(out, inputs, torch.randn(out.shape).to(out.dtype))]


@onednn
@pytest.mark.parametrize("rows", [1, 7, 300])
def test_product_and_gradients_are_those_in_float64(calls, rows):
    single = given(rows=rows)
    actual = results(linear, single)
    expected = results(functional.linear, [x.detach().double().requires_grad_() for x in single])
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    assert len(calls) == 3


@onednn
def test_inputs_and_gradients_of_any_strides(calls):
    rows, weight, bias = given()
    wide = rows.detach().repeat(1, 2)[:, ::2].requires_grad_()
    out = linear(wide, weight[:8], bias[:8])  # as one part of query, key and value
    torch.testing.assert_close(out, functional.linear(wide, weight[:8], bias[:8]))
    torch.autograd.grad(out.sum(), [wide, weight])  # the gradient is one number, expanded
    assert len(calls) == 3


@onednn
def test_only_the_gradients_that_are_asked_for_are_computed(calls):
    rows, weight, bias = given()
    linear(rows, weight.detach(), bias.detach()).sum().backward()
    assert len(calls) == 2 and weight.grad is None
    torch.autograd.grad(linear(rows, weight, bias).sum(), rows)  # as SMART's ascent does
    assert len(calls) == 4
    linear(rows, weight, bias).sum().backward(inputs=[weight])
    assert len(calls) == 6
    with torch.no_grad():
        linear(rows, weight, bias)
    assert len(calls) == 7


@pytest.mark.parametrize(
    "how", ["double", "half", "autocast", "three axes", "elsewhere", "without oneDNN"]
)
def test_torch_computes_what_is_not_fp32_token_rows_on_a_cpu(calls, monkeypatch, how):
    dtypes = {"double": torch.float64, "half": torch.bfloat16}
    rows, weight, bias = given(dtypes.get(how, torch.float32))
    if how == "three axes":
        rows = rows[None]
    if how == "elsewhere":
        rows, weight, bias = (x.to("meta") for x in (rows, weight, bias))
    if how == "without oneDNN":
        monkeypatch.setattr(module, "ONEDNN", False)
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        actual, expected = linear(rows, weight, bias), functional.linear(rows, weight, bias)
    assert not calls and actual.dtype == expected.dtype and actual.shape == expected.shape
    if how != "elsewhere":
        assert torch.equal(actual, expected)


def test_the_layer_has_torchs_names_and_initial_values():
    torch.manual_seed(0)
    ours = Linear(5, 3).state_dict()
    torch.manual_seed(0)
    theirs = torch.nn.Linear(5, 3).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", ["mkldnn", "_C"])
def test_a_torch_without_the_private_functions_takes_its_usual_product(name, monkeypatch):
    assert module._has_private_parts()
    owner = torch.ops if name == "mkldnn" else torch
    monkeypatch.setattr(owner, name, object())
    assert not module._has_private_parts()


@pytest.mark.parametrize(
    ("capabilities", "faster"),
    [
        ({"cpu_name": "AMD EPYC 9B14", "avx512_f": True}, True),
        ({"cpu_name": "AMD EPYC 7B13", "avx512_f": False}, False),  # AVX2 alone
        ({"cpu_name": "Intel Xeon", "avx512_f": True, "amx_bf16": True}, False),
        ({"cpu_name": "Intel Xeon Gold 6154", "avx512_f": True}, False),
        ({"architecture": "arm64"}, False),
    ],
)
def test_onednn_is_chosen_by_vendor_and_capability(capabilities, faster):
    assert prefers_onednn(capabilities) is faster
