"""Poolers on saved or new token states give the vectors of the complete model."""

import pytest
import torch

from multitask.config import load_config
from multitask.data.collate import collate, separate
from multitask.training import frozen_probe
from multitask.training.frozen_probe import TokenStates, splits_in_use
from multitask.training.setup import set_up
from tests.conftest import ROOT

CPU = torch.device("cpu")


@pytest.fixture
def prepared(tiny_overrides):
    def prepared(*changes):
        config = load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])
        return set_up(config, CPU, lambda line: None)

    return prepared


@pytest.mark.parametrize("task", ["sst", "qqp"])
@pytest.mark.parametrize("pooling", ["{name: max_seq_mha, last: 2}", "hire"])
@pytest.mark.parametrize("kept", [2**31, 0], ids=["kept", "encoded anew"])
@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_vectors_are_those_of_the_complete_model(
    prepared, task, pooling, kept, implementation, monkeypatch
):
    monkeypatch.setattr(frozen_probe, "STORED_BYTES", kept)
    monkeypatch.setattr(frozen_probe, "BATCH_SIZE", 7)
    changes = [f"tasks.{task}.pooling={pooling}", f"encoder.implementation={implementation}"]
    made = prepared(*changes, "training.precision=fp32")
    model, splits = made.model, made.data.splits[task]
    model.train()
    states = TokenStates(model, splits, pad_id=0, device=CPU)
    model.tasks.eval()
    passes = []
    encode = model.encoder.encode
    monkeypatch.setattr(
        model.encoder, "encode", lambda *g, **more: passes.append(g) or encode(*g, **more)
    )
    pooler = model.module(task).pooler
    for split in splits_in_use(splits):
        every = states(pooler, split, None)
        chosen = torch.tensor([3, 0, 11, 3])
        some = states(pooler, split, chosen)
        again = len(passes)
        torch.testing.assert_close(states(pooler, split, chosen), some)
        assert (len(passes) == again) == bool(kept)
        assert not every.isnan().any() and len(every) == len(splits[split].rows)
        torch.testing.assert_close(some, every[chosen], rtol=1e-4, atol=1e-5)
        for row in (0, 5):
            batch = collate(splits[split].tokens, chosen.new_tensor([row]).numpy(), pad_id=0)
            with torch.no_grad():
                vectors = model.pooled(separate({task: batch}))[task]
            torch.testing.assert_close(every[row], vectors, rtol=1e-4, atol=1e-5)


def test_gradients_reach_the_pooler_and_not_the_encoder(prepared):
    made = prepared("tasks.sst.pooling=mha")
    states = TokenStates(made.model, made.data.splits["sst"], pad_id=0, device=CPU)
    pooler = made.model.module("sst").pooler
    states(pooler, "train", torch.tensor([0, 1])).sum().backward()
    assert all(parameter.grad is not None for parameter in pooler.parameters())
    assert all(parameter.grad is None for parameter in made.model.encoder.parameters())
