"""The head of answers: `BertForQuestionAnswering` with the same weights, and a plain search."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertForQuestionAnswering

from multitask.config import load_config
from multitask.config.registry import build
from multitask.data.collate import collate, separate
from multitask.training.setup import set_up
from multitask.utils.errors import UserError
from tests.support.losses import task_losses
from tests.support.token_run import token_config, write_token_files


def make(dim=4, **options):
    return build("head", "span", options, {"dim": dim})


@pytest.fixture(scope="module")
def made(tiny_encoder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("span")
    files = write_token_files(directory, train=24)
    config = load_config(token_config(directory, tiny_encoder, files, tasks=("qa",)))
    result = set_up(config, torch.device("cpu"), lambda line: None)
    result.model.eval()
    return result


def test_loss_is_that_of_transformers_on_a_batch_without_padding(made, tiny_encoder):
    """With padding it is not: there transformers counts the padding's logits too."""
    reference = BertForQuestionAnswering.from_pretrained(tiny_encoder).eval()
    head = made.model.head("qa")
    with torch.no_grad():
        reference.qa_outputs.weight.copy_(head.linear.weight)
        reference.qa_outputs.bias.copy_(head.linear.bias)
    tokens = made.data.splits["qa"]["train"].tokens
    lengths = tokens.lengths
    alike = torch.from_numpy(lengths == torch.from_numpy(lengths).mode()[0].item())
    rows = alike.nonzero().squeeze(1).numpy()
    assert len(rows) > 2
    batch = collate(tokens, rows, pad_id=0)
    assert batch.attention_mask.all()
    outcome = task_losses(made.model, separate({"qa": batch}))["qa"]
    expected = reference(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        token_type_ids=batch.token_type_ids,
        start_positions=batch.labels[:, 0],
        end_positions=batch.labels[:, 1],
    )
    torch.testing.assert_close(outcome.loss, expected.loss, rtol=1e-5, atol=1e-6)
    both = torch.stack([expected.start_logits, expected.end_logits], -1)
    torch.testing.assert_close(outcome.scores, both, rtol=1e-4, atol=1e-5)


def test_padding_changes_nothing(made):
    tokens = made.data.splits["qa"]["train"].tokens
    order = torch.from_numpy(tokens.lengths).argsort().numpy()
    short, long = order[:1], order[-1:]
    both = collate(tokens, torch.tensor([short[0], long[0]]).numpy(), pad_id=0)
    assert not both.attention_mask.all()
    alone = [
        task_losses(made.model, separate({"qa": collate(tokens, index, pad_id=0)}))["qa"].loss
        for index in (short, long)
    ]
    together = task_losses(made.model, separate({"qa": both}))["qa"].loss
    torch.testing.assert_close(together, sum(alone) / 2)
    outcomes = made.model.head("qa").outcomes(
        made.model(separate({"qa": both}))["qa"], both.labels, both.context
    )
    one = collate(tokens, short, pad_id=0)
    single = made.model.head("qa").outcomes(
        made.model(separate({"qa": one}))["qa"], one.labels, one.context
    )
    torch.testing.assert_close(outcomes[:1], single)


def naive(logits, context, longest):
    """(start, end, probability) of the best span, by trying all."""
    logs = []
    for side in range(2):
        column = [row[side] for row in logits]
        top = max(column)
        norm = top + math.log(sum(math.exp(x - top) for x in column))
        logs.append([x - norm for x in column])
    best = (-1, -1, 0.0)
    for start in range(len(logits)):
        for end in range(start, min(len(logits), start + longest)):
            value = math.exp(logs[0][start] + logs[1][end])
            if context[start] and context[end] and value > best[2] * (1 + 1e-9):
                best = (start, end, value)
    return best


@given(st.data())
def test_the_best_span_is_that_of_a_plain_search(data):
    size = data.draw(st.integers(1, 8))
    longest = data.draw(st.integers(1, 9))
    number = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
    logits = data.draw(st.lists(st.tuples(number, number), min_size=size, max_size=size))
    begin = data.draw(st.integers(0, size))
    inside = [place >= begin for place in range(size)]  # the context ends the input
    scores = torch.tensor([logits], dtype=torch.float64)
    labels = torch.tensor([[0, size - 1]])
    (actual,) = make(max_answer_tokens=longest).outcomes(scores, labels, torch.tensor([inside]))
    start, end, probability, loss, both = actual.tolist()
    expected = naive(logits, inside, longest)
    assert probability == pytest.approx(expected[2])
    if expected[0] < 0:
        assert (start, end, both) == (-1, -1, 0)
    else:
        assert begin <= start <= end < start + longest
        assert both == pytest.approx(logits[int(start)][0] + logits[int(end)][1])
        logs = scores[0].log_softmax(0)
        assert (logs[int(start), 0] + logs[int(end), 1]).exp().item() == pytest.approx(probability)
    logs = scores[0].log_softmax(0)
    assert loss == pytest.approx(-(logs[0, 0] + logs[size - 1, 1]).item() / 2)


def test_a_row_without_its_answer_has_no_loss_and_nan_is_kept():
    head = make()
    scores = torch.zeros(2, 3, 2)
    scores[1] = torch.nan
    labels, context = torch.tensor([[-1, -1], [0, 1]]), torch.ones(2, 3, dtype=torch.bool)
    result = head.outcomes(scores, labels, context)
    assert result[0, 3] == 0 and result[0, 2] == pytest.approx(1 / 9)
    assert result[1].isnan().any()


def test_without_an_answer_the_first_token_is_scored_too():
    torch.manual_seed(0)
    scores, context = torch.randn(3, 6, 2), torch.tensor([[False] * 2 + [True] * 4] * 3)
    batch = SimpleNamespace(labels=torch.tensor([[0, 0], [2, 3], [-1, -1]]), context=context)
    plain, head = make(), make(no_answer=True)
    values = plain.row_values(scores, batch, 0)
    more = head.row_values(scores, batch, 0)
    assert plain.threshold is None and values.shape == (3, 5)
    torch.testing.assert_close(more[:, :5], values)
    for row, (logits, chance) in zip(scores.tolist(), more[:, 5:].tolist(), strict=True):
        starts, ends = zip(*row, strict=True)
        assert logits == pytest.approx(starts[0] + ends[0])
        shares = [math.exp(side[0]) / sum(map(math.exp, side)) for side in (starts, ends)]
        assert chance == pytest.approx(shares[0] * shares[1])
    loss = head.criterion(scores[:1], batch.labels[:1])
    assert loss == pytest.approx(-scores[0].log_softmax(0)[0].mean())  # the label is the first


def test_the_threshold_is_saved_with_the_weights_and_0_at_first():
    head = make(no_answer=True)
    assert head.threshold == 0 and not head.threshold.requires_grad
    head.threshold.fill_(1.5)
    other = make(no_answer=True)
    other.load_state_dict(head.state_dict())
    assert other.threshold == 1.5
    assert make().state_dict().keys() == head.state_dict().keys() - set(head.from_config)


def test_options_are_checked():
    with pytest.raises(UserError, match="max_answer_tokens must be at least 1, not 0"):
        make(max_answer_tokens=0)
