"""The GRU on a CPU against PyTorch's, which it replaces."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_packed_sequence
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from multitask.models.poolers.gru import final_states, first_outputs, pack

CASES = {"mixed": [5, 2, 7, 1, 7], "equal": [3, 3], "single": [4], "one token": [1, 1, 1]}


def made(layers, dropout=0.0, dim=6, width=4):
    torch.manual_seed(0)
    return nn.GRU(dim, width, layers, batch_first=True, bidirectional=True, dropout=dropout)


def torchs_first(gru, packed):
    return pad_packed_sequence(gru(packed)[0], batch_first=True)[0][:, 0]


def torchs_final(gru, packed):
    return gru(packed)[1]


OURS, TORCHS = (first_outputs, final_states), (torchs_first, torchs_final)


def results(functions, gru, lengths, amp=False):
    """Of each function what it gives, and the gradients by rows and parameters."""
    parameters = list(gru.parameters())
    size = (len(lengths), max(lengths) + 2, gru.input_size)
    result = []
    for function in functions:
        torch.manual_seed(1)
        rows = torch.randn(size, dtype=parameters[0].dtype, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            output = function(gru, pack(rows, torch.tensor(lengths)))
        torch.manual_seed(2)
        loss = (output * torch.randn(output.shape)).sum()
        result += [output, *torch.autograd.grad(loss, [rows, *parameters])]
    return result


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("lengths", CASES.values(), ids=CASES)
def test_is_torchs_gru(layers, lengths):
    gru = made(layers, dropout=0.5 if layers > 1 else 0.0)  # the same numbers are dropped
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        gru.to(dtype)
        actual = results(OURS, gru, lengths)
        expected = results(TORCHS, gru, lengths)
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=bound, atol=bound)


def test_is_torchs_gru_under_autocast():
    gru = made(2, dim=48, width=32)
    lengths = CASES["mixed"]
    actual = results(OURS, gru, lengths, amp=True)
    expected = results(TORCHS, gru, lengths, amp=True)
    exact = results(TORCHS, gru, lengths)
    for one, other, true in zip(actual, expected, exact, strict=True):
        assert one.dtype == other.dtype
        wrong, torchs_wrong = ((x - true).abs().mean().item() for x in (one, other))
        # a first state has no rows behind it: the gradient by its weight is 0 in both
        assert 0 < wrong < 1.5 * torchs_wrong or (wrong == 0 and not true.any())


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
    def written(functions, length):
        with Written() as seen:
            results(functions, gru, [length] * 8)
        return seen.numbers

    gru = made(2)
    assert written(OURS, 80) < 2.1 * written(OURS, 40)
    assert written(TORCHS, 80) > 3 * written(TORCHS, 40)  # what torch's GRU does: else ours can go


@pytest.mark.parametrize("layers", [1, 2])
def test_the_first_outputs_take_one_step_ahead_in_the_last_layer(layers):
    gru, lengths = made(layers, dim=6, width=4).double(), [5, 2, 3]
    packed = pack(torch.randn(3, 5, 6).double(), torch.tensor(lengths))
    operations = []
    for function in (final_states, first_outputs):
        with FlopCounterMode(display=False) as counter:
            function(gru, packed)
        operations.append(counter.get_total_flops())
    wide = 6 if layers == 1 else 2 * 4
    left_out = sum(lengths) - len(lengths)  # tokens after the first ones
    assert operations[0] - operations[1] == left_out * 2 * 3 * 4 * (wide + 4)


def test_gradients_in_evaluation_mode_and_none_where_none_are_asked_for():
    gru = made(2, dropout=0.5).eval()
    packed = pack(torch.randn(2, 3, 6, requires_grad=True), torch.tensor([3, 2]))
    assert final_states(gru, packed).requires_grad
    with torch.no_grad():
        assert not final_states(gru, packed).requires_grad
