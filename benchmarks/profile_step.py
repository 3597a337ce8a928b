"""Where the time of our training step goes.

    python -m benchmarks.profile_step DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

torch's profiler over whole steps of the trainer (SST, QQP, STS in turn, batches of 32 rows), in
fp32, in bf16 autocast, and so with the compiled kernels. An operator's own time counts for the
first kind whose words its name holds; what no operator of torch takes is "outside torch": Python,
batching, the log. The profiler itself slows the small operators.
"""

import tempfile
import time
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from benchmarks.course_batches import headline, parser, started
from benchmarks.our_trainer import Stepper, prepared_run
from multitask.tables import markdown_table

KINDS = {
    "compiled kernels": ("multitask::",),
    "matrix products": ("::mm", "addmm", "linear"),
    "attention: products and softmax": ("bmm", "softmax", "masked_fill"),
    "rows in and out of groups": ("index_add", "index_select", "scatter", "gather", "::index"),
    "filling with zeros": ("fill_", "zero_"),
    "optimizer": ("adamw",),
    "clipping": ("vector_norm", "foreach"),
    "GELU": ("gelu",),
    "LayerNorm": ("layer_norm",),
    "random numbers": ("random_", "bernoulli"),
    "copies and casts": ("copy_", "_to_copy", "clone", "::cat"),
    "additions, products, sums": ("::add", "::mul", "::sum", "::div", "::where", "::ge", "::sub"),
}
OTHER, OUTSIDE = "other operators", "outside torch"


def shares(stepper: Stepper, count: int) -> dict[str, float]:
    """The share of each kind in the wall time of ``count`` steps."""
    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        stepper.steps(count)
        wall = time.perf_counter() - began
    found = dict.fromkeys([*KINDS, OTHER, OUTSIDE], 0.0)
    for event in profiler.key_averages():
        if "::" in event.key:
            kinds = (k for k, words in KINDS.items() if any(word in event.key for word in words))
            found[next(kinds, OTHER)] += event.self_cpu_time_total / 1e6 / wall
    found[OUTSIDE] = 1 - sum(found.values())
    return found


def main() -> None:
    arguments = started(parser(__doc__, steps=30))
    columns = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("fp32", "bf16", "bf16, compiled kernels"):
            kernels = "compiled" if "compiled" in name else "torch"
            overrides = [f"training.precision={name[:4]}", f"encoder.kernels={kernels}"]
            prepared = prepared_run(arguments.directory, overrides)
            stepper = Stepper(prepared, Path(scratch))
            stepper.steps(6)
            columns[name] = shares(stepper, arguments.steps)
            stepper.trainer.log.close()
    order = sorted(columns["bf16"], key=lambda kind: -columns["bf16"][kind])
    print(headline(arguments.threads, 1))
    rows = [[kind, *(f"{100 * columns[p][kind]:.1f} %" for p in columns)] for kind in order]
    print(markdown_table(("kind", *columns), rows))


if __name__ == "__main__":
    main()
