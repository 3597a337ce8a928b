"""The cost of BitLinear layers: training steps and scoring, relative to the plain encoder.

    python -m benchmarks.bitlinear DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Packaged MiniLM with compiled kernels, real batches of SST, QQP and STS grouped by length; all
linear layers of the encoder are quantised. `gradual` is in the middle of its gradual start. All
variants run in turn in one process, ratios are medians over rounds.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import torch

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
from benchmarks.training_step import Ours, train
from multitask.models.encoders.bitlinear import quantise, set_strength
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

# variant: the strength lambda of its quantisation, None for plain layers
GRADUAL = "BitLinear, gradual"
STRENGTHS = {"plain": None, "BitLinear": 1.0, GRADUAL: 0.5}
HEADER = "precision|pass|layers|ms a batch|x plain"


def made(name: str, strength: float | None) -> Ours:
    """Our encoder with its heads, quantised by ``strength``."""
    model = Ours(name, "kernels")
    if strength is not None:
        quantise(model.encoder)
        set_strength(model.encoder, 1.0, strength)
    return model


@torch.no_grad()
def score(model: Ours, steps: Sequence[Step], precision: str) -> None:
    """One forward pass a batch, in evaluation mode."""
    model.eval()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        for step in steps:
            model(step)


def main() -> None:
    arguments = started(parser(__doc__, rounds=5, steps=6))
    name = str(packaged_directory())
    tokens = read_tokens(arguments.directory, load_tokenizer(name), 6000)
    steps = mixed_steps(tokens, arguments.steps, grouped=True)
    models = {variant: made(name, strength) for variant, strength in STRENGTHS.items()}
    lines = []
    for precision in ("fp32", "bf16"):
        passes: dict[str, dict[str, Callable[[], object]]] = {"training step": {}, "scoring": {}}
        for variant, model in models.items():
            optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
            step = partial(train, model, optimizer, steps, precision)
            passes["training step"][variant] = step
            if variant != GRADUAL:  # scores are always fully quantised
                passes["scoring"][variant] = partial(score, model, steps, precision)
        for title, runs in passes.items():
            times = in_turn(runs, arguments.rounds)
            for variant, seconds in times.items():
                cost = 1000 * statistics.median(seconds) / len(steps)
                relative = 1 / ratio(times["plain"], seconds)
                lines.append([precision, title, variant, f"{cost:.0f}", f"{relative:.2f}"])
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(HEADER.split("|"), lines))


if __name__ == "__main__":
    main()
