"""A full training step on mixed SST / QQP / STS batches: ours against a plain `transformers` loop.

    python -m benchmarks.training_step DIRECTORY-OF-THE-COURSE-FILES [--threads 2] [--size base]

The loop is what a good student writes: AutoModel with sdpa, one call for a pair, random batches
padded to their longest, fp32, the default AdamW. The course's own loop has eager attention and a
call for each side of a pair. All variants run in turn in one process; the ratio is of useful (not
padding) tokens a second to the loop in the same round, its median over rounds. `--size base` takes
random weights of BERT-base's size under the same tokenizer, `--size mpnet` those of MPNet-base, for
which `transformers` has eager attention alone; `--no-bf16` leaves the rows of bf16 out, which take
minutes where the processor has no such products.
"""

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.course_batches import (
    SIZES,
    Step,
    headline,
    in_turn,
    matmul_ceilings,
    mixed_steps,
    parser,
    ratio,
    read_tokens,
    started,
    weights,
)
from multitask.models import linear
from multitask.models.encoders import bert_weights, hf
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

# A training step of all layers: 3 x 2 x weights of their matrix products
FLOP_PER_TOKEN = {"minilm": 64.3e6, "base": 509.6e6, "mpnet": 509.6e6}
ONEDNN = linear.ONEDNN
# what `multitask.models.linear` does not take here: see there
OTHER = "fp32, products by " + ("torch's usual library" if ONEDNN else "oneDNN")
INDUCTOR = "torch.compile of the feed-forward"


class Loop(nn.Module):
    """AutoModel and linear heads on CLS / MEAN / MEAN; ``calls`` for the two sides of a pair."""

    def __init__(self, name: str, attention: str = "sdpa", calls: int = 1) -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(
            name, attn_implementation=attention, add_pooling_layer=False
        )
        self.heads = heads(self.encoder.config.hidden_size)
        self.calls = calls

    def forward(self, step: Step) -> Tensor:
        calls = 1 if step.task == "sst" else self.calls
        sides = zip(step.ids.chunk(calls), step.mask.chunk(calls), strict=True)
        hidden = [self.encoder(input_ids=i, attention_mask=m).last_hidden_state for i, m in sides]
        return loss(self.heads, step, torch.cat(hidden))


class Ours(nn.Module):
    """Our encoder under the same heads; ``how`` it is compiled, or "transformers" for theirs."""

    def __init__(self, name: str, how: str | None = None) -> None:
        super().__init__()
        pretrained = hf if how == "transformers" else bert_weights
        self.encoder: Any = pretrained.encoder_from_pretrained(name)
        layer: Any
        if how == "kernels":
            self.encoder.use_kernels("compiled")
        if how == "torch.compile":  # not our dropout, nor attention, by groups of any size
            for layer in self.encoder.layers:
                layer.feed_forward.compile(dynamic=True)
        self.heads = heads(self.encoder.dim)

    def forward(self, step: Step) -> Tensor:
        last, tokens = self.encoder.num_layers, "first" if step.task == "sst" else "all"
        packing = self.encoder.packing(step.mask)
        embedded = self.encoder.embed(step.ids, torch.zeros_like(step.ids), step.mask, packing)
        hidden = self.encoder.encode(embedded, step.mask, (last,), tokens, packing=packing)
        return loss(self.heads, step, hidden[last])


def heads(dim: int) -> nn.ModuleDict:
    return nn.ModuleDict({"sst": nn.Linear(dim, 5), "qqp": nn.Linear(dim, 1)})


def loss(heads: nn.ModuleDict, step: Step, hidden: Tensor) -> Tensor:
    """The task's loss; the labels are constant, which costs the same."""
    if step.task == "sst":
        logits = heads["sst"](hidden[:, 0]).float()
        return nn.functional.cross_entropy(logits, logits.new_zeros(len(logits)).long())
    weights = step.mask.unsqueeze(-1)
    u, v = ((hidden * weights).sum(1) / weights.sum(1)).float().chunk(2)
    if step.task == "qqp":
        logits = heads["qqp"]((u - v).abs()).squeeze(1).float()
        return nn.functional.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits))
    return (5 * nn.functional.cosine_similarity(u, v)).square().mean()


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: Sequence[Step], precision: str
) -> None:
    """One training step a batch, in "fp32", "bf16" (autocast) or ``OTHER``."""
    linear.ONEDNN = not ONEDNN if precision == OTHER else ONEDNN
    model.train()
    for step in steps:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main() -> None:
    options = parser(__doc__, rounds=5, steps=12)
    options.add_argument("--size", choices=SIZES, default="minilm")
    options.add_argument("--no-bf16", action="store_true")
    arguments = started(options)
    transformers.logging.set_verbosity_error()
    with weights(arguments.size) as name:
        measure(arguments, name)


def measure(arguments: argparse.Namespace, name: str) -> None:
    """Print the table for the weights in directory ``name``."""
    tokens = read_tokens(arguments.directory, load_tokenizer(name), 6000)
    batches = {g: mixed_steps(tokens, arguments.steps, grouped=g) for g in (False, True)}
    usual = "eager" if arguments.size == "mpnet" else "sdpa"
    loop, ours, course = Loop(name, usual), Ours(name), Loop(name, "eager", calls=2)
    kernels, inductor = Ours(name, "kernels"), Ours(name, "torch.compile")
    theirs = Ours(name, "transformers")
    optimizers = [
        torch.optim.AdamW(loop.parameters(), 1e-5),
        torch.optim.AdamW(loop.parameters(), 1e-5, fused=True),
        torch.optim.AdamW(ours.parameters(), 1e-5, fused=True),
        torch.optim.AdamW(course.parameters(), 1e-5),
        torch.optim.AdamW(kernels.parameters(), 1e-5, fused=True),
        torch.optim.AdamW(inductor.parameters(), 1e-5, fused=True),
        torch.optim.AdamW(theirs.parameters(), 1e-5, fused=True),
    ]
    variants = {  # name: (model, optimizer, length-grouped batches, precision)
        "the course's loop": (course, optimizers[3], False, "fp32"),
        "transformers loop": (loop, optimizers[0], False, "fp32"),
        "+ grouped, fused AdamW": (loop, optimizers[1], True, "fp32"),
        "+ grouped, fused AdamW, bf16": (loop, optimizers[1], True, "bf16"),
        "our trainer on transformers, grouped, fp32": (theirs, optimizers[6], True, "fp32"),
        "our trainer on transformers, grouped, bf16": (theirs, optimizers[6], True, "bf16"),
        "ours, fp32": (ours, optimizers[2], False, "fp32"),
        "ours, grouped, fp32": (ours, optimizers[2], True, "fp32"),
        f"ours, grouped, {OTHER}": (ours, optimizers[2], True, OTHER),
        "ours, bf16": (ours, optimizers[2], False, "bf16"),
        "ours, grouped, bf16": (ours, optimizers[2], True, "bf16"),
        f"ours, grouped, bf16, {INDUCTOR}": (inductor, optimizers[5], True, "bf16"),
        "ours, grouped, fp32, compiled kernels": (kernels, optimizers[4], True, "fp32"),
        "ours, grouped, bf16, compiled kernels": (kernels, optimizers[4], True, "bf16"),
    }
    if arguments.no_bf16:
        variants = {name: given for name, given in variants.items() if given[3] != "bf16"}
    runs = {
        name: partial(train, model, optimizer, batches[grouped], precision)
        for name, (model, optimizer, grouped, precision) in variants.items()
    }
    useful = {g: sum(int(step.mask.sum()) for step in steps) for g, steps in batches.items()}
    ceilings = matmul_ceilings()
    times = in_turn(runs, arguments.rounds)
    base = times["transformers loop"]
    lines = []
    for name, (_, _, grouped, precision) in variants.items():
        rate = useful[grouped] / statistics.median(times[name])
        times_as_fast = ratio(base, times[name]) * useful[grouped] / useful[False]
        ceiling = ceilings["bf16" if precision == "bf16" else "fp32"]
        share = rate * FLOP_PER_TOKEN[arguments.size] / ceiling
        lines.append([name, f"{rate:.0f}", f"{times_as_fast:.2f}", f"{100 * share:.0f} %"])
    print(headline(arguments.threads, arguments.rounds, ceilings))
    print(markdown_table(("step", "useful tokens/s", "x loop", "of the matmul ceiling"), lines))


if __name__ == "__main__":
    main()
