"""Equations 6 to 8 against the naive formula in float64; duplicates; several processes."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multitask.config.registry import build
from multitask.models.losses.contrastive_loss import ContrastiveHead
from multitask.utils.errors import UserError
from tests.support.processes import TORCHRUN, launch


def head(**options):
    return build("head", "contrastive", options, {"dim": 4}).train()


def numbers(rows, texts=1):
    """Numbers of texts that all differ."""
    return torch.arange(rows * texts).reshape(rows, texts)


def vectors(rows, views, seed=0, dim=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, views, dim, generator=generator, dtype=torch.float64)


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def naive(views, temperature, weight=0.0, none=lambda i, j, view: False):
    """The paper's sums, term by term; ``none`` says which candidates are left out."""
    z = views.detach().numpy()
    rows, count, _ = z.shape
    total = 0.0
    for i in range(rows):
        right = math.exp(cosine(z[i, 0], z[i, 1]) / temperature)
        below = 0.0
        for j in range(rows):
            for view in range(1, count):
                if not none(i, j, view):
                    extra = weight if view == 2 and i == j else 0.0
                    below += math.exp(cosine(z[i, 0], z[j, view]) / temperature + extra)
        total -= math.log(right / below)
    return total / rows


@settings(max_examples=40)
@given(
    rows=st.integers(1, 6),
    views=st.sampled_from([2, 3]),
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0.05, 0.3, 1.0]),
    weight=st.sampled_from([0.0, 1.0, -0.5]),
)
def test_loss_is_the_formula_and_so_is_its_gradient(rows, views, seed, temperature, weight):
    z = vectors(rows, views, seed).requires_grad_()
    made = head(temperature=temperature, hard_negative_weight=weight)
    loss = made.criterion(made(*z.unbind(1)), numbers(rows, views))
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx(naive(z, temperature, weight), rel=1e-10, abs=1e-10)
    loss.backward()
    step = 1e-6 * torch.randn(z.shape, generator=torch.Generator().manual_seed(1)).double()
    ahead, behind = (naive(z.detach() + sign * step, temperature, weight) for sign in (1, -1))
    assert (ahead - behind) / 2 == pytest.approx(float((z.grad * step).sum()), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("rows", [2, 5, 64])
def test_equal_similarities_give_the_log_of_the_candidates(rows):
    equal = torch.ones(rows, 3, 4, dtype=torch.float64)
    pairs, triplets = numbers(rows, 2), numbers(rows, 3)
    assert head().criterion(equal[:, :2], numbers(rows)).item() == pytest.approx(math.log(rows))
    assert head().criterion(equal[:, :2], pairs).item() == pytest.approx(math.log(rows))
    assert head().criterion(equal, triplets).item() == pytest.approx(math.log(2 * rows))
    weighted = head(hard_negative_weight=1.0).criterion(equal, triplets).item()
    assert weighted == pytest.approx(math.log(2 * rows - 1 + math.e))
    if rows == 64:  # the specification's trap 7
        assert round(math.log(2 * rows), 4) == 4.8520 and round(weighted, 4) == 4.8654


def test_the_hard_negative_weight_is_zero_unless_asked_for():
    assert ContrastiveHead(8).hard_negative_weight == 0.0
    z, texts = vectors(6, 3), numbers(6, 3)
    plain = head().criterion(z, texts)
    assert torch.equal(plain, head(hard_negative_weight=0.0).criterion(z, texts))
    assert head(hard_negative_weight=1.0).criterion(z, texts) > plain


def test_bf16_vectors_are_compared_in_fp32():
    """Trap 9: at temperature .05 a logit in bf16 is off by .08."""
    torch.manual_seed(0)
    z = torch.randn(32, 2, 384).bfloat16()
    exact = head().criterion(z.double(), numbers(32, 2)).item()
    with torch.autocast("cpu", torch.bfloat16):
        result = head().criterion(z, numbers(32, 2))
        also = head().criterion(z.float(), numbers(32, 2))
    assert result.dtype == torch.float32
    assert result.item() == pytest.approx(exact, abs=1e-4)
    assert also.item() == pytest.approx(exact, abs=1e-4)


@settings(max_examples=40)
@given(
    texts=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=6),
    views=st.sampled_from([2, 3]),
    seed=st.integers(0, 9),
)
def test_equal_texts_are_no_negatives(texts, views, seed):
    def none(i, j, view):
        """A row's own texts, and what goes with the same first text, in words."""
        if view == 1 and i == j:
            return False  # the right one
        pair = {texts[i][0], texts[i][1]}
        return texts[j][view] in pair or (view == 1 and texts[j][0] == texts[i][0])

    z = vectors(len(texts), views, seed)
    labels = torch.tensor(texts)[:, :views]
    result = head(temperature=0.5).criterion(z, labels).item()
    assert result == pytest.approx(naive(z, 0.5, none=none), rel=1e-10, abs=1e-10)


def test_one_text_twice_in_a_batch_of_single_texts():
    z = vectors(3, 2)
    result = head().criterion(z, torch.tensor([[0], [1], [0]])).item()
    same = {(0, 2), (2, 0)}
    assert result == pytest.approx(naive(z, 0.05, none=lambda i, j, view: (i, j) in same))
    assert result != pytest.approx(head().criterion(z, numbers(3)).item())


def test_outcomes_are_those_of_blocks_in_file_order():
    z = vectors(150, 2, dim=3).repeat(1, 1, 1)
    made = head(temperature=0.2).eval()
    result = made.outcomes(z, numbers(150, 2))
    for block in (range(0, 50), range(50, 100), range(100, 150)):
        for i in block:
            logits = [cosine(z[i, 0].numpy(), z[j, 1].numpy()) / 0.2 for j in block]
            right = logits[i - block.start]
            others = [value for j, value in zip(block, logits, strict=True) if j != i]
            assert result[i, 0].item() == (right > max(others))
            chance = math.exp(right) / sum(map(math.exp, logits))
            assert result[i, 1].item() == pytest.approx(chance, rel=1e-9)


def test_equal_vectors_are_never_nearest():
    result = head().eval().outcomes(torch.ones(10, 2, 3), numbers(10))
    assert not result[:, 0].any() and torch.allclose(result[:, 1], torch.full((10,), 0.1))


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"temperature": -1.0}, {"chunk": 0}])
def test_a_bad_option_is_an_error(options):
    with pytest.raises(UserError, match="must be"):
        head(**options)


SCRIPT = """
import json, sys
import torch
from torch import distributed
from multitask.models.losses.contrastive_loss import ContrastiveHead
distributed.init_process_group("gloo")
rank = distributed.get_rank()
out, rows, weight = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.manual_seed(0)
layer = torch.nn.Linear(4, 4).double()
x = torch.randn(rows, 3, 4, dtype=torch.float64)
labels = torch.tensor([[i, i % 4 + 50, i + 100] for i in range(rows)])
own = torch.arange(rows)[rank::2]
share = len(own) / rows
mine = labels[own]
if not len(own):  # as the feed has it: a row that counts on another rank
    own, mine = torch.arange(1), torch.full((1, 3), -1)
head = ContrastiveHead(8, hard_negative_weight=weight).train()
loss = head.criterion(layer(x[own]), mine) * share
loss.backward()
for parameter in layer.parameters():
    distributed.all_reduce(parameter.grad)
total = loss.detach().clone()
distributed.all_reduce(total)
if rank == 0:
    grads = [p.grad.flatten().tolist() for p in layer.parameters()]
    open(out, "w").write(json.dumps({"loss": total.item(), "grads": sum(grads, [])}))
distributed.barrier()
distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, 8, 1])
def test_two_processes_have_the_gradient_of_one_with_the_whole_batch(rows, tmp_path):
    """Trap 8: a gather without gradient halves it. Uneven and empty shares too."""
    script, out = tmp_path / "two.py", tmp_path / "out.json"
    script.write_text(SCRIPT)
    result = launch(TORCHRUN, script, out, rows, 0.7)
    assert result.returncode == 0, result.stderr
    both = json.loads(out.read_text())
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4).double()
    x = torch.randn(rows, 3, 4, dtype=torch.float64)
    labels = torch.tensor([[i, i % 4 + 50, i + 100] for i in range(rows)])
    loss = head(hard_negative_weight=0.7).criterion(layer(x), labels)
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in layer.parameters()])
    actual = torch.tensor(both["grads"], dtype=torch.float64)
    assert both["loss"] == pytest.approx(loss.item(), rel=1e-12)
    assert (actual.norm() / expected.norm()).item() == pytest.approx(1.0, rel=1e-10)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
