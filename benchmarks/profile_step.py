"""Where the time of a training step goes: a plain `transformers` loop's, then ours.

    python -m benchmarks.profile_step DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

torch's profiler over whole steps (SST, QQP, STS in turn, batches of 32 rows): of the loop of
benchmarks/training_step.py, and of the trainer in fp32, in bf16 autocast, and so with the compiled
kernels. An operator's own time counts for the first kind whose words its name holds, but inside
the optimizer, batching or the embeddings' gradient for that; what no operator of torch takes is
"outside torch": Python, the log. The profiler itself slows the small operators.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.course_batches import headline, mixed_steps, parser, read_tokens, started
from benchmarks.our_trainer import BATCHING, Stepper, prepared_run
from benchmarks.training_step import Loop, train
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table

KINDS = {
    "compiled kernels": ("multitask::",),
    "matrix products": ("::mm", "addmm", "linear"),
    "attention: products and softmax": ("bmm", "softmax", "scaled_dot", "masked_fill"),
    "rows in and out of groups": ("index_add", "index_select", "scatter", "gather", "::index"),
    "filling with zeros": ("fill_", "zero_"),
    "clipping": ("vector_norm", "foreach"),
    "GELU": ("gelu",),
    "LayerNorm": ("layer_norm",),
    "random numbers": ("random_", "bernoulli"),
    "copies and casts": ("copy_", "_to_copy", "clone", "::cat"),
    "additions, products, sums": ("::add", "::mul", "::sum", "::div", "::where", "::ge", "::sub"),
}
INSIDE = {  # with all that is called there
    "Optimizer.step": "optimizer",
    BATCHING: BATCHING,
    "aten::embedding_dense_backward": "gradient of the embeddings, its zeros too",
}
OTHER, OUTSIDE = "other operators", "outside torch"
OURS = {  # the column's title: precision and kernels
    "fp32": ("fp32", "torch"),
    "bf16": ("bf16", "torch"),
    "bf16, compiled kernels": ("bf16", "compiled"),
}


def seconds(steps: Callable[[], object]) -> dict[str, float]:
    """Measure the share of each kind in the wall time of these steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        steps()
        wall = time.perf_counter() - began
    by_kind = dict.fromkeys([*KINDS, *INSIDE.values(), OTHER, OUTSIDE], 0.0)
    for event in profiler.events() or ():
        if kind := _kind(event):
            by_kind[kind] += event.self_cpu_time_total / 1e6
    by_kind[OUTSIDE] = wall - sum(by_kind.values())
    return by_kind


def _kind(event: torch.autograd.profiler_util.FunctionEvent) -> str | None:
    """None: no operator, and inside none of ``INSIDE``."""
    above: torch.autograd.profiler_util.FunctionEvent | None = event
    while above is not None:
        for name, kind in INSIDE.items():
            if above.name.startswith(name):
                return kind
        above = above.cpu_parent
    if "::" not in event.name:
        return None
    kinds = (k for k, words in KINDS.items() if any(word in event.name for word in words))
    return next(kinds, OTHER)


def loop_seconds(directory: Path, count: int) -> dict[str, float]:
    """That of the plain loop."""
    name = str(packaged_directory())
    model = Loop(name)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    tokens = read_tokens(directory, load_tokenizer(name), 6000)
    batches = mixed_steps(tokens, 6 + count, grouped=False)
    train(model, optimizer, batches[:6], "fp32")
    return seconds(partial(train, model, optimizer, batches[6:], "fp32"))


def main() -> None:
    arguments = started(parser(__doc__, steps=30))
    columns = {"transformers loop, fp32": loop_seconds(arguments.directory, arguments.steps)}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (precision, kernels) in OURS.items():
            overrides = [f"training.precision={precision}", f"encoder.kernels={kernels}"]
            stepper = Stepper(prepared_run(arguments.directory, overrides), Path(scratch))
            stepper.steps(6)
            columns[f"ours, {name}"] = seconds(partial(stepper.steps, arguments.steps))
            stepper.trainer.log.close()
    kinds = sorted(columns["ours, bf16"], key=lambda kind: -columns["ours, bf16"][kind])
    walls = {name: sum(column.values()) for name, column in columns.items()}
    rows = [["milliseconds a step", *(f"{1e3 * walls[c] / arguments.steps:.0f}" for c in columns)]]
    rows += [
        [kind, *(f"{100 * columns[c][kind] / walls[c]:.1f} %" for c in columns)] for kind in kinds
    ]
    print(headline(arguments.threads, 1))
    print(markdown_table(("kind", *columns), rows))


if __name__ == "__main__":
    main()
