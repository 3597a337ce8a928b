"""Padded batches: every id where it belongs, pads nowhere else."""

import numpy as np
import pytest
import torch

from multitask.data.collate import Batch, collate
from multitask.data.tokenize import Tokens

PAD = 9


def tokens_of(
    *sequences: list[int], sides: int = 1, kinds: list[list[int]] | None = None
) -> Tokens:
    kinds = kinds or [[0] * len(ids) for ids in sequences]
    return Tokens(
        ids=np.concatenate([np.array(ids, dtype=np.int32) for ids in sequences]),
        types=np.concatenate([np.array(row, dtype=np.int8) for row in kinds]),
        offsets=np.cumsum([0, *map(len, sequences)]),
        truncated=np.zeros(len(sequences), dtype=bool),
        sides=sides,
    )


def test_rows_are_padded_to_the_longest_among_them():
    tokens = tokens_of(
        [2, 5, 3], [2, 3], [2, 5, 6, 7, 3], kinds=[[0, 0, 1], [0, 0], [0, 0, 1, 1, 1]]
    )
    batch = collate(tokens, np.array([4, 5, 6]), np.array([1, 0]), pad_id=PAD)
    assert batch.input_ids.tolist() == [[2, 3, PAD], [2, 5, 3]]
    assert batch.attention_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.token_type_ids.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert batch.labels.tolist() == [5, 4]
    assert (batch.rows, batch.sides) == (2, 1)
    alone = collate(tokens, None, np.array([2]), pad_id=PAD)
    assert alone.input_ids.tolist() == [[2, 5, 6, 7, 3]]
    assert alone.token_type_ids.tolist() == [[0, 0, 1, 1, 1]]
    assert alone.attention_mask.all()
    assert alone.labels is None


def test_siamese_batch_is_all_first_sides_then_all_second():
    tokens = tokens_of(
        [1], [2, 2], [3], [4, 4, 4], [5], [6], sides=2
    )  # rows (1, 4), (2, 5), (3, 6)
    batch = collate(tokens, np.array([0.0, 1.5, 5.0]), np.array([2, 0]), pad_id=0)
    assert batch.input_ids.tolist() == [[3, 0, 0], [1, 0, 0], [6, 0, 0], [4, 4, 4]]
    assert batch.attention_mask.sum(1).tolist() == [1, 1, 1, 3]
    assert batch.labels.tolist() == [5.0, 0.0]
    assert (batch.rows, batch.sides) == (2, 2)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [(np.array([0, 1]), torch.int64), (np.array([0.5, 1.0]), torch.float32)],
)
def test_types(labels, dtype):
    batch = collate(tokens_of([1], [2]), labels, np.array([0, 1]), pad_id=0)
    for tensor in (batch.input_ids, batch.attention_mask, batch.token_type_ids):
        assert tensor.dtype == torch.int64
    assert batch.labels.dtype == dtype


def test_a_token_equal_to_the_pad_stays_a_token():
    """The mask goes by lengths, not by ids."""
    batch = collate(tokens_of([PAD, 1], [1]), None, np.array([0, 1]), pad_id=PAD)
    assert batch.attention_mask.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("sides", [1, 2])
def test_against_a_naive_loop(sides):
    rng = np.random.default_rng(3)
    rows = 30
    sequences = [rng.integers(1, 99, rng.integers(1, 20)).tolist() for _ in range(sides * rows)]
    kinds = [rng.integers(0, 2, len(ids)).tolist() for ids in sequences]
    tokens = tokens_of(*sequences, sides=sides, kinds=kinds)
    index = rng.permutation(rows)[:11]
    batch = collate(tokens, None, index, pad_id=0)
    picked = [side * rows + row for side in range(sides) for row in index]
    width = max(len(sequences[i]) for i in picked)
    for found, source in ((batch.input_ids, sequences), (batch.token_type_ids, kinds)):
        assert found.tolist() == [source[i] + [0] * (width - len(source[i])) for i in picked]
    assert batch.attention_mask.sum(1).tolist() == [len(sequences[i]) for i in picked]


def test_to_moves_everything():
    batch = Batch(*torch.ones(3, 4, 2, dtype=torch.int64), torch.ones(2), sides=2)
    moved = batch.to(torch.device("meta"))
    tensors = (moved.input_ids, moved.attention_mask, moved.token_type_ids, moved.labels)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert (moved.rows, moved.sides) == (2, 2)
    batch.labels = None
    assert batch.to(torch.device("meta")).labels is None
