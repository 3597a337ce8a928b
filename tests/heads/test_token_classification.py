"""Tags of words against `BertForTokenClassification` with the same weights."""

import pytest
import torch
from transformers import AutoTokenizer, BertForTokenClassification

from multitask.config import load_config
from multitask.config.registry import build
from multitask.data.collate import collate, separate
from multitask.training.setup import set_up
from tests.support.losses import task_losses
from tests.support.token_run import TAGS, tagged, token_config, write_token_files


def test_loss_and_logits_are_those_of_transformers(tiny_encoder, tmp_path):
    files = write_token_files(tmp_path, train=7)
    config = load_config(token_config(tmp_path, tiny_encoder, files, tasks=("ner",)))
    made = set_up(config, torch.device("cpu"), lambda line: None)
    reference = BertForTokenClassification.from_pretrained(tiny_encoder, num_labels=7).eval()
    head = made.model.head("ner")
    names = made.data.readers["ner"].names
    assert set(names) == set(TAGS)
    with torch.no_grad():
        reference.classifier.weight.copy_(head.linear.weight)
        reference.classifier.bias.copy_(head.linear.bias)
    tokens = made.data.splits["ner"]["train"].tokens
    batch = collate(tokens, torch.arange(7).numpy(), pad_id=0)
    made.model.eval()
    outcome = task_losses(made.model, separate({"ner": batch}))["ner"]

    rows = tagged(7, 0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    inputs = tokenizer(
        [row["tokens"] for row in rows],
        is_split_into_words=True,
        padding=True,
        return_tensors="pt",
    )
    labels = torch.full(inputs["input_ids"].shape, -100)
    for i, row in enumerate(rows):
        before = None
        for place, word in enumerate(inputs.word_ids(i)):
            if word is not None and word != before:
                labels[i, place] = names.index(row["ner_tags"][word])
            before = word
    expected = reference(**inputs, labels=labels)
    torch.testing.assert_close(outcome.loss, expected.loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(outcome.scores, expected.logits[labels >= 0], rtol=1e-4, atol=1e-5)


def test_outcomes_say_the_likeliest_tag_its_probability_and_the_golds_loss():
    head = build("head", "token_classification", {}, {"dim": 3, "num_labels": 3})
    scores = torch.tensor([[0.0, 2.0, 1.0], [5.0, -5.0, 0.0]])
    result = head.outcomes(scores, torch.tensor([2, 0]))
    totals = [sum(torch.tensor(row).exp()).item() for row in scores.tolist()]
    assert result[:, 0].tolist() == [1, 0]
    assert result[:, 1].tolist() == pytest.approx([7.38906 / totals[0], 148.41316 / totals[1]])
    losses = [-torch.tensor(x).log().item() for x in (2.71828 / totals[0], 148.41316 / totals[1])]
    assert result[:, 2].tolist() == pytest.approx(losses, abs=1e-5)
    assert result[:, 2].mean().item() == pytest.approx(
        head.criterion(scores, torch.tensor([2, 0])).item()
    )
