"""What the poolers cost on top of the encoder: time beside [CLS], forward and with backward.

    python -m benchmarks.poolers DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Packaged MiniLM, real batches of SST, QQP and STS (random, padded to their longest), encoder and
pooler in training mode; medians over rounds, all variants in turn in one process.
"""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from benchmarks.course_batches import (
    Step,
    headline,
    in_turn,
    mixed_steps,
    parser,
    ratio,
    read_tokens,
    started,
)
from multitask.encoders import BertEncoder
from multitask.encoders.bert_weights import encoder_from_pretrained
from multitask.poolers import fusion, layer_scores
from multitask.pretrained import load_tokenizer, packaged_directory
from multitask.registry import build
from multitask.tables import markdown_table

TORCHS = "hire, torch's GRU"
VARIANTS = {
    "cls": {},
    "mean": {},
    "max_cls": {},
    "mha": {},
    "max_seq_mha": {},
    "mean_seq_mha": {},
    "hire": {},
    TORCHS: {},
    "hire, states_at_once 1": {"states_at_once": 1},
    "hire, fusion_layers null": {"fusion_layers": None},
    "hire, scores mean": {"scores": "mean"},
}


def run(
    encoder: BertEncoder,
    pooler: nn.Module,
    steps: list[Step],
    backward: bool,
    bf16: bool,
    run_gru: Callable[[nn.GRU, PackedSequence], Any],
) -> None:
    """All batches once."""
    layer_scores.run_gru = fusion.run_gru = run_gru
    for step in steps:
        with (
            torch.set_grad_enabled(backward),
            torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        ):
            embedded = encoder.embed(step.ids, torch.zeros_like(step.ids), step.mask)
            hidden = encoder.encode(embedded, step.mask, pooler.layers, pooler.tokens)
            vectors = pooler(hidden, step.mask)
        if backward:
            vectors.sum().backward()


def main() -> None:
    arguments = started(parser(__doc__, rounds=5))
    name = str(packaged_directory())
    encoder = encoder_from_pretrained(name).train()
    context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
    poolers = {
        variant: build("pooling", variant.partition(",")[0], options, context)
        for variant, options in VARIANTS.items()
    }
    steps = mixed_steps(
        read_tokens(arguments.directory, load_tokenizer(name), 6000), 3, grouped=False
    )
    grus = (layer_scores.run_gru, lambda gru, packed: gru(packed))
    lines = []
    for bf16 in (False, True):
        for backward in (False, True):
            variants = {
                n: partial(run, encoder, p, steps, backward, bf16, grus[n == TORCHS])
                for n, p in poolers.items()
            }
            times = in_turn(variants, arguments.rounds)
            for variant in VARIANTS:
                lines.append([
                    "bf16" if bf16 else "fp32",
                    "forward + backward" if backward else "forward",
                    variant,
                    f"{1000 * statistics.median(times[variant]) / len(steps):.0f}",
                    f"{1 / ratio(times['cls'], times[variant]):.2f}",
                ])  # fmt: skip
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table("precision|pass|pooling|ms a batch|x cls".split("|"), lines))


if __name__ == "__main__":
    main()
