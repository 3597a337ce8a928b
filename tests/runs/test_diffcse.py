"""DiffCSE as a task: its batches, a run."""

import numpy as np
import pytest
import torch
import transformers

import run_multitask
from multitask import load
from multitask.data.collate import by_task
from multitask.utils.errors import UserError
from tests.support.contrastive_run import prepared, write_config
from tests.support.losses import task_losses
from tests.support.run_files import events
from tests.support.tiny_bert import save_tiny_mlm


@pytest.fixture(scope="module")
def generator(tmp_path_factory):
    return save_tiny_mlm(tmp_path_factory.mktemp("generator"))


@pytest.fixture(scope="module")
def config(tiny_encoder, contrastive_files, generator, tmp_path_factory):
    head = f"{{name: diffcse, generator: {generator}, mlp_only_train: true, rtd_weight: 0.5}}"
    file = tmp_path_factory.mktemp("config") / "c.yaml"
    return write_config(file, tiny_encoder, contrastive_files, "single", head, "mean")


def test_a_batch_has_the_texts_and_the_same_masked(config):
    made = prepared(config)
    (result,) = made.loader.next(["views"])
    batch = by_task(result)["views"]
    first, second = batch.input_ids.chunk(2)
    one, other = batch.masked_ids.chunk(2)
    assert torch.equal(first, second) and not torch.equal(one, other)  # other masks
    changed = batch.masked_ids != batch.input_ids
    special = batch.input_ids < 5
    assert not changed[special].any()
    share = changed.sum() / (~special).sum()
    assert 0.15 < share < 0.4  # of .3, a tenth stays as it is
    labels = batch.labels
    assert labels.shape == (16, 1) and batch.places is None


def test_the_detection_trains_the_encoder_and_leaves_the_generator_alone(config):
    made = prepared(config, "tasks.views.head.rtd_weight=1000.0", "encoder.dropout=0")
    (batches,) = made.loader.next(["views"])
    model = made.model.train()
    head = model.head("views")
    pooled = model.pooled(batches)["views"]
    loss, _ = model.loss("views", by_task(batches)["views"], pooled)
    loss.backward()
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())
    (filler,) = head._generator
    assert all(p.grad is None for p in filler.parameters())
    assert not {id(p) for p in filler.parameters()} & {id(p) for p in model.parameters()}
    complete = task_losses(model, batches)["views"].loss
    assert complete > 10  # both terms are in it


@pytest.fixture(scope="module")
def run_dir(config, tmp_path_factory):
    """A finished run of 12 steps."""
    directory = tmp_path_factory.mktemp("diffcse") / "run"
    assert run_multitask.main([*command(config), f"output_dir={directory}"]) == 0
    return directory


def command(config):
    return [config, "training.epochs=4", "training.checkpoint_steps=5"]


def test_a_run_learns_and_loads_without_its_generator(run_dir, config, generator, tmp_path):
    long = tmp_path / "long"
    assert run_multitask.main([config, "training.epochs=12", f"output_dir={long}"]) == 0
    losses = [e["loss"] for e in events(long) if e["event"] == "step"]
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])
    gone = generator.with_name("gone")
    generator.rename(gone)
    try:
        assert load(run_dir).encode(["a good film"], task="views").shape == (1, 32)
    finally:
        gone.rename(generator)


def test_a_generator_that_does_not_fit_is_one_line(config, tiny_encoder, run_dir, tmp_path):
    other = save_tiny_mlm(tmp_path / "other")
    tokenizer = transformers.AutoTokenizer.from_pretrained(other)
    tokenizer.add_tokens(["morewords"])
    tokenizer.save_pretrained(other)
    model = transformers.AutoModelForMaskedLM.from_pretrained(other)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(other)
    for name, said in (
        (tiny_encoder, "has no masked-LM head"),
        (run_dir, "the run has no `masked_lm` task"),
        (other, "has another vocabulary than the encoder"),
        (tmp_path / "nowhere", "is neither a directory nor"),
    ):
        with pytest.raises(UserError) as caught:
            prepared(config, f"tasks.views.head.generator={name}")
        assert said in str(caught.value) and "tasks.views.head.generator" in str(caught.value)


def test_batch_norm_is_for_one_process(config, monkeypatch):
    made = prepared(config, "tasks.views.projection=mlp_batchnorm", "tasks.sts.share_pooling=views")
    assert made.model.tasks["views"].projection.output_dim == 32
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="those of one process's rows"):
        prepared(config, "tasks.views.projection=mlp_batchnorm")
