"""The micro-batches of a step: rows, shares, streams that move. Tags, answers and masked tokens
are drawn in tests/models/test_head_checks.py and tests/runs/test_masked_lm_model.py."""

import numpy as np
import pytest
import torch

from multitask.config.registry import task_type
from multitask.data.batch_sampler import TaskStream
from multitask.data.collate import by_task
from multitask.data.dataloader import MultiTaskLoader, TrainRows
from multitask.data.tokenize import Tokens

KINDS = {"mood": task_type("class"), "stars": task_type("number"), "more": task_type("class")}


def tokens(rows):
    ids = [np.arange(5, 6 + row % 4, dtype=np.int32) for row in range(rows)]
    offsets = np.cumsum([0, *map(len, ids)])
    joined = np.concatenate(ids)
    return Tokens(joined, np.zeros_like(joined), offsets, np.zeros(rows, bool), 1)


@pytest.fixture
def loader():
    stars = np.array([1.0, np.nan, 2.0, 3.0, np.nan])
    labels = {"mood": np.arange(5), "stars": stars}
    both, more = tokens(5), tokens(4)
    loaders = {
        "mood": TrainRows(both, labels, KINDS, TaskStream("mood", both.lengths, 2, 3, seed=1)),
        "more": TrainRows(
            more, {"more": np.arange(4)}, KINDS, TaskStream("more", more.lengths, 4, 1, 1)
        ),
    }
    return MultiTaskLoader(loaders, pad_id=0, device=torch.device("cpu"))


def test_tasks_on_the_same_rows_share_their_inputs(loader):
    assert loader.members == {"mood": ["mood", "stars"], "more": ["more"]}
    steps = loader.next(["mood", "stars", "more"])
    assert [len(micro_batch) for micro_batch in steps] == [2, 1, 1]
    first, alone = steps[0]
    assert set(first.tasks) <= {"mood", "stars"} and set(alone.tasks) == {"more"}
    for micro_batch in steps:
        for shared in micro_batch:
            for batch in shared.tasks.values():
                assert batch.input_ids is shared.inputs.input_ids


def test_shares_of_a_step_add_up_and_count_labels(loader):
    batches = [by_task(micro_batch) for micro_batch in loader.next(["mood", "stars"])]
    for task, count in (("mood", 5), ("stars", 3)):
        parts = [result[task] for result in batches if task in result]
        assert {batch.step_rows for batch in parts} == {count}
        assert sum(batch.share for batch in parts) == pytest.approx(1)
        assert sum(len(batch.gold) for batch in parts) == count


def test_only_the_streams_of_the_given_tasks_move(loader):
    before = loader.state_dict()
    result = loader.next(["stars"])
    assert all(set(by_task(micro_batch)) == {"stars"} for micro_batch in result)
    assert loader.state_dict()["more"] == before["more"]
    assert loader.state_dict()["mood"] != before["mood"]
    assert loader.next([]) == []


def test_a_restored_loader_draws_the_same_rows(loader):
    loader.next(["mood"])
    state = loader.state_dict()
    drawn = [by_task(one)["mood"].gold.tolist() for one in loader.next(["mood"])]
    loader.load_state_dict(state)
    assert [by_task(one)["mood"].gold.tolist() for one in loader.next(["mood"])] == drawn


def test_a_sample_moves_no_stream_and_has_labels(loader):
    before = loader.state_dict()
    one, two = (loader.sample(["stars", "more"], seed=(3, 4)) for _ in range(2))
    assert list(one) == ["stars", "more"] and len(one["stars"].gold) == 2
    assert torch.equal(one["stars"].input_ids, two["stars"].input_ids)
    assert loader.state_dict() == before
