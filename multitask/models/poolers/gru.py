"""A bidirectional GRU over sequences without pads: HIRE's recurrent part (section 3.2).

The parameters are those of ``nn.GRU``, and cuDNN runs it on a GPU. On a CPU the code below runs it:
torch's implementation slices each step's rows out of one tensor, and the gradient of each slice has
the size of that tensor, so the time of the backward pass grows with the square of the length.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from multitask.models.linear import linear
from multitask.models.poolers.base import check_lengths


def pack(hidden: Tensor, lengths: Tensor) -> PackedSequence:
    """Pack [B, T, d] without pads; ``lengths`` int64 [B] on the CPU, none 0 (``check_lengths``)."""
    check_lengths(lengths)
    return pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)


def final_states(gru: nn.GRU, packed: PackedSequence) -> Tensor:
    """Return the final states of each layer and direction, [layers * 2, B, H], as ``gru`` does."""
    if steps_here(packed):
        return _layer_by_layer(gru, packed, packed.batch_sizes.tolist())
    return _torchs(gru, packed)[1]


def first_outputs(gru: nn.GRU, packed: PackedSequence) -> Tensor:
    """Return the outputs of the first tokens [B, 2 H]; the last forward layer runs one step."""
    if steps_here(packed):
        finals = _layer_by_layer(gru, packed, packed.batch_sizes[:1].tolist())
        return torch.cat([finals[-2], finals[-1]], dim=-1)
    outputs, order = _torchs(gru, packed)[0], packed.unsorted_indices
    assert order is not None  # `pack` sorts the sequences
    # packed rows are ordered by time, so the first rows are the first tokens of all sequences
    return outputs.data[: len(order)][order]


def steps_here(packed: PackedSequence) -> bool:
    """Return True on a CPU, unless torch traces the model: it cannot trace a loop over lengths."""
    return packed.data.device.type == "cpu" and not torch.compiler.is_compiling()


def _torchs(gru: nn.GRU, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
    """Run torch's GRU, with gradients in evaluation mode too.

    SMART needs these (`dropout: eval`) and cuDNN does not give them, so cuDNN is disabled then.
    """
    without_cudnn = torch.is_grad_enabled() and not gru.training
    with torch.backends.cudnn.flags(enabled=False) if without_cudnn else nullcontext():
        return gru(packed)


def _layer_by_layer(gru: nn.GRU, packed: PackedSequence, ahead_sizes: list[int]) -> Tensor:
    """Return the final states; the last forward layer runs only the times of ``ahead_sizes``."""
    data, sizes = packed.data, packed.batch_sizes.tolist()
    finals = []
    for layer in range(gru.num_layers):
        top = layer == gru.num_layers - 1
        read = ahead_sizes if top else sizes
        forward, backward = gru.all_weights[2 * layer : 2 * layer + 2]
        ahead, last = _one_direction(data[: sum(read)], read, range(len(read)), *forward)
        back, first = _one_direction(data, sizes, range(len(sizes))[::-1], *backward)
        finals += [last, first]
        if not top:
            data = torch.cat([torch.cat(ahead), torch.cat(back)], dim=-1)
            data = dropout(data, gru.dropout, gru.training)
    return torch.stack(finals)[:, packed.unsorted_indices]


def _one_direction(
    data: Tensor,
    sizes: list[int],
    order: Sequence[int],
    input_weight: Tensor,
    hidden_weight: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
) -> tuple[list[Tensor], Tensor]:
    """Run one direction: packed rows [N, d], ``sizes[t]`` of time t -> states of each time
    [sizes[t], H], and the last states [B, H].

    r, z = sigmoid(W x + b + U h + c), n = tanh(W x + b + r * (U h + c)), h <- (1 - z) n + z h,
    with the rows of W, b, U and c for r, z and n in this order, as in ``nn.GRU``; h starts at 0.
    """
    width = hidden_weight.shape[1]
    parts = (2 * width, width)
    inputs = linear(data, input_weight, input_bias).split(sizes)
    state = data.new_zeros(0, width)  # has the rows' dtype under autocast too
    states, ended = list(inputs), []
    for time in order:
        more = sizes[time] - len(state)
        if more > 0:  # more sequences begin
            state = torch.cat([state, state.new_zeros(more, width)])
        elif more < 0:  # some sequences have ended
            state, finished = state.split((sizes[time], -more))
            ended.append(finished)
        input_gates, input_new = inputs[time].split(parts, dim=-1)
        hidden_gates, hidden_new = linear(state, hidden_weight, hidden_bias).split(parts, dim=-1)
        reset, update = (input_gates + hidden_gates).sigmoid().chunk(2, dim=-1)
        new = torch.addcmul(input_new, reset, hidden_new).tanh()
        state = torch.addcmul(new, update, state - new)
        states[time] = state
    return states, torch.cat([state, *reversed(ended)])
