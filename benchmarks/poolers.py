"""The cost of the poolers on top of the encoder: time relative to [CLS], forward and with backward.

    python -m benchmarks.poolers DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Packaged MiniLM, real batches of SST, QQP and STS (random, padded to their longest), encoder and
pooler in training mode; medians over rounds, all variants in turn in one process. There are two
baselines: [CLS], for which the last layer computes a single token, and [CLS] of a whole last layer,
which is what poolers of all its tokens need.
"""

import statistics
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
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
from multitask.config.registry import build
from multitask.models.encoders import BertEncoder
from multitask.models.encoders.bert_weights import encoder_from_pretrained
from multitask.models.packaged_weights import packaged_directory
from multitask.models.poolers import attending, gru, hire
from multitask.models.poolers.gru import final_states
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

TORCHS_ATTENTION = "mha, torch's attention"
TORCHS_GRU = "hire, torch's GRU"
WHOLE_LAYER = "cls, whole last layer"
WHOLE = "hire, last fusion layer whole"
WHOLE_MEAN = "hire, scores mean, last fusion layer whole"
VARIANTS: dict[str, dict[str, object]] = {
    "cls": {},
    WHOLE_LAYER: {},
    "mean": {},
    "max_cls": {},
    "mha": {},
    TORCHS_ATTENTION: {},
    "max_seq_mha": {},
    "mean_seq_mha": {},
    "hire": {},
    TORCHS_GRU: {},
    WHOLE: {},
    "hire, states_at_once 1": {"states_at_once": 1},
    "hire, fusion_layers null": {"fusion_layers": None},
    "hire, scores mean": {"scores": "mean"},
    WHOLE_MEAN: {"scores": "mean"},
}
HEADER = "precision|pass|pooling|ms a batch|x cls|x whole last layer"
OURS: tuple[Any, ...] = (gru.steps_here, hire.first_outputs, attending.attend)


def torchs_attention(attention: nn.MultiheadAttention, sequence: Tensor, mask: Tensor) -> Tensor:
    """PyTorch's own module in place of ``attend``: keys and values of all tokens."""
    query, ignored = sequence[:, :1], mask == 0
    attended: Tensor = attention(query, sequence, sequence, ignored, need_weights=False)[0]
    return attended[:, 0]


def whole_layer(gru: nn.GRU, packed: PackedSequence) -> Tensor:
    """In place of ``first_outputs``: of as many numbers, the forward half over all tokens."""
    return torch.cat([*final_states(gru, packed)[-2:]], dim=-1)


def run(
    encoder: BertEncoder,
    pooler: Any,
    steps: list[Step],
    backward: bool,
    bf16: bool,
    variant: str,
) -> None:
    """All batches once."""
    gru.steps_here, hire.first_outputs, attending.attend = OURS
    if variant == TORCHS_GRU:
        gru.steps_here = lambda packed: False
    if variant in (WHOLE, WHOLE_MEAN):
        hire.first_outputs = whole_layer
    if variant == TORCHS_ATTENTION:
        attending.attend = torchs_attention
    for step in steps:
        with (
            torch.set_grad_enabled(backward),
            torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        ):
            embedded = encoder.embed(step.ids, torch.zeros_like(step.ids), step.mask)
            tokens = "all" if variant == WHOLE_LAYER else pooler.tokens
            hidden = encoder.encode(embedded, step.mask, pooler.layers, tokens)
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
    lines = []
    for bf16 in (False, True):
        for backward in (False, True):
            variants = {
                n: partial(run, encoder, p, steps, backward, bf16, n) for n, p in poolers.items()
            }
            times = in_turn(variants, arguments.rounds)
            for variant in VARIANTS:
                lines.append([
                    "bf16" if bf16 else "fp32",
                    "forward + backward" if backward else "forward",
                    variant,
                    f"{1000 * statistics.median(times[variant]) / len(steps):.0f}",
                    f"{1 / ratio(times['cls'], times[variant]):.2f}",
                    f"{1 / ratio(times[WHOLE_LAYER], times[variant]):.2f}",
                ])  # fmt: skip
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(HEADER.split("|"), lines))


if __name__ == "__main__":
    main()
