"""A GRU in both directions over sequences without pads: HIRE's recurrent part (section 3.2).

The parameters are those of ``nn.GRU``, and on a GPU cuDNN runs it. On a CPU it is run here, for
torch's own takes each step's rows out of one tensor by a slice of its own, whose gradient is a
tensor of the whole size: the backward pass grows with the square of the length.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from multitask.linear import linear
from multitask.poolers.base import check_lengths


def pack(hidden: Tensor, lengths: Tensor) -> PackedSequence:
    """[B, T, d] without its pads; ``lengths`` int64 [B] on the CPU. Raises as ``check_lengths``."""
    check_lengths(lengths)
    return pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)


def run_gru(gru: nn.GRU, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
    """Outputs, 2 H wide, and final states [layers * 2, B, H], as ``gru`` with two directions gives.

    With gradients in evaluation mode too. There cuDNN gives none, and SMART asks for them
    (`dropout: eval`): PyTorch's own GRU runs then. It also runs where torch traces the model, for
    a loop over lengths cannot be traced.
    """
    if packed.data.device.type == "cpu" and not torch.compiler.is_compiling():
        return _layer_by_layer(gru, packed)
    own = torch.is_grad_enabled() and not gru.training
    with torch.backends.cudnn.flags(enabled=False) if own else nullcontext():
        return gru(packed)


def _layer_by_layer(gru: nn.GRU, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
    data, sizes = packed.data, packed.batch_sizes.tolist()
    finals = []
    for layer in range(gru.num_layers):
        if layer:
            data = dropout(data, gru.dropout, gru.training)
        forward, backward = gru.all_weights[2 * layer : 2 * layer + 2]
        ahead, last = _one_direction(data, sizes, range(len(sizes)), *forward)
        back, first = _one_direction(data, sizes, range(len(sizes))[::-1], *backward)
        data = torch.cat([ahead, back], dim=-1)
        finals += [last, first]
    return packed._replace(data=data), torch.stack(finals)[:, packed.unsorted_indices]


def _one_direction(
    data: Tensor,
    sizes: list[int],
    order: Sequence[int],
    input_weight: Tensor,
    hidden_weight: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
) -> tuple[Tensor, Tensor]:
    """Packed rows [N, d], ``sizes[t]`` of them of time t -> states [N, H], last ones [B, H].

    r, z = sigmoid(W x + b + U h + c), n = tanh(W x + b + r * (U h + c)), h <- (1 - z) n + z h,
    with rows of W, b, U and c for r, z and n in turn, as in ``nn.GRU``; h is 0 at first.
    """
    width = hidden_weight.shape[1]
    parts = (2 * width, width)
    inputs = linear(data, input_weight, input_bias).split(sizes)
    state = data.new_zeros(0, width)  # of the rows' dtype under autocast too
    states, ended = list(inputs), []
    for time in order:
        more = sizes[time] - len(state)
        if more > 0:  # sequences that begin here
            state = torch.cat([state, state.new_zeros(more, width)])
        elif more < 0:  # sequences that ended before
            state, done = state.split((sizes[time], -more))
            ended.append(done)
        input_gates, input_new = inputs[time].split(parts, dim=-1)
        hidden_gates, hidden_new = linear(state, hidden_weight, hidden_bias).split(parts, dim=-1)
        reset, update = (input_gates + hidden_gates).sigmoid().chunk(2, dim=-1)
        new = torch.addcmul(input_new, reset, hidden_new).tanh()
        state = torch.addcmul(new, update, state - new)
        states[time] = state
    return torch.cat(states), torch.cat([state, *reversed(ended)])
