"""Packing loses and mixes nothing, whatever the lengths and wherever the pads stand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multitask.models.encoders.packing import SLACK, STORED, STRETCH, Packing


@st.composite
def masks(draw):
    """Rows with at least one token, pads anywhere."""
    width = draw(st.integers(1, 12))
    rows = draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1,
                         max_size=8))  # fmt: skip
    mask = torch.tensor(rows)
    mask[:, draw(st.integers(0, width - 1))] = True
    return mask.long()


def numbered(mask):
    """A batch [B, T, 2] of different numbers, zero at pads."""
    values = torch.arange(1.0, 2 * mask.numel() + 1).view(*mask.shape, 2)
    return values * mask.unsqueeze(-1)


@given(masks())
def test_packed_and_unpacked_is_the_same_batch(mask):
    packing, batch = Packing(mask), numbered(mask)
    packed = packing.pack(batch)
    assert packed.shape == (int(mask.sum()), 2)
    assert torch.equal(packing.unpack(packed), batch)
    lengths = sorted(mask.sum(1).tolist())
    rows = [batch[i][mask[i] != 0] for i in mask.sum(1).argsort(stable=True)]
    assert torch.equal(packed, torch.cat(rows))  # whole sequences, shortest first
    assert packing.positions.tolist() == [p for length in lengths for p in range(length)]


@given(masks())
def test_first_tokens_come_back_in_the_order_of_the_batch(mask):
    packing, batch = Packing(mask), numbered(mask)
    actual = packing.in_batch_order(packing.pack(batch)[packing.first])
    expected = [row[inside != 0][0] for row, inside in zip(batch, mask, strict=True)]
    assert torch.equal(actual, torch.stack(expected))


@given(masks())
def test_groups_cover_every_token_once_and_stay_narrow(mask):
    packing, batch = Packing(mask), numbered(mask)
    packed = packing.pack(batch)
    assert torch.equal(
        torch.cat([group.unpad(group.pad(packed)) for group in packing.groups]), packed
    )
    row = token = 0
    lengths = sorted(mask.sum(1).tolist())
    for group in packing.groups:
        members = lengths[group.rows]
        assert (group.rows.start, group.tokens.start) == (row, token)
        assert group.max_seqlen == members[-1] <= STRETCH * members[0] + SLACK
        padded = group.pad(packed)
        assert padded.shape == (len(members), group.max_seqlen, 2)
        assert [(part != 0).any(-1).sum().item() for part in padded] == members
        assert (group.mask is None) == (group.slots is None) == (members[0] == members[-1])
        if group.mask is not None:
            assert torch.equal(group.mask.squeeze(1).squeeze(1), (padded != 0).any(-1))
        row, token = group.rows.stop, group.tokens.stop
    assert (row, token) == (len(mask), len(packed))


def test_gradients_go_back_to_the_places_they_came_from():
    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    packing = Packing(mask)
    batch = torch.randn(4, 4, 3, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        packed = packing.pack(x)
        grouped = torch.cat([group.unpad(group.pad(packed) ** 2) for group in packing.groups])
        return packing.unpack(grouped), packing.in_batch_order(grouped[packing.first])

    assert torch.autograd.gradcheck(there_and_back, batch)


def test_a_sequence_without_tokens_is_an_error():
    with pytest.raises(ValueError, match="a sequence without tokens"):
        Packing(torch.tensor([[1, 1], [0, 0]]))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 3))
def test_lengths_say_what_a_mask_says(lengths, more):
    mask = (torch.arange(max(lengths) + more) < torch.tensor(lengths)[:, None]).long()
    read, told = Packing(mask), Packing(mask, np.array(lengths))
    for name in ("slots", "positions", "first", "cu_seqlens"):
        assert torch.equal(getattr(read, name), getattr(told, name)), name
    assert read.shape == told.shape and read.squares == told.squares


@given(masks())
def test_padded_for_a_gpu(mask):
    packing = Packing(mask)
    packed = packing.pack(numbered(mask))
    padded = packing.padded
    places = packed.index_select(0, padded.rows)
    assert torch.equal(places.index_select(0, padded.slots), packed)
    bias = padded.bias(torch.float64)
    assert bias.shape == (len(mask), 1, 1, padded.max_seqlen)
    assert (bias == 0).sum(-1).flatten().tolist() == sorted(mask.sum(1).tolist())
    assert bias.stride()[0] % STORED == 0 and padded.bias(torch.float64) is bias
    rows = places.view(len(mask), padded.max_seqlen, 2)
    for row, start, length in zip(rows, packing.first.tolist(), packing.seqlens, strict=True):
        assert torch.equal(row[:length], packed[start : start + length])
        assert torch.equal(row[length:], packed[:1].expand(padded.max_seqlen - length, 2))
