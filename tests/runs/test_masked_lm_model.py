"""Masked language modelling as a task: real runs on a tiny model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from multitask.config import load_config
from multitask.data.collate import by_task, separate
from multitask.training.setup import set_up
from multitask.training.trainer import Trainer
from multitask.utils import distributed
from tests.conftest import save_tiny_encoder
from tests.support.losses import task_losses
from tests.support.masked_lm_run import CONFIG, FAST, tiny
from tests.support.run_files import events

CPU = torch.device("cpu")


def prepared(*arguments, say=lambda line: None):
    return set_up(load_config(CONFIG, [*arguments, *FAST]), CPU, say)


def batches_of(made, task="mlm"):
    """One step of the task, and its texts."""
    (result,) = made.loader.next([task])
    return by_task(result)[task]


@pytest.fixture(scope="module")
def overrides(tiny_encoder, course_files):
    return tiny(tiny_encoder, course_files)


# ---- data


def test_texts_are_those_of_the_tasks_split_by_split(overrides):
    made = prepared(*overrides, "training.holdout=0.2", "tasks.sst.max_rows=10")
    for split in ("train", "holdout", "dev"):
        expected = {
            text
            for task in ("sst", "qqp", "sts")
            for row in made.data.splits[task][split].rows.texts
            for text in row
        }
        actual = made.data.splits["mlm"][split].rows.texts
        assert {text for (text,) in actual} == expected and len(actual) == len(expected)
    assert "test" not in made.data.splits["mlm"]
    capped = prepared(*overrides, "tasks.mlm.max_rows=7")
    assert len(capped.data.splits["mlm"]["train"].rows) == 7
    assert len(capped.loaders["mlm"].tokens) == 7


def test_texts_of_a_separate_file(overrides, course_files):
    data = "{texts_of: null, train: ids-sst-test-student.csv, dev: ids-sst-dev.csv, text: sentence}"
    made = prepared(*overrides, f"tasks.mlm.data={data}")
    assert len(made.data.splits["mlm"]["train"].rows) == 6  # it has no column of labels
    dev = [text for (text,) in made.data.splits["sst"]["dev"].rows.texts]
    masked = [text for (text,) in made.data.splits["mlm"]["dev"].rows.texts]
    assert masked == list(dict.fromkeys(dev))


def test_masks_of_an_evaluation_are_fixed_and_those_of_training_change(overrides):
    made, other = prepared(*overrides), prepared(*overrides, "seed=5")
    one, two = (m.data.splits["mlm"]["dev"] for m in (made, other))
    assert np.array_equal(one.tokens.ids, two.tokens.ids)  # whatever the seed of the run
    assert one.rows.gold.sum() == (one.tokens.targets >= 0).sum() > 0

    def passes(made, count):
        feed, result = made.loaders["mlm"], []
        for _ in range(count):
            result.append(feed.in_this_pass().targets)
            for _ in range(feed.stream.steps_per_pass):
                feed.stream.next()
            feed.stream.next()  # into the pass after
        return result

    first, second, third = passes(made, 3)
    assert not any(np.array_equal(a, b) for a, b in ((first, second), (second, third)))
    again = passes(prepared(*overrides), 3)
    assert all(np.array_equal(a, b) for a, b in zip((first, second, third), again, strict=True))
    assert not np.array_equal(first, passes(other, 1)[0])


def test_a_batch_holds_the_masks_of_its_rows(overrides):
    made = prepared(*overrides)
    feed = made.loaders["mlm"]
    indices = feed.stream.next()
    feed.stream.load_state_dict({"passes": 0, "position": 0})
    batch, tokens = batches_of(made), feed.in_this_pass()
    labels = []
    for row, index in enumerate(np.concatenate(indices)):
        span = slice(tokens.offsets[index], tokens.offsets[index + 1])
        length = span.stop - span.start
        assert batch.input_ids[row, :length].tolist() == tokens.ids[span].tolist()
        hidden = np.flatnonzero(tokens.targets[span] >= 0)
        width = batch.input_ids.shape[1]
        labels += [(row * width + i, tokens.targets[span][i]) for i in hidden]
    assert list(zip(batch.places.tolist(), batch.labels.tolist(), strict=True)) == labels
    assert batch.step_rows == len(labels) and batch.share == 1


# ---- the model


@pytest.fixture(scope="module", params=["bert", "roberta"])
def checkpoint(request, tmp_path_factory, tiny_encoder):
    """A random `transformers` model with a masked-LM head, and its directory."""
    import transformers

    kinds = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}
    heads = {"bert": transformers.BertForMaskedLM, "roberta": transformers.RobertaForMaskedLM}
    config = kinds[request.param](
        vocab_size=transformers.AutoConfig.from_pretrained(tiny_encoder).vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    torch.manual_seed(3)
    model = heads[request.param](config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    directory = tmp_path_factory.mktemp(request.param)
    for file in Path(tiny_encoder).glob("tokenizer*"):
        shutil.copy(file, directory)
    model.save_pretrained(directory)
    return model, directory


@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_logits_loss_and_gradients_equal_those_of_transformers(
    overrides, checkpoint, implementation
):
    model, directory = checkpoint
    said = []
    made = prepared(
        *overrides,
        f"encoder.name={directory}",
        f"encoder.implementation={implementation}",
        say=said.append,
    )
    assert not any("random" in line for line in said)
    made.model.eval()
    batch = batches_of(made)
    outcome = task_losses(made.model, separate({"mlm": batch}))["mlm"]
    labels = torch.full_like(batch.input_ids, -100)
    labels.view(-1)[batch.places] = batch.labels
    expected = model(batch.input_ids, attention_mask=batch.attention_mask, labels=labels)
    logits = expected.logits.flatten(0, 1)[batch.places]
    torch.testing.assert_close(outcome.scores, logits, rtol=1e-5, atol=1e-5)
    assert outcome.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    outcome.loss.backward()
    model.zero_grad()
    expected.loss.backward()
    torch.testing.assert_close(
        made.model.encoder.word_embedding.weight.grad,
        model.get_input_embeddings().weight.grad,
        rtol=1e-4,
        atol=1e-5,
    )


def test_without_a_head_on_shared_pooling_a_line_says_so(overrides):
    said = []
    prepared(*overrides, say=said.append)
    assert any("training starts with a random one" in line for line in said)


@pytest.mark.parametrize("kind", ["electra", "distilbert"])
def test_other_families_run_in_transformers(overrides, tmp_path, kind):
    directory = save_tiny_encoder(tmp_path / kind, kind)
    made = prepared(*overrides, f"encoder.name={directory}")
    words = made.model.encoder.word_embedding.weight
    outcome = task_losses(made.model, separate({"mlm": batches_of(made)}))["mlm"]
    outcome.loss.backward()
    assert outcome.scores.shape[1] == len(words) and words.grad.isfinite().all()
    assert outcome.loss.item() == pytest.approx(np.log(len(words)), rel=0.1)  # a random head


def test_the_vocabulary_product_is_over_masked_tokens_alone(overrides, monkeypatch):
    made = prepared(*overrides)
    words = made.model.encoder.word_embedding.weight
    shapes, linear = [], functional.linear

    def counted(value, weight, bias=None):
        if weight is words:
            shapes.append(tuple(value.shape))
        return linear(value, weight, bias)

    monkeypatch.setattr(functional, "linear", counted)
    batch = batches_of(made)
    task_losses(made.model, separate({"mlm": batch}))["mlm"].loss.backward()
    assert shapes == [(len(batch.labels), 32)]
    assert len(batch.labels) < 0.3 * batch.attention_mask.sum()


def test_the_tied_weight_has_one_owner(overrides, tmp_path):
    made = prepared(*overrides)
    model, words = made.model, made.model.encoder.word_embedding.weight
    assert sum(parameter is words for parameter in model.parameters()) == 1
    same = [name for name, tensor in model.state_dict().items() if tensor.shape == words.shape]
    assert same == ["encoder.embeddings.word.weight"]
    trainer = Trainer(made, tmp_path, lambda line: None)
    groups = trainer.stages.optimizer.param_groups
    groups = [g["name"] for g in groups for p in g["params"] if p is words]
    assert groups == ["encoder"]
    trainer.log.close()
    model.freeze(["embeddings"])
    task_losses(model, separate({"mlm": batches_of(made)}))["mlm"].loss.backward()
    assert words.grad is None and model.head("mlm").dense.weight.grad is not None
    model.freeze(["mlm"])
    model.zero_grad()
    task_losses(model, separate({"mlm": batches_of(made)}))["mlm"].loss.backward()
    assert words.grad.any() and model.head("mlm").dense.weight.grad is None


def test_a_text_without_masked_tokens_has_no_loss_and_no_nan(overrides):
    made = prepared(*overrides, "tasks.mlm.head.mask_share=1.0e-9")
    assert made.loader.next(["mlm"]) == []
    dev = made.scorer.score("mlm", made.data.splits["mlm"]["dev"])
    assert not dev.predictions.any() and np.isnan(dev.loss)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_shares_of_passes_and_processes_add_up_to_the_mean_over_the_step(
    overrides, accumulation, monkeypatch
):
    def parts(world):
        result = []
        for rank in range(world):
            size = [f"tasks.mlm.accumulation={accumulation}", "tasks.mlm.batch_size=5"]
            made = prepared(*overrides, *size)
            made.model.double().eval()
            with monkeypatch.context() as several:
                several.setattr(distributed, "rank", lambda rank=rank: rank)
                several.setattr(distributed, "world", lambda: world)
                passes = made.loader.next(["mlm"])
            result += [(task_losses(made.model, one)["mlm"], by_task(one)["mlm"]) for one in passes]
        return result

    alone, shared = parts(1), parts(2)
    assert len(alone) == accumulation and len(shared) == 2 * accumulation
    tokens = torch.cat([functional.cross_entropy(o.scores, b.gold, reduction="none")
                        for o, b in alone])  # fmt: skip
    for result in (alone, shared):
        total = sum(outcome.loss.item() * batch.share for outcome, batch in result)
        assert total == pytest.approx(tokens.mean().item(), rel=1e-10)


def test_our_encoder_and_transformers_train_the_same_steps(overrides, tmp_path):
    """Both encoders: gradients through the tie, the optimizer, the masks."""
    losses = []
    no_dropout = save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)
    for implementation in ("own", "transformers"):
        made = prepared(
            *overrides,
            f"encoder.implementation={implementation}",
            "encoder.dropout=0",
            f"encoder.name={no_dropout}",
            "training.max_steps=4",
        )
        (tmp_path / implementation).mkdir()
        trainer = Trainer(made, tmp_path / implementation, lambda line: None)
        trainer.run()
        steps = events(tmp_path / implementation, "step")
        losses.append([step["loss"] for step in steps])
    assert len(losses[0]) == 4
    np.testing.assert_allclose(*losses, rtol=1e-5)
