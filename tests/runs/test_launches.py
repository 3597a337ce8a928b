"""A step has few launches on a GPU, against a plain loop of `transformers`, and the host never
waits before the end. Counted on a CPU and on torch's meta device."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

from benchmarks.launch_counter import Waits, launches
from multitask.config import load_config
from multitask.data.collate import Batch, SharedBatch, separate
from multitask.training.gradient_surgery import Surgery, pcgrad
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.step import train_step
from tests.conftest import ROOT, save_tiny_encoder
from tests.support.launches import as_on_a_gpu
from tests.support.small_models import TASKS, sentences

ROWS, LAYERS = 32, 12
PALS = [f"tasks.{task}.adapter={{name: pal, size: 36, heads: 12}}" for task in TASKS]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """As deep as BERT-base, and thin."""
    sizes = {"num_hidden_layers": LAYERS, "hidden_size": 96, "num_attention_heads": 12}
    return save_tiny_encoder(tmp_path_factory.mktemp("deep"), **sizes)


def batch(task: str) -> Batch:
    sides = 1 if task == "sst" else 2
    ids, mask = sentences(sides * ROWS, width=30, seed=len(task))
    labels = {
        "sst": torch.arange(ROWS) % 5,
        "qqp": torch.arange(ROWS) % 2,
        "sts": torch.linspace(0, 5, ROWS),
    }[task]
    lengths = mask.sum(1).numpy()
    return Batch(ids, mask, torch.zeros_like(ids), labels, sides, pad_id=0, lengths=lengths)


def plain_loop(encoder: Path, precision: str) -> Callable[[], None]:
    """One step of what people write: BertModel, a linear layer, fused AdamW, clipping."""
    bert = transformers.BertModel.from_pretrained(encoder, attn_implementation="sdpa").train()
    head = nn.Linear(96, 5)
    parameters = [*bert.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    rows = batch("sst")

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            output = bert(input_ids=rows.input_ids, attention_mask=rows.attention_mask,
                          token_type_ids=rows.token_type_ids)  # fmt: skip
            logits = head(nn.functional.dropout(output.pooler_output, 0.1))
            loss = nn.functional.cross_entropy(logits.float(), rows.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def our_step(
    make, encoder: Path, precision: str, batches: list[SharedBatch], *changes: str, **more: object
) -> Callable[[], None]:
    dtype = torch.bfloat16 if precision == "bf16" else None
    given = [f"encoder.name={encoder}", *changes]
    model = make(*given, dtype=torch.float32, autocast=dtype).train()
    config = load_config(ROOT / "configs" / "cs224n.yaml", given)
    optimizer = build_optimizer(model, config.training, dict.fromkeys(TASKS, 1e-3))
    smart = {name: task.smart for name, task in config.tasks.items() if task.smart is not None}
    objective = Objective(dict.fromkeys(TASKS, 1.0), smart)
    return lambda: train_step(model, [batches], optimizer, objective, clip_norm=1.0, **more)


def count(step: Callable[[], object]) -> int:
    step()  # the optimizer's state is made
    with launches() as counter:
        step()
    return counter.count


@pytest.mark.parametrize(("precision", "most"), [("fp32", 1.05), ("bf16", 0.9)])
def test_a_step_of_one_task_has_hardly_more_launches_than_the_loop(
    make, encoder, precision, most, monkeypatch
):
    loop = count(plain_loop(encoder, precision))
    as_on_a_gpu(monkeypatch)
    one = separate({"sst": batch("sst")})
    ours = count(our_step(make, encoder, precision, one))
    assert ours <= most * loop, (ours, loop)


CASES: dict[str, tuple[float, list[str], list[str]]] = {
    "joint": (1.25, list(TASKS), []),
    "pals": (1.8, ["sst"], PALS),
    "smart": (3.2, ["sst"], ["tasks.sst.smart.weight=1"]),
    "pcgrad": (3.2, list(TASKS), []),
}


@pytest.mark.parametrize("case", CASES)
def test_more_tasks_and_methods_cost_few_launches(make, encoder, case, monkeypatch):
    most, tasks, changes = CASES[case]
    as_on_a_gpu(monkeypatch)
    surgery = Surgery(pcgrad()) if case == "pcgrad" else None
    one, several = separate({"sst": batch("sst")}), separate({task: batch(task) for task in tasks})
    plain = count(our_step(make, encoder, "fp32", one))
    ours = count(our_step(make, encoder, "fp32", several, *changes, surgery=surgery))
    assert ours <= most * plain, (ours, plain)


STEPS = {
    "alternate": (["sst"], []),
    "joint": (list(TASKS), []),
    "smart": (["sst", "sts"], ["tasks.sst.smart.weight=1", "tasks.sts.smart.weight=1"]),
    "pals": (list(TASKS), PALS),
    "hire": (["sst"], ["tasks.sst.pooling=hire"]),
}
# HIRE reads the lengths of its texts for its GRUs: in poolers/hire.py
READS = {"hire": 2}


def away(make, encoder: Path, tasks: list[str], changes: list[str]):
    """A model on the meta device, its batches, and the objective."""
    model = make(f"encoder.name={encoder}", *changes, dtype=torch.float32).train().to("meta")
    config = load_config(ROOT / "configs" / "cs224n.yaml", changes)
    smart = {t: config.tasks[t].smart for t in tasks if config.tasks[t].smart is not None}
    batches = [s.to(torch.device("meta")) for s in separate({t: batch(t) for t in tasks})]
    return model, batches, Objective(dict.fromkeys(tasks, 1.0), smart)


@pytest.mark.parametrize("case", STEPS)
def test_forward_and_backward_never_wait(make, encoder, case):
    """On the meta device every operation that reads a value raises an error, or is counted."""
    tasks, changes = STEPS[case]
    model, batches, objective = away(make, encoder, tasks, changes)
    with Waits() as waits:
        outcomes = objective.losses(model, batches)
        losses = [outcome.loss for outcome in outcomes.values()]
        losses += [outcome.penalty for outcome in outcomes.values() if outcome.penalty is not None]
        torch.stack(losses).sum().backward()
    assert waits.count == READS.get(case, 0)
    assert len(losses) == len(tasks) + len(objective.smart)
    with pytest.raises((RuntimeError, NotImplementedError)):
        losses[0].item()


@pytest.mark.parametrize("case", STEPS)
@pytest.mark.parametrize("surgery", [False, True])
def test_a_step_waits_once_and_once_more_for_surgery(make, encoder, case, surgery):
    tasks, changes = STEPS[case]
    model, batches, objective = away(make, encoder, tasks, changes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # fused AdamW does not run there
    method = Surgery(pcgrad()) if surgery else None
    with Waits() as waits:
        done = train_step(model, [batches], optimizer, objective, clip_norm=1.0, surgery=method)
    assert waits.count == 1 + (surgery and len(tasks) > 1) + READS.get(case, 0)
    assert done.losses == dict.fromkeys(tasks, 1.0)  # what a read gives


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")
@pytest.mark.parametrize("case", [case for case in STEPS if case not in READS])
def test_forward_and_backward_never_wait_for_a_card(make, encoder, case):
    tasks, changes = STEPS[case]
    model = make(f"encoder.name={encoder}", *changes, dtype=torch.float32).train().to("cuda")
    _, _, objective = away(make, encoder, tasks, changes)
    batches = [s.to(torch.device("cuda")) for s in separate({t: batch(t) for t in tasks})]
    torch.cuda.set_sync_debug_mode("error")
    try:
        outcomes = objective.losses(model, batches)
        torch.stack([outcome.loss for outcome in outcomes.values()]).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
