"""Padded batches: every id where it belongs, pads nowhere else."""

import numpy as np
import pytest
import torch

from multitask.data.collate import Batch, SharedBatch, by_task, collate, joined, separate
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
    batch = collate(tokens, np.array([1, 0]), pad_id=PAD)
    assert batch.input_ids.tolist() == [[2, 3, PAD], [2, 5, 3]]
    assert batch.attention_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.token_type_ids.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert (batch.rows, batch.sides) == (2, 1)
    alone = collate(tokens, np.array([2]), pad_id=PAD)
    assert alone.input_ids.tolist() == [[2, 5, 6, 7, 3]]
    assert alone.token_type_ids.tolist() == [[0, 0, 1, 1, 1]]
    assert alone.attention_mask.all()
    assert alone.labels is None


def test_siamese_batch_is_all_first_sides_then_all_second():
    tokens = tokens_of(
        [1], [2, 2], [3], [4, 4, 4], [5], [6], sides=2
    )  # rows (1, 4), (2, 5), (3, 6)
    batch = collate(tokens, np.array([2, 0]), pad_id=0)
    assert batch.input_ids.tolist() == [[3, 0, 0], [1, 0, 0], [6, 0, 0], [4, 4, 4]]
    assert batch.attention_mask.sum(1).tolist() == [1, 1, 1, 3]
    assert (batch.rows, batch.sides) == (2, 2)


@pytest.mark.parametrize(
    ("labels", "missing", "dtype", "labelled", "kept"),
    [
        (np.array([0, 1]), [0, 0], torch.int64, None, [0, 1]),
        (np.array([0.5, 1.0]), [0, 0], torch.float32, None, [0.5, 1.0]),
        (np.array([-1, 3]), [1, 0], torch.int64, [1], [3]),
        (np.array([0.5, np.nan]), [0, 1], torch.float32, [0], [0.5]),
        (np.array([-1, -1]), [1, 1], torch.int64, [], []),
    ],
)
def test_labels_and_types(labels, missing, dtype, labelled, kept):
    missing = np.array(missing, dtype=bool)
    bare = collate(tokens_of([1], [2]), np.array([0, 1]), pad_id=0)
    for tensor in (bare.input_ids, bare.attention_mask, bare.token_type_ids):
        assert tensor.dtype == torch.int64
    batch = bare.with_labels(labels, missing, share=0.25, step_rows=8)
    assert batch.input_ids is bare.input_ids
    assert (batch.gold.dtype, batch.gold.tolist(), batch.share, batch.step_rows) == (
        dtype,
        kept,
        0.25,
        8,
    )
    assert (batch.labelled if labelled is None else batch.labelled.tolist()) == labelled
    with pytest.raises(ValueError, match="no labels"):
        bare.gold  # noqa: B018


def test_batches_together_are_padded_to_the_longest():
    tokens = tokens_of([1, 2, 3], [4], kinds=[[0, 0, 1], [0]])
    parts = [collate(tokens, np.array([row]), pad_id=PAD) for row in (1, 0)]
    ids, kinds, mask = joined(parts)
    assert ids.tolist() == [[4, PAD, PAD], [1, 2, 3]]
    assert kinds.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1]]


def test_a_token_equal_to_the_pad_stays_a_token():
    """The mask goes by lengths, not by ids."""
    batch = collate(tokens_of([PAD, 1], [1]), np.array([0, 1]), pad_id=PAD)
    assert batch.attention_mask.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("sides", [1, 2])
def test_against_a_naive_loop(sides):
    rng = np.random.default_rng(3)
    rows = 30
    sequences = [rng.integers(1, 99, rng.integers(1, 20)).tolist() for _ in range(sides * rows)]
    kinds = [rng.integers(0, 2, len(ids)).tolist() for ids in sequences]
    tokens = tokens_of(*sequences, sides=sides, kinds=kinds)
    index = rng.permutation(rows)[:11]
    batch = collate(tokens, index, pad_id=0)
    picked = [side * rows + row for side in range(sides) for row in index]
    width = max(len(sequences[i]) for i in picked)
    for result, source in ((batch.input_ids, sequences), (batch.token_type_ids, kinds)):
        assert result.tolist() == [source[i] + [0] * (width - len(source[i])) for i in picked]
    assert batch.attention_mask.sum(1).tolist() == [len(sequences[i]) for i in picked]


def test_to_moves_everything():
    ones = torch.ones(2)
    batch = Batch(*torch.ones(3, 4, 2, dtype=torch.int64), ones, 2, 0, labelled=ones, share=0.5)
    moved = batch.to(torch.device("meta"))
    tensors = (moved.input_ids, moved.attention_mask, moved.token_type_ids, moved.labels)
    tensors += (moved.labelled,)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert (moved.rows, moved.sides, moved.share) == (2, 2, 0.5)
    batch.labels = None
    assert batch.to(torch.device("meta")).labels is None


def test_shared_rows_and_separate_ones_by_task():
    one, two, three = (collate(tokens_of([1], [2]), np.array([0, 1]), pad_id=0) for _ in range(3))
    shared = [SharedBatch(one, {"mood": one, "stars": two}), *separate({"more": three})]
    assert list(by_task(shared).items()) == [("mood", one), ("stars", two), ("more", three)]
    assert [batch.inputs for batch in shared] == [one, three]
