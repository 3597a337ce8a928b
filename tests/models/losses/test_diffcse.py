"""Replaced-token detection against a plain loop in float64, and what its gradient reaches."""

import math

import pytest
import torch
from torch import nn

from multitask.config.registry import build
from multitask.data.collate import Batch
from multitask.models.encoders import BertEncoder
from multitask.models.losses.diffcse import DiffCSEHead
from multitask.utils.errors import UserError

D, VOCABULARY, CLS, MASK_ID = 8, 20, 2, 4
LENGTHS = [5, 3, 6, 4]  # two rows, two views each


def make(**options):
    torch.manual_seed(0)
    encoder = BertEncoder(
        vocab_size=VOCABULARY, dim=D, num_layers=2, heads=2, dropout=0.0, attention_dropout=0.0
    )
    head = build("head", "diffcse", {"generator": "g", **options}, {"dim": D, "encoder": encoder})
    for parameter in head.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.5)
    return head.double().train()


def inputs(padding=0, junk=7):
    generator = torch.Generator().manual_seed(3)
    width = max(LENGTHS) + padding
    mask = (torch.arange(width)[None] < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.full((4, width), junk)
    ids[:, : max(LENGTHS)] = torch.randint(5, VOCABULARY, (4, max(LENGTHS)), generator=generator)
    ids = torch.where(mask == 1, ids, torch.tensor(junk))
    ids[:, 0] = CLS
    masked = ids.clone()
    masked[:, 1::2] = MASK_ID
    return ids, masked, torch.zeros_like(ids), mask


def fill(masked, types, mask):
    """A generator that has another word for every mask, and a wrong one for [CLS]."""
    filled = torch.where(masked == MASK_ID, torch.tensor(11), masked)
    filled[:, 0] = 13
    return filled


def vectors():
    return torch.randn(4, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


LABELS = torch.tensor([[0], [1]])


def detection(head, h, padding=0, junk=7, generator=fill):
    head.use_generator(generator)
    ids, masked, types, mask = inputs(padding, junk)
    batch = Batch(ids, mask, types, LABELS, 2, 0, masked_ids=masked)
    return head.detection_loss(h, batch)


def test_the_loss_of_a_batch_is_both_terms():
    head, h = make(), vectors()
    head.use_generator(fill)
    ids, masked, types, mask = inputs()
    batch = Batch(ids, mask, types, LABELS, 2, 0, masked_ids=masked)
    loss, views = head.loss(h, batch)
    assert torch.equal(views, torch.stack(h.chunk(2), dim=1))
    expected = head.criterion(views, LABELS) + head.detection_loss(h, batch)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_loss_is_the_mean_over_real_tokens_one_by_one(chunk):
    head, h = make(rtd_weight=0.3, chunk=chunk), vectors()
    ids, masked, types, mask = inputs()
    total, count = 0.0, 0
    for row, length in enumerate(LENGTHS):
        tokens = ids[row, :length]
        seen = fill(masked, types, mask)[row, :length].clone()
        seen[0] = CLS
        ones = torch.ones(1, length, dtype=torch.int64)
        with torch.no_grad():
            embedded = head.discriminator.embed(seen[None], 0 * ones, ones)
            embedded[0, 0] = h[row]
            hidden = head.discriminator.encode(embedded, ones, (2,))[2]
            logits = head.detector(hidden)[0].tolist()
        for token in range(length):
            right = int(seen[token] != tokens[token])
            low, high = logits[token]
            total += math.log(math.exp(low) + math.exp(high)) - (high if right else low)
            count += 1
    assert detection(head, h).item() == pytest.approx(0.3 * total / count, rel=1e-10)


def test_pads_count_for_nothing():
    """The authors' code takes them into the mean."""
    head, h = make(), vectors()
    expected = detection(head, h).item()
    for padding, junk in ((4, 7), (4, 0), (1, 15)):
        assert detection(head, h, padding, junk).item() == pytest.approx(expected, rel=1e-12)


def test_h_stands_in_place_of_the_cls_embedding_as_it_is(monkeypatch):
    """No position, LayerNorm or dropout a second time; and [CLS] never counts as replaced."""
    head, h = make(), vectors()
    seen = []
    encode = head.discriminator.encode
    monkeypatch.setattr(
        head.discriminator,
        "encode",
        lambda e, *rest, **more: seen.append(e) or encode(e, *rest, **more),
    )
    detection(head, h)
    assert torch.equal(seen[0][:, 0], h)
    one = detection(head, h, generator=lambda masked, types, mask: inputs()[0])
    with torch.no_grad():
        head.detector.weight.zero_()
        head.detector.bias.copy_(torch.tensor([30.0, -30.0]))  # "nothing is replaced"
    clean = detection(head, h, generator=lambda masked, types, mask: inputs()[0])
    assert one.item() > 0 and clean.item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("chunk", [None, 2])
def test_the_gradient_reaches_h_and_the_discriminator(chunk):
    head, h = make(chunk=chunk), vectors().requires_grad_()
    detection(head, h).backward()
    assert (h.grad.norm(dim=1) > 0).all()
    for name, parameter in head.named_parameters():
        known = name in ("discriminator.embeddings.position.weight",)
        assert known or (parameter.grad is not None and parameter.grad.isfinite().all()), name


def test_the_discriminator_is_a_copy_with_separate_weights():
    encoder = BertEncoder(vocab_size=VOCABULARY, dim=D, num_layers=1, heads=2)
    head = DiffCSEHead(D, encoder, "g")
    for copied, other in zip(head.discriminator.parameters(), encoder.parameters(), strict=True):
        assert torch.equal(copied, other) and copied is not other
    head.use_generator(nn.Linear(2, 2))
    assert not any("generator" in name for name in head.state_dict())


@pytest.mark.parametrize(
    ("dim", "options", "said"),
    [
        (D + 1, {}, "cannot replace a [CLS] embedding"),
        (D, {"mask_share": 1.0}, "must be between 0 and 1"),
        (D, {"temperature": 0.0}, "must be positive"),
    ],
)
def test_what_does_not_fit_is_an_error(dim, options, said):
    encoder = BertEncoder(vocab_size=VOCABULARY, dim=D, num_layers=1, heads=2)
    with pytest.raises(UserError) as caught:
        build("head", "diffcse", {"generator": "g", **options}, {"dim": dim, "encoder": encoder})
    assert said in str(caught.value)
