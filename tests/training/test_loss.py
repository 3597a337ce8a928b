"""SMART's terms on real models: naive references in float64, dropout, cost, no trace."""

from functools import partial

import pytest
import torch

from multitask.config import SmartConfig
from multitask.data.collate import separate
from multitask.models.encoders import packing
from multitask.training import loss as loss_module
from multitask.training.loss import Objective
from multitask.training.step import train_step
from smart.divergence import DIVERGENCES
from smart.teacher import teacher_of
from tests.support.losses import task_losses
from tests.support.small_models import batch, parted

WIDE = {"eps": 0.05, "noise": 0.02, "step_size": 0.1}


@pytest.mark.parametrize("task", ["qqp", "sts"])
def test_perturbed_passes_leave_the_statistics_of_batch_norms_alone(task, make):
    """They move once a step, as in a plain one; in evaluation they are the model's."""
    shared = ["tasks.sts.share_pooling=qqp"] if task == "sts" else []
    statistics = []
    for smoothing in (None, SmartConfig(**WIDE, weight=1.0)):
        model = make(
            "tasks.qqp.projection=mlp_batchnorm",
            "encoder.dropout=0",
            f"tasks.{task}.dropout=0",
            *shared,
        )
        model.train()
        outcome(model, task, smoothing)
        buffers = dict(model.module("qqp").named_buffers())
        statistics.append({name: value.clone() for name, value in buffers.items()})
    assert len(statistics[0]) == 6
    for name, plain in statistics[0].items():
        torch.testing.assert_close(statistics[1][name], plain)


def outcome(model, task, smoothing=None, teacher=None, rows=None):
    """A task's outcome on its rows, with or without SMART; the draws are always the same."""
    torch.manual_seed(5)
    terms = {} if smoothing is None else {task: smoothing}
    return task_losses(model, separate({task: rows or batch(task)}), terms, teacher)[task]


def penalty(model, task, smoothing, teacher=None):
    return outcome(model, task, smoothing, teacher).penalty


@pytest.mark.slow  # a compiler's minute
@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_compiled_kernels_give_the_same_penalty_and_replay_their_dropout(task, make, built_kernels):
    model = make(dtype=torch.float32).eval()
    result = []
    for kernels in ("torch", "compiled"):
        model.encoder.use_kernels(kernels)
        model.zero_grad()
        value = penalty(model, task, SmartConfig(**WIDE))
        value.backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        result.append((value.detach(), torch.cat(grads)))
    for torchs, compiled in zip(*result, strict=True):
        assert (compiled - torchs).norm() < 1e-3 * torchs.norm()
    same, fresh = (
        penalty(model.train(), task, SmartConfig(dropout=dropout))
        for dropout in ("same_mask", "independent")
    )
    assert same < 1e-3 * fresh


def naive_smoothness(model, task, settings, seed=5, rows=None):
    """Eq. (2) of the paper with one ascent step, written out; ``model`` has no dropout."""
    rows = rows or batch(task)
    single, head = separate({task: rows}), partial(model.module(task), batch=rows)
    real = rows.attention_mask.unsqueeze(-1)
    embedded = model.embed(single)
    if settings.perturb == "embeddings":
        x, mask = embedded.vectors, real

        def f(z):
            return head(model.pool(single, embedded._replace(vectors=z))[task])
    else:
        x, mask, f = model.pool(single, embedded)[task], 1, head

    def distance(z):
        a, b = f(z), f(x)
        if task == "sst":
            p, q = a.softmax(-1), b.softmax(-1)
            return (p * (p / q).log() + q * (q / p).log()).sum(-1)
        if task == "qqp":
            p, q = a.sigmoid(), b.sigmoid()
            first = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
            return first + q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log()
        return (a - b) ** 2

    torch.manual_seed(seed)
    shape = x.shape if settings.perturb == "embeddings" else (len(x), 1, x.shape[1])
    delta = (settings.noise * torch.randn(shape, dtype=x.dtype)).reshape(x.shape) * mask
    delta = delta.requires_grad_()
    (slope,) = torch.autograd.grad(distance(x.detach() + delta).sum(), delta)
    slope = slope * mask
    largest = slope.flatten(1).abs().amax(1).reshape(-1, *[1] * (slope.ndim - 1))
    worst = (delta.detach() + settings.step_size * slope / largest).clamp(
        -settings.eps, settings.eps
    )
    return distance(x + worst).mean()


def check_same_gradients(model, one, other):
    """The gradients of two terms are the same, and of the same parameters."""
    trained = list(model.parameters())
    grads = (torch.autograd.grad(term, trained, allow_unused=True) for term in (one, other))
    for ours, theirs in zip(*grads, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("perturb", ["embeddings", "pooled"])
@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_the_term_and_its_gradient_are_the_papers(make, task, perturb, implementation):
    model = make(f"encoder.implementation={implementation}").eval()
    settings = SmartConfig(**WIDE, weight=3.0, perturb=perturb)
    actual = penalty(model, task, settings)
    expected = 3.0 * naive_smoothness(model, task, settings)
    assert actual > 1e-8
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=0)
    check_same_gradients(model, actual, expected)


def test_cross_encoded_pairs_too(make):
    pair = "tasks.qqp.input=cross", "tasks.qqp.head=binary"
    model = make(*pair).eval()
    rows = batch("sst")
    rows.labels = rows.labels % 2
    rows.token_type_ids[:, 4:] = rows.attention_mask[:, 4:]  # the second text
    settings = SmartConfig(**WIDE, weight=3.0)
    actual = outcome(model, "qqp", settings, rows=rows).penalty
    assert actual > 1e-8
    expected = 3.0 * naive_smoothness(model, "qqp", settings, rows=rows)
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=0)


def test_gradient_of_the_term_equals_finite_differences(make, monkeypatch):
    model = make().eval()
    fixed = torch.full((8, 8, 32), 0.03, dtype=torch.float64)
    monkeypatch.setattr(loss_module, "perturbation", lambda *_: fixed)
    weight = model.tasks["qqp"].head.linear.weight
    layer = model.encoder.layers[0].feed_forward.up.weight
    for parameter, place in ((weight, (0, 3)), (layer, (2, 5))):
        result = torch.autograd.grad(penalty(model, "qqp", SmartConfig()), parameter)[0][place]
        moved = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter[place] += step
                moved.append(penalty(model, "qqp", SmartConfig()).item())
                parameter[place] -= step
        assert result.item() == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_bregman_term_is_the_distance_from_the_teacher_without_dropout(make, task):
    model = make()
    teacher = teacher_of(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    actual = penalty(model, task, SmartConfig(weight=0, bregman=2), teacher)
    torch.manual_seed(5)
    computed = model(separate({task: batch(task)}))[task]
    theirs = teacher(separate({task: batch(task)}))[task]
    expected = 2 * DIVERGENCES[model.head(task).divergence](computed, theirs).mean()
    torch.testing.assert_close(actual, expected)
    actual.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_the_pooling_that_trains_is_regularised_not_the_one_that_scores(make):
    still = ["encoder.dropout=0", "tasks.qqp.dropout=0", "tasks.qqp.pooling=mean"]
    plain, other = (make(*still, *more) for more in ([], ["tasks.qqp.eval_pooling=cls"]))
    for smoothing in (SmartConfig(**WIDE, dropout="eval"), SmartConfig(weight=0, bregman=2)):
        terms = [penalty(m, "qqp", smoothing, teacher_of(m)).item() for m in (plain, other)]
        assert terms[0] == terms[1] and other.training


@pytest.mark.parametrize("perturb", ["embeddings", "pooled"])
def test_plain_pass_serves_as_f_and_its_loss_does_not_change(make, perturb):
    model = make(dtype=torch.float32)
    for task in ("sst", "qqp", "sts"):
        plain, smooth = (outcome(model, task, s) for s in (None, SmartConfig(perturb=perturb)))
        assert torch.equal(plain.loss, smooth.loss) and torch.equal(plain.scores, smooth.scores)


@pytest.mark.parametrize(("dropout", "embeds", "encodes"), [("same_mask", 1, 4), ("eval", 2, 5)])
def test_no_pass_more_than_needed(make, monkeypatch, dropout, embeds, encodes):
    model = make()
    calls = {"embed": 0, "encode": 0}

    def counted(name, original, *args, **kwargs):
        calls[name] += 1
        return original(*args, **kwargs)

    for name in calls:
        original = getattr(model.encoder, name)
        monkeypatch.setattr(model.encoder, name, partial(counted, name, original))
    penalty(model, "qqp", SmartConfig(steps=2, dropout=dropout))
    assert calls == {"embed": embeds, "encode": encodes}


@pytest.mark.parametrize("perturb", ["embeddings", "pooled"])
def test_all_passes_of_a_step_share_one_packing(make, monkeypatch, perturb):
    """Those of the loss, of the ascent, without dropout, and of the teacher."""
    model, built = make(), []
    original = packing.Packing.__init__
    monkeypatch.setattr(
        packing.Packing,
        "__init__",
        lambda self, *given: built.append(self) or original(self, *given),
    )
    settings = SmartConfig(steps=2, bregman=1, dropout="eval", perturb=perturb)
    penalty(model, "qqp", settings, teacher_of(model))
    assert len(built) == 1


def test_dropout_modes(make):
    """With another mask the term measures dropout, not the perturbation."""
    tiny = {"eps": 1e-9, "noise": 1e-9}
    model = make("encoder.dropout=0.5")
    terms = {
        mode: penalty(model, "sst", SmartConfig(**tiny, dropout=mode)).item()
        for mode in ("same_mask", "eval", "independent")
    }
    assert max(terms["same_mask"], terms["eval"]) < 1e-12 < 1e-4 < terms["independent"]
    assert model.training
    still = penalty(model.eval(), "sst", SmartConfig(**WIDE, dropout="same_mask"))
    again = penalty(model.train(), "sst", SmartConfig(**WIDE, dropout="eval"))
    assert 0 < again < 100 * still and model.training


@pytest.mark.parametrize("perturb", ["embeddings", "pooled"])
@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_without_dropout_the_term_and_its_gradient_are_those_in_evaluation(
    make, monkeypatch, task, perturb
):
    """Of a model that trains with dropout; the noise is here no draw, as other passes draw too.

    Nor does it lie along x, which the cosine of pooled vectors does not feel.
    """
    waves = partial(torch.arange, dtype=torch.float64)
    monkeypatch.setattr(torch, "randn_like", lambda x: waves(x.numel()).sin().view_as(x))
    model, terms = make("encoder.dropout=0.3"), []
    for training, dropout in ((False, "same_mask"), (True, "eval")):
        smoothing = SmartConfig(**WIDE, weight=3.0, perturb=perturb, dropout=dropout)
        terms.append(penalty(model.train(training), task, smoothing))
        assert model.training == training
    assert terms[0] > 1e-8
    torch.testing.assert_close(*terms)
    check_same_gradients(model, *terms)


def test_the_ascent_leaves_no_trace(make):
    """No .grad before backward; afterwards the numbers drawn next are those without the replays."""
    model = make()
    penalty(model, "sst", SmartConfig(steps=3))
    assert all(parameter.grad is None for parameter in model.parameters())
    after = torch.rand(3)
    penalty(model, "sst", SmartConfig(steps=1))
    assert torch.equal(torch.rand(3), after)  # how often the masks are replayed does not matter


def test_only_tasks_that_ask_have_a_penalty_in_joint_steps(make):
    model = make().eval()
    batches = {task: batch(task) for task in ("sst", "qqp", "sts")}
    result = task_losses(model, separate(batches), {"qqp": SmartConfig(**WIDE)})
    assert [result[task].penalty is None for task in batches] == [True, False, True]
    plain = task_losses(model, separate(batches))
    for task in batches:
        torch.testing.assert_close(result[task].loss, plain[task].loss)


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_accumulated_passes_equal_one_batch(make, monkeypatch, task):
    """Passes of one row and of three add up to the batch of four: loss, penalty, every gradient.

    It holds without dropout and with noise that is a function of the row alone, here a multiple of
    its embeddings. Drawn noise is another one for other batches, and so is a worst perturbation.
    """
    monkeypatch.setattr(torch, "randn_like", torch.clone)
    model = make().eval()
    teacher = teacher_of(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.05)
    smoothing = {task: SmartConfig(**WIDE, weight=3.0, bregman=2.0)}
    actual = []
    for passes in ([batch(task)], parted(batch(task), 1, 3)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        gradients = {}
        optimizer.register_step_pre_hook(
            lambda *_, kept=gradients: kept.update(
                {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
            )
        )
        passes = [separate({task: rows}) for rows in passes]
        done = train_step(model, passes, optimizer, Objective({task: 1.0}, smoothing, teacher))
        actual.append((done, gradients))
    (at_once, expected), (parts, gradients) = actual
    assert at_once.penalties[task] > 1e-3
    assert parts.penalties == pytest.approx(at_once.penalties, rel=1e-9)
    assert parts.terms[task] == pytest.approx(at_once.terms[task], rel=1e-9)
    assert set(parts.terms[task]) == {"adversarial", "bregman"}
    assert sum(parts.terms[task].values()) == pytest.approx(parts.penalties[task])
    assert parts.losses == pytest.approx(at_once.losses, rel=1e-9)
    torch.testing.assert_close(gradients, expected, rtol=1e-7, atol=1e-12)


def test_rows_without_a_label_are_left_out(make):
    model = make().eval()
    rows = batch("sst")
    rows.labelled, rows.labels = torch.tensor([1, 2]), rows.labels[1:3]
    result = outcome(model, "sst", SmartConfig(), rows=rows)
    assert len(result.scores) == 2 and result.penalty.isfinite()
    rows.labelled, rows.labels = rows.labelled[:0], rows.labels[:0]
    result = outcome(model, "sst", SmartConfig(), rows=rows)
    assert result.penalty == 0 and set(result.terms) == {"adversarial"}


def test_adapters_stand_in_every_pass(make):
    adapter = "tasks.sst.adapter={name: pal, size: 24}"
    plain, with_pal = make().eval(), make(adapter).eval()
    torch.nn.init.normal_(with_pal.adapters["sst"].up.weight, std=0.2)
    settings = SmartConfig(**WIDE)
    assert penalty(plain, "sst", settings) != penalty(with_pal, "sst", settings)
    penalty(with_pal, "sst", settings).backward()
    assert with_pal.adapters["sst"].up.weight.grad.abs().max() > 0


@pytest.mark.parametrize(("perturb", "tolerance"), [("embeddings", 1e-3), ("pooled", 0.05)])
def test_the_paper_s_eps_is_seen_under_bf16_autocast(make, perturb, tolerance):
    """In bf16 a perturbation of 1e-5 would drown in rounding; what it passes through is in fp32."""
    single = make(dtype=torch.float32).eval()
    half = make(dtype=torch.float32, autocast=torch.bfloat16).eval()
    settings = SmartConfig(perturb=perturb)
    for task in ("sst", "qqp", "sts"):
        one, other = (penalty(model, task, settings) for model in (single, half))
        torch.testing.assert_close(one, other, rtol=tolerance, atol=0)


@pytest.mark.parametrize(
    ("smoothing", "encoded_in"),
    [
        (SmartConfig(), {torch.float32}),
        (SmartConfig(perturb="pooled"), {torch.bfloat16}),
        (SmartConfig(perturb="pooled", dropout="eval"), {torch.bfloat16}),
        (SmartConfig(perturb="pooled", bregman=1.0), {torch.float32}),
    ],
)
def test_under_bf16_autocast_only_compared_passes_are_in_fp32(make, smoothing, encoded_in):
    model = make(dtype=torch.float32, autocast=torch.bfloat16)
    teacher, seen = teacher_of(model), set()
    for one in (model, teacher):
        one.encoder.layers[0].feed_forward.up.register_forward_hook(
            lambda module, given, result: seen.add(result.dtype)
        )
    plain = outcome(model, "sst")
    assert seen == {torch.bfloat16}
    seen.clear()
    smooth = outcome(model, "sst", smoothing, teacher)
    assert seen == encoded_in
    assert torch.equal(plain.loss, smooth.loss) == (encoded_in == {torch.bfloat16})


@pytest.mark.parametrize(("every", "due"), [(1, [0, 1, 2, 3, 4, 5]), (3, [2, 5])])
def test_every(every, due):
    def is_due(trained, **settings):
        objective = Objective({"sst": 1.0}, {"sst": SmartConfig(**settings)})
        return bool(objective.due({"sst": trained}).smart)

    assert [step for step in range(6) if is_due(step, every=every)] == due
    assert not is_due(0, weight=0) and is_due(0, weight=0, bregman=1)
