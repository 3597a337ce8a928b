"""Everything that makes the step fast, together, against a plain loop: the same 50 losses.

The loop is what a student writes: `transformers`' BERT on the padded batch, heads by their
formulas, plain AdamW, clipping, the linear schedule.
"""

import json
import shutil

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, cross_entropy
from transformers import BertModel, get_linear_schedule_with_warmup

from multitask.config import load_config
from multitask.data.collate import by_task
from multitask.training.setup import set_up
from multitask.training.trainer import Trainer
from tests.conftest import ROOT

STEPS = 50
SETTINGS = ["tasks.sst.dropout=0.0", f"training.max_steps={STEPS}",
            "training.epochs=20", "training.lr=1e-3"]  # fmt: skip


def without_dropout(encoder, directory):
    shutil.copytree(encoder, directory)
    file = directory / "config.json"
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    file.write_text(json.dumps({**json.loads(file.read_text()), **none}))
    return directory


def plain_loss(encoder, linear, task, batch):
    hidden = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    if task == "sst":
        return cross_entropy(linear["sst"](hidden[:, 0]), batch.labels)
    weights = batch.attention_mask.unsqueeze(-1)
    u, v = ((hidden * weights).sum(1) / weights.sum(1)).chunk(2)
    if task == "qqp":
        logits = linear["qqp"]((u - v).abs()).squeeze(-1)
        return binary_cross_entropy_with_logits(logits, batch.labels.float())
    return (5 * cosine_similarity(u, v) - batch.labels).square().mean()


def plain_optimizer(encoder, linear, training):
    groups = []
    for module, lr in ((encoder, training.lr), (linear, training.head_lr)):
        for decay in (True, False):
            chosen = [p for p in module.parameters() if (p.ndim >= 2) == decay]
            groups.append(
                {"params": chosen, "lr": lr, "weight_decay": training.weight_decay * decay}
            )
    return torch.optim.AdamW(groups, betas=tuple(training.betas), eps=training.eps, fused=False)


@pytest.mark.parametrize(
    "kernels",
    ["torch", pytest.param("compiled", marks=pytest.mark.slow)],  # built: a minute
)
def test_fifty_steps_have_the_losses_of_a_plain_loop(
    kernels, tiny_overrides, tiny_encoder, tmp_path
):
    directory = without_dropout(tiny_encoder, tmp_path / "encoder")
    overrides = [*tiny_overrides, *SETTINGS, f"encoder.name={directory}",
                 f"encoder.kernels={kernels}"]  # fmt: skip
    config = load_config(ROOT / "configs" / "cs224n.yaml", overrides)
    prepared = set_up(config, torch.device("cpu"), lambda line: None)
    if kernels == "compiled" and prepared.model.encoder.kernels == "torch":
        pytest.skip("there is no compiler")
    trainer = Trainer(prepared, tmp_path, lambda line: None)
    encoder = BertModel.from_pretrained(directory, add_pooling_layer=False)
    linear = torch.nn.ModuleDict()
    for task in ("sst", "qqp"):
        layer = prepared.model.head(task).linear
        linear[task] = torch.nn.Linear(layer.in_features, layer.out_features)
        linear[task].load_state_dict(layer.state_dict())
    optimizer = plain_optimizer(encoder, linear, config.training)
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * STEPS), STEPS)

    taken, take = [], trainer.loader.next
    trainer.loader.next = lambda tasks: taken.append(take(tasks)) or taken[-1]
    prepared.model.train()
    ours, plain = [], []
    for _ in range(STEPS):
        trainer.take_step()
        ((task, batch),) = by_task(taken[-1][0]).items()
        loss = plain_loss(encoder, linear, task, batch)
        loss.backward()
        parameters = [*encoder.parameters(), *linear.parameters()]
        torch.nn.utils.clip_grad_norm_(parameters, config.training.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        plain.append(loss.item())
    trainer.log.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    ours = [json.loads(line)["loss"] for line in lines]
    assert ours == pytest.approx(plain, abs=1e-5)
    assert min(plain[-3:]) < min(plain[:3]), "it learns, so the weights did move"
