"""Contrastive learning as a task: its data, its batches, its gradients in chunks (GradCache)."""

import pytest
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from multitask.data.collate import by_task
from multitask.models import multitask_model
from tests.support.contrastive_run import batch_of, gradients, prepared
from tests.support.losses import task_losses

INPUTS = ("single", "siamese", "triplet")


@pytest.mark.parametrize(("input", "sides"), [("single", 2), ("siamese", 2), ("triplet", 3)])
def test_a_batch_holds_every_view_in_one_forward(contrastive_config, input, sides):
    made = prepared(contrastive_config(input))
    batch = by_task(batch_of(made))["views"]
    assert batch.input_ids.shape[0] == sides * 16 and batch.sides == sides
    assert batch.labels.shape == (16, 1 if input == "single" else sides)
    views = batch.input_ids.chunk(sides)
    assert torch.equal(views[0], views[1]) == (input == "single")
    rows = made.data.splits["views"]["train"].rows
    numbers = made.loaders["views"].labels["views"]
    for texts, row in zip(rows.texts, numbers, strict=True):
        assert len(texts) == len(row)
    flat = [t for row in rows.texts for t in row]
    assert len(set(numbers.ravel().tolist())) == len(set(flat))


def test_two_training_views_differ_and_two_encodes_are_equal(contrastive_config):
    """Trap 10, with the random slopes of RReLU too."""
    made = prepared(contrastive_config(pooling="layer_attention"))
    batch = batch_of(made)
    first, second = made.model.train().pooled(batch)["views"].detach().chunk(2)
    assert not torch.isclose(first, second).all(1).any()
    made.model.eval()
    with torch.no_grad():
        one, other = (made.model.pooled(batch)["views"] for _ in range(2))
    assert torch.equal(one, other) and torch.equal(*one.chunk(2))


def test_the_dev_share_is_taken_out_of_train_and_where_keeps_rows(
    contrastive_config, contrastive_files
):
    every = (contrastive_files / "triplets.tsv").read_text().splitlines()[1:]
    made = prepared(contrastive_config("siamese"))
    train, dev = (made.data.splits["views"][name].rows for name in ("train", "dev"))
    assert 0 < len(dev) < len(train) and len(train) + len(dev) == len(every)
    assert not {t[0] for t in train.texts} & {t[0] for t in dev.texts}
    sizes = prepared(contrastive_config("siamese"), "tasks.views.data.where={kind: 1}")
    both = [sizes.data.splits["views"][name].rows for name in ("train", "dev")]
    wanted = {line.split("\t")[0] for line in every if line.endswith("1.0")}
    assert {texts[0] for rows in both for texts in rows.texts} == wanted


def test_texts_of_other_tasks_and_of_a_text_file(contrastive_config, contrastive_files):
    made = prepared(contrastive_config(data="{texts_of: [sts]}"))
    expected = {t for row in made.data.splits["sts"]["train"].rows.texts for t in row}
    assert {t for (t,) in made.data.splits["views"]["train"].rows.texts} == expected
    (contrastive_files / "one.txt").write_text(
        "a good film\n\na bad film\n" * 3 + "the cat sees a dog\n"
    )
    data = "{train: one.txt, dev: one.txt, text: text}"
    actual = prepared(contrastive_config(data=data)).data.splits["views"]["train"].rows.texts
    assert actual == [("a good film",), ("a bad film",), ("the cat sees a dog",)]


def test_batches_are_drawn_whatever_the_lengths(contrastive_config, contrastive_files):
    """Equations 6 to 8 take random batches; texts of one length are harder negatives."""
    long = "the old good film is a very bad film " * 3
    rows = [f"{'a' if n % 2 else long}{'x' * n}" for n in range(64)]
    (contrastive_files / "mixed.txt").write_text("\n".join(rows))
    made = prepared(contrastive_config(data="{train: mixed.txt, dev: mixed.txt, text: text}"))
    feed = made.loaders["views"]
    mixed = 0
    for _ in range(feed.stream.steps_per_pass):
        (rows,) = feed.stream.next()
        lengths = feed.tokens.lengths[rows]
        mixed += lengths.min() < 10 < lengths.max()
    assert mixed == feed.stream.steps_per_pass == 4


@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunks_have_the_gradient_of_the_whole_batch(contrastive_config, input, chunk):
    """Without dropout, in float64; one chunk holds texts of several views."""
    file = contrastive_config(input, dropout=0)
    grads = []
    for head in ("{name: contrastive}", f"{{name: contrastive, chunk: {chunk}}}"):
        made = prepared(file, f"tasks.views.head={head}")
        for layer in made.model.encoder.layers:
            layer.attention.dropout.rate = 0.0
        made.model.double()
        grads.append(gradients(made, batch_of(made)))
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-10, atol=1e-12)


def test_chunks_have_the_gradient_of_the_whole_batch_in_fp32(contrastive_config):
    grads = []
    for head in ("{name: contrastive}", "{name: contrastive, chunk: 5}"):
        file = contrastive_config("triplet", head, dropout=0, pooling="mean")
        made = prepared(file, "training.precision=fp32")
        for layer in made.model.encoder.layers:
            layer.attention.dropout.rate = 0.0
        # texts far apart: of vectors that are nearly equal the gradient is a small difference
        torch.manual_seed(0)
        made.model.encoder.embeddings.word.weight.data.normal_()
        grads.append(gradients(made, batch_of(made)))
    assert 0 < (grads[1] - grads[0]).norm() / grads[0].norm() < 1e-5


def test_a_chunk_names_the_device_whose_dropout_is_replayed(contrastive_config, monkeypatch):
    """torch finds it in the tensors among the arguments, which a batch is not."""
    devices = []

    def watched(function, *arguments, **options):
        leaves = tree_leaves(arguments)
        devices.append({leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)})
        return checkpoint(function, *arguments, **options)

    monkeypatch.setattr(multitask_model, "checkpoint", watched)
    made = prepared(contrastive_config("single", "{name: contrastive, chunk: 7}"))
    gradients(made, batch_of(made))
    assert len(devices) > 1 and all(found == {"cpu"} for found in devices)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_chunks_replay_dropout_and_random_slopes(contrastive_config, dtype, monkeypatch):
    """Against the same chunks whose activations are all kept."""
    from multitask.models import multitask_model as model

    made = prepared(
        contrastive_config("triplet", "{name: contrastive, chunk: 5}", pooling="layer_attention")
    )
    made.model.to(dtype)
    batches = batch_of(made)
    actual = gradients(made, batches)
    monkeypatch.setattr(model, "checkpoint", lambda f, *given, use_reentrant: f(*given))
    expected = gradients(made, batches)
    other = gradients(made, batches, seed=1)
    error = (actual - expected).norm() / expected.norm()
    assert error < (1e-10 if dtype == torch.float64 else 1e-5)
    assert (other - expected).norm() / expected.norm() > 1e-3  # the noise is there


def test_chunks_bound_what_the_forward_pass_keeps(contrastive_config, contrastive_files):
    """1,024 texts: what autograd holds on to is a small part of it all."""
    lines = [f"the {i % 7} cat {i} sees a dog" for i in range(1100)]
    (contrastive_files / "many.txt").write_text("\n".join(lines))
    file = contrastive_config(data="{train: many.txt, dev_share: 0.05, text: text}")
    held = {}
    for chunk in ("null", "32"):
        head = f"{{name: contrastive, chunk: {chunk}}}"
        made = prepared(file, "tasks.views.batch_size=1024", f"tasks.views.head={head}")
        batches, kept = batch_of(made), []

        def pack(tensor, kept=kept):
            kept.append(tensor.numel())
            return tensor

        made.model.train()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = task_losses(made.model, batches)["views"].loss
        assert len(by_task(batches)["views"].labels) == 1024 and loss.isfinite()
        held[chunk] = sum(kept)
    # the logits of 1,024 x 1,024 stay
    assert held["32"] < held["null"] / 3
