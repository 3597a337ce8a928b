"""BERT with its pooler, and the classifier on it: sizes, outputs, and that it learns."""

import torch

from multitask.models.encoders.bert_classifier import BertForSequenceClassification, BertModel


def test_bert_model_has_berts_size_by_default():
    with torch.device("meta"):
        model = BertModel()
    assert sum(parameter.numel() for parameter in model.parameters()) == 109_482_240


def test_bert_model_gives_sequence_and_pooled_output():
    torch.manual_seed(0)
    model = BertModel(vocab_size=100, d_model=24, n_heads=3, n_layers=2, max_len=40).eval()
    ids = torch.randint(1, 100, (2, 32))
    sequence, pooled = model(ids, attention_mask=torch.ones(2, 32))
    assert sequence.shape == (2, 32, 24) and pooled.shape == (2, 24)
    expected = torch.tanh(sequence[:, 0] @ model.pooler.weight.T + model.pooler.bias)
    torch.testing.assert_close(pooled, expected)
    assert torch.equal(model(ids)[0], sequence)
    # a position beyond the mask changes nothing
    mask = torch.ones(2, 32)
    mask[:, 20:] = 0
    other = ids.clone()
    other[:, 20:] = 1
    torch.testing.assert_close(model(ids, mask)[1], model(other, mask)[1])


def test_the_classifier_gives_loss_and_logits_and_learns():
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        3, vocab_size=30, d_model=24, n_heads=3, n_layers=1, max_len=8
    )
    ids = torch.randint(5, 30, (24, 8))
    labels = ids[:, 2] % 3
    loss, logits = model.eval()(ids, labels=labels)
    assert logits.shape == (24, 3)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, labels))
    assert model(ids)[0] is None
    optimizer = torch.optim.AdamW(model.train().parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model(ids, labels=labels)[0].backward()
        optimizer.step()
    assert model.eval()(ids, labels=labels)[0] < 0.3 * loss
