"""The compiled kernels against torch's operators and, with dropout, against naive formulas."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from multitask.models.encoders import bert, kernels, operators
from multitask.models.encoders.dropout import LEVELS, draws
from multitask.models.encoders.packing import Packing
from multitask.utils.names import KERNELS_VARIABLE
from tests.conftest import ROOT

LENGTHS = [1, 2, 7, 16, 17, 33]
RATE = 0.1

pytestmark = [
    pytest.mark.slow,  # a compiler's minute
    pytest.mark.usefixtures("built_kernels"),
]


def packing_of(lengths):
    return Packing(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def gradients(function, *inputs):
    inputs = [one.detach().clone().requires_grad_() for one in inputs]
    torch.manual_seed(3)
    out = function(*inputs)
    torch.manual_seed(4)
    out.backward(torch.randn(out.shape).to(out.dtype))
    return [out.detach(), *(one.grad for one in inputs)]


def close(actual, expected, tolerance):
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        scale = other.double().abs().max()
        assert (one.double() - other.double()).abs().max() <= tolerance * scale


@pytest.mark.parametrize("rate", [0.0, RATE, 0.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("dim", [20, 384])
def test_add_norm_is_that_of_torch_with_the_same_elements_dropped(rate, dtype, tolerance, dim):
    torch.manual_seed(0)
    given = (torch.randn(37, dim, dtype=dtype), torch.randn(37, dim) + 2)
    weights = (torch.randn(dim), torch.randn(dim))

    def run(function):
        def call(added, residual, weight, bias):
            norm = nn.LayerNorm(dim, eps=1e-12)
            del norm.weight, norm.bias
            norm.weight, norm.bias = weight, bias
            return function(added, residual, norm, rate)

        return gradients(call, *given, *weights)

    close(run(kernels.add_norm), run(operators.add_norm), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize(("heads", "dim"), [(1, 8), (3, 60), (12, 384), (2, 128)])
def test_attention_is_that_of_torch(dtype, tolerance, heads, dim):
    torch.manual_seed(0)
    packing = packing_of(LENGTHS)
    qkv = torch.randn(sum(LENGTHS), 3 * dim, dtype=dtype)
    bias = torch.randn(heads, 2 * max(LENGTHS) - 1)
    for more in ([], [bias]):  # without and with MPNet's bias
        actual = gradients(lambda x, *b: kernels.attention(x, packing, heads, 0.0, *b), qkv, *more)
        expected = gradients(
            lambda x, b=None: operators.attention(x.float(), packing, heads, 0.0, bias=b).to(dtype),
            qkv,
            *more,
        )
        close(actual, expected, tolerance)


def naive_attention(qkv, heads, factors):
    """float64; ``factors`` [h, n, n] of each sequence, in order of length."""
    out, start = [], 0
    for factor in factors:
        sequence = qkv[start : start + factor.shape[1]]
        start += factor.shape[1]
        q, k, v = (x.unflatten(1, (heads, -1)).transpose(0, 1) for x in sequence.chunk(3, dim=1))
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        out.append((weights * factor @ v).transpose(0, 1).flatten(1))
    return torch.cat(out)


def test_attention_drops_weights_and_scales_the_rest():
    torch.manual_seed(0)
    heads, packing = 3, packing_of(LENGTHS)
    qkv = torch.randn(sum(LENGTHS), 36)
    torch.manual_seed(3)  # as ``gradients``
    dropped = round(RATE * LEVELS)
    stay = draws(heads * sum(n * n for n in LENGTHS)) >= dropped - LEVELS // 2
    factors = stay.double() * LEVELS / (LEVELS - dropped)
    assert 0.85 < stay.double().mean() < 0.95
    parts = factors.split([heads * n * n for n in LENGTHS])
    parts = [one.view(heads, n, n) for one, n in zip(parts, LENGTHS, strict=True)]
    actual = gradients(lambda x: kernels.attention(x, packing, heads, RATE), qkv)
    expected = gradients(lambda x: naive_attention(x.double(), heads, parts).float(), qkv)
    close(actual, expected, 2e-6)


def test_a_build_is_reused_and_one_that_was_killed_holds_nobody_up(tmp_path):
    """Torch's loader would wait for ever for the lock of a build that is no more."""
    name = f"multitask_kernels_{torch.backends.cpu.get_cpu_capability().lower()}"
    for folder in (name, f"{name}_0.killed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lock").touch()
    load = "import os, torch\nfrom multitask.models.encoders.kernels import load_kernels\n"
    load += "{}load_kernels()\n"
    load += "torch.ops.multitask.attention"
    fails_first = "try:\n  load_kernels()\nexcept RuntimeError:\n  del os.environ['CXX']\n"
    changes = {"TORCH_EXTENSIONS_DIR": str(tmp_path), "CXX": "no-such-compiler"}
    for before in (fails_first, ""):
        command = [sys.executable, "-c", load.format(before)]
        subprocess.run(command, cwd=ROOT, env=os.environ | changes, timeout=300, check=True)
    assert len(list(tmp_path.glob("*.so"))) == 1
    assert sum(path.is_dir() for path in tmp_path.iterdir()) == 2


def test_what_is_not_finite_stays_so():
    packing = packing_of([3, 4])
    for bad in (math.nan, math.inf):
        qkv = torch.randn(7, 48)
        qkv[2, 40] = bad
        assert not kernels.attention(qkv, packing, 2, 0.0).isfinite().all()
        assert not kernels.add_norm(qkv, qkv, nn.LayerNorm(48), 0.0).isfinite().all()


def test_an_encoder_with_kernels_is_the_same_function():
    torch.manual_seed(0)
    encoder = bert.BertEncoder(vocab_size=50, dim=32, num_layers=2, heads=4, dropout=0.0,
                               attention_dropout=0.0)  # fmt: skip
    ids = torch.randint(50, (5, 9))
    mask = torch.arange(9) < torch.tensor([9, 3, 5, 1, 8])[:, None]

    factors = torch.randn(5, 9, 32)

    def states():
        encoder.zero_grad()
        actual = encoder.encode(encoder.embed(ids, torch.zeros_like(ids), mask), mask, (2,))[2]
        (actual * factors).mean().backward()
        return [actual.detach(), *(p.grad.clone() for p in encoder.parameters())]

    expected = states()
    encoder.use_kernels("compiled")
    close(states(), expected, 1e-5)


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """The directory of builds: an empty one, with no variable and nothing loaded."""
    monkeypatch.delenv(KERNELS_VARIABLE, raising=False)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "load_kernels", lambda again=True: None)
    return tmp_path


CPU = torch.device("cpu")


def test_auto_is_compiled_where_there_is_a_compiler(builds, monkeypatch):
    assert kernels.automatic(CPU) == ("compiled", "")
    assert kernels.automatic(torch.device("cuda")) == ("torch", "")
    monkeypatch.setattr(kernels.sys, "platform", "darwin")
    assert kernels.automatic(CPU) == ("torch", "")


def test_auto_is_torch_without_a_tool(builds, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    kind, reason = kernels.automatic(CPU)
    assert kind == "torch" and "no 'no-such-compiler' to build them: install it" in reason
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(kernels, "_search_path", lambda: str(builds))
    assert kernels.automatic(CPU)[0] == "torch"


def test_auto_does_not_try_again_what_has_failed(builds, monkeypatch):
    failed = kernels._failure(kernels._library())
    failed.write_text("no space left")
    monkeypatch.setattr(kernels, "load_kernels", lambda again=True: pytest.fail("tried again"))
    kind, reason = kernels.automatic(CPU)
    assert kind == "torch" and f"{failed} says why; delete it to try again" in reason


def test_the_variable_chooses_torch(builds, monkeypatch):
    monkeypatch.setenv(KERNELS_VARIABLE, "torch")
    assert kernels.automatic(CPU) == ("torch", "")


def test_a_failed_build_is_remembered_until_one_succeeds(tmp_path):
    code = """if True:
        import os, torch
        from multitask.models.encoders import kernels
        cpu = torch.device("cpu")
        os.environ["CXX"] = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "broken")
        kind, reason = kernels.automatic(cpu)
        assert kind == "torch" and "cannot be compiled" in reason, reason
        del os.environ["CXX"]
        kind, reason = kernels.automatic(cpu)
        assert kind == "torch" and "an earlier build has failed" in reason, reason
        kernels.load_kernels()  # `kernels: compiled` tries again
        assert kernels.automatic(cpu) == ("compiled", "")
        assert not kernels._failure(kernels._library()).exists()
    """
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != KERNELS_VARIABLE}
    environment["TORCH_EXTENSIONS_DIR"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
