"""The encoder alone: ours against `transformers` (eager and sdpa), forward and with backward.

    python -m benchmarks.encoder DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Real batches of SST, QQP and STS (random, padded to their longest) and uniform 128-token ones; all
hidden states of the last layer; medians over rounds, all variants in turn in one process. Peak
memory is measured in a separate process for each variant.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.course_batches import (
    BATCH,
    Step,
    headline,
    in_turn,
    matmul_ceilings,
    mixed_steps,
    padded,
    parser,
    peak_mib,
    ratio,
    read_tokens,
    started,
)
from multitask.models.encoders.bert_weights import encoder_from_pretrained
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

FORWARD_FLOP = 64.3e6 / 3  # a useful token through MiniLM's six layers, attention left out
KINDS = ("eager", "sdpa", "ours", "ours, compiled kernels")
PASSES = ("forward", "forward + backward")


def build(kind: str) -> Callable[[Step], Tensor]:
    """The last hidden states of a batch, by one of KINDS, in training mode (with dropout)."""
    name = str(packaged_directory())
    if "ours" in kind:
        encoder = encoder_from_pretrained(name).train()
        if "compiled" in kind:
            encoder.use_kernels("compiled")

        def ours(step: Step) -> Tensor:
            embedded = encoder.embed(step.ids, torch.zeros_like(step.ids), step.mask)
            return encoder.encode(embedded, step.mask, (encoder.num_layers,))[encoder.num_layers]

        return ours
    model: Any = transformers.AutoModel.from_pretrained(
        name, attn_implementation=kind, add_pooling_layer=False
    ).train()
    return lambda step: model(input_ids=step.ids, attention_mask=step.mask).last_hidden_state


def run(encode: Callable[[Step], Tensor], steps: list[Step], backward: bool, bf16: bool) -> None:
    """All batches once."""
    for step in steps:
        with (
            torch.set_grad_enabled(backward),
            torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        ):
            hidden = encode(step)
        if backward:
            (hidden * step.mask.unsqueeze(-1)).sum().backward()


def read_steps(directory: Path) -> dict[str, list[Step]]:
    """Real and uniform batches."""
    tokens = read_tokens(directory, load_tokenizer(str(packaged_directory())), 6000)
    uniform = torch.randint(1000, 30000, (BATCH, 128)).tolist()
    return {
        "SST / QQP / STS": mixed_steps(tokens, 6, grouped=False),
        "128 tokens": [padded("uniform", uniform)] * 2,
    }


def peak(directory: Path, kind: str, work: str, bf16: bool) -> int:
    """MiB that a process takes at most for forward and backward, beyond what it takes to start."""
    arguments = [str(directory), "--peak", kind, work, str(int(bf16))]
    command = [sys.executable, "-m", "benchmarks.encoder", *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(directory: Path, kind: str, work: str, bf16: bool) -> None:
    steps, encode = read_steps(directory)[work], build(kind)
    run(encode, steps[:1], False, bf16)
    before = peak_mib()
    run(encode, steps, True, bf16)
    print(round(peak_mib() - before))


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--peak", nargs=3, metavar=("KIND", "WORK", "BF16"), help="internal")
    arguments = started(options)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.peak:
        kind, work, bf16 = arguments.peak
        print_peak(arguments.directory, kind, work, bf16 == "1")
        return
    encoders = {kind: build(kind) for kind in KINDS}
    ceilings = matmul_ceilings()
    lines = []
    for work, steps in read_steps(arguments.directory).items():
        useful = sum(int(step.mask.sum()) for step in steps)
        for bf16 in (False, True):
            precision = "bf16" if bf16 else "fp32"
            for backward in (False, True):
                variants = {k: partial(run, e, steps, backward, bf16) for k, e in encoders.items()}
                times = in_turn(variants, arguments.rounds)
                for kind in KINDS:
                    rate = useful / statistics.median(times[kind])
                    flops = rate * FORWARD_FLOP * (3 if backward else 1)
                    memory = peak(arguments.directory, kind, work, bf16) if backward else "-"
                    lines.append([
                        work,
                        precision,
                        PASSES[backward],
                        kind,
                        f"{rate:.0f}",
                        f"{ratio(times['sdpa'], times[kind]):.2f}",
                        f"{100 * flops / ceilings[precision]:.0f} %",
                        str(memory),
                    ])  # fmt: skip
    print(headline(arguments.threads, arguments.rounds, ceilings))
    header = "batches|precision|pass|encoder|useful tokens/s|x sdpa|of the matmul ceiling|peak MiB"
    print(markdown_table(header.split("|"), lines))


if __name__ == "__main__":
    main()
