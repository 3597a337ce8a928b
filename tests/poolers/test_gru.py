"""The GRU on a CPU against PyTorch's own, which it stands for."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from multitask.poolers.gru import pack, run_gru

CASES = {"mixed": [5, 2, 7, 1, 7], "equal": [3, 3], "single": [4], "one token": [1, 1, 1]}


def made(layers, dropout=0.0, dim=6, width=4):
    torch.manual_seed(0)
    return nn.GRU(dim, width, layers, batch_first=True, bidirectional=True, dropout=dropout)


def results(function, gru, lengths, amp=False):
    """Outputs, final states and the gradients by rows and parameters."""
    torch.manual_seed(1)
    parameters = list(gru.parameters())
    size = (len(lengths), max(lengths) + 2, gru.input_size)
    rows = torch.randn(size, dtype=parameters[0].dtype, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        outputs, final = function(pack(rows, torch.tensor(lengths)))
    torch.manual_seed(2)
    loss = (outputs.data * torch.randn(outputs.data.shape)).sum()
    loss = loss + (final * torch.randn(final.shape)).sum()
    return [outputs.data, final, *torch.autograd.grad(loss, [rows, *parameters])]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("lengths", CASES.values(), ids=CASES)
def test_is_torchs_gru(layers, lengths):
    gru = made(layers, dropout=0.5 if layers > 1 else 0.0)  # the same numbers are dropped
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        gru.to(dtype)
        found = results(lambda packed: run_gru(gru, packed), gru, lengths)
        expected = results(gru, gru, lengths)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=bound, atol=bound)


def test_is_torchs_gru_under_autocast():
    gru = made(2, dim=48, width=32)
    lengths = CASES["mixed"]
    found = results(lambda packed: run_gru(gru, packed), gru, lengths, amp=True)
    torchs = results(gru, gru, lengths, amp=True)
    exact = results(gru, gru, lengths)
    for one, other, true in zip(found, torchs, exact, strict=True):
        assert one.dtype == other.dtype
        wrong, torchs_wrong = ((x - true).abs().mean().item() for x in (one, other))
        assert 0 < wrong < 1.5 * torchs_wrong


class Written(TorchDispatchMode):
    """Numbers in all tensors that operations gave."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.numbers += sum(x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor))
        return out


def test_the_work_grows_with_the_length_not_with_its_square():
    def written(function, length):
        with Written() as seen:
            results(function, gru, [length] * 8)
        return seen.numbers

    gru = made(2)
    assert written(lambda packed: run_gru(gru, packed), 80) < 2.1 * written(
        lambda packed: run_gru(gru, packed), 40
    )
    assert written(gru, 80) > 3 * written(gru, 40)  # what torch's own does: else ours can go


def test_gradients_in_evaluation_mode_and_none_where_none_are_asked_for():
    gru = made(2, dropout=0.5).eval()
    packed = pack(torch.randn(2, 3, 6, requires_grad=True), torch.tensor([3, 2]))
    assert run_gru(gru, packed)[1].requires_grad
    with torch.no_grad():
        assert not run_gru(gru, packed)[1].requires_grad
