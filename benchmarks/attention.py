"""Which form of attention is fastest over a ragged batch on this machine: forward and backward.

    python -m benchmarks.attention DIRECTORY-OF-THE-COURSE-FILES [--threads 2] [--device cuda]

MiniLM's 12 heads of width 32 over the packed queries, keys and values of real batches of 32 rows.
`groups S, K`: sequences of similar length together, as ours are
(`multitask.models.encoders.packing`, STRETCH S and SLACK K), with explicit softmax or sdpa
inside. `padded`: the whole batch padded to its longest; `at once, as on a GPU`: in three
operations. All forms in turn in one process; milliseconds are medians over rounds, for all batches
together.
"""

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.course_batches import headline, in_turn, mixed_steps, parser, read_tokens, started
from multitask.models.encoders import packing as packing_module
from multitask.models.encoders.operators import packed_attention, padded_attention
from multitask.models.encoders.packing import Packing
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

HEADS, WIDTH = 12, 384
Attention = Callable[[Tensor, Tensor, Tensor, Packing, int, float], Tensor]


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, heads: int, rate: float
) -> Tensor:
    """As ``packed_attention``, by torch's fused attention within each group."""
    groups = []
    for group in packing.groups:
        q, k, v = (
            group.pad(x).unflatten(2, (heads, -1)).transpose(1, 2) for x in (query, key, value)
        )
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=group.mask, dropout_p=rate)
        groups.append(group.unpad(mixed.transpose(1, 2).flatten(2)))
    return torch.cat(groups)


def packings(masks: list[Tensor], stretch: float, slack: int) -> list[Packing]:
    packing_module.STRETCH, packing_module.SLACK = stretch, slack
    made = [Packing(mask) for mask in masks]
    for packing in made:
        _ = packing.groups  # made on first use, by the constants of then
    return made


def run(attention: Attention, batches: list[tuple[Packing, Tensor]], rate: float) -> None:
    """Forward and backward over all batches."""
    for packing, qkv in batches:
        inputs = qkv.requires_grad_()
        kind = qkv.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=qkv.dtype == torch.bfloat16):
            query, key, value = inputs.chunk(3, dim=-1)
            output = attention(query, key, value, packing, HEADS, rate)
        output.backward(torch.ones_like(output))
        inputs.grad = None
    if kind == "cuda":
        torch.cuda.synchronize()


def as_on_a_gpu(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, heads: int, rate: float
) -> Tensor:
    """As ``packed_attention``, in the form that a GPU gets."""
    projected = torch.cat([query, key, value], dim=-1)
    return padded_attention(projected, packing, heads, rate, query=None)


def main() -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--device", default="cpu")
    arguments = started(options)
    tokens = read_tokens(arguments.directory, load_tokenizer(str(packaged_directory())), 3000)
    masks = [step.mask for step in mixed_steps(tokens, 6, grouped=False)]
    masks = [mask.to(arguments.device) for mask in masks]
    packed = {
        "groups 1.3, 3": packings(masks, 1.3, 3),
        "groups 1.15, 2": packings(masks, 1.15, 2),
        "groups 1, 0 (equal lengths)": packings(masks, 1, 0),
        "padded": packings(masks, 1e9, 0),
    }
    forms: dict[str, Attention] = {"explicit": packed_attention, "sdpa": sdpa_attention}
    lines = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [torch.randn(int(m.sum()), 3 * WIDTH).to(m.device, dtype) for m in masks]
        times = {}
        for rate in (0.0, 0.1):
            variants = {
                (name, form): partial(run, attention, list(zip(made, inputs, strict=True)), rate)
                for name, made in packed.items()
                for form, attention in forms.items()
            }
            every = list(zip(packed["padded"], inputs, strict=True))
            variants["padded at once, as on a GPU", "sdpa"] = partial(run, as_on_a_gpu, every, rate)
            named = {" / ".join(key): variant for key, variant in variants.items()}
            times[rate] = in_turn(named, arguments.rounds)
        for name in times[0.0]:
            cells = [f"{1e3 * statistics.median(times[rate][name]):.0f}" for rate in times]
            lines.append([str(dtype).removeprefix("torch."), *name.split(" / "), *cells])
    print(headline(arguments.threads, arguments.rounds))
    header = ("precision", "sequences", "form", "ms without dropout", "ms with dropout .1")
    print(markdown_table(header, lines))


if __name__ == "__main__":
    main()
