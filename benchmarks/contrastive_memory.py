"""Seconds per step and peak memory of a large contrastive batch, whole and in chunks.

    python -m benchmarks.contrastive_memory DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

configs/simcse/minilm.yaml (equation 7 on the STS texts, packaged MiniLM) in bf16; a process for
each row: one step to warm up, then the median of three. Memory is what it takes at most beyond
what it takes before its first step.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.course_batches import headline, parser, peak_mib, started
from benchmarks.our_trainer import BF16, CONFIG, Stepper, prepared_run
from multitask.reporting.table_formats import markdown_table

PRESET = CONFIG.parent / "simcse" / "minilm.yaml"
SHAPES = [(64, None), (256, None), (1024, None), (1024, 256), (1024, 64)]  # batch, chunk
STEPS = 3


def measured(directory: Path, batch: int, chunk: str) -> tuple[float, float]:
    """Seconds a step, and MiB."""
    head = f"tasks.contrastive.head={{mlp_only_train: true, chunk: {chunk}}}"
    changes = [f"tasks.contrastive.batch_size={batch}", head, BF16]
    with tempfile.TemporaryDirectory() as scratch:
        stepper = Stepper(prepared_run(directory, changes, PRESET), Path(scratch))
        before, seconds = peak_mib(), []
        for _ in range(1 + STEPS):
            began = time.perf_counter()
            stepper.steps(1)
            seconds.append(time.perf_counter() - began)
        stepper.trainer.log.close()
    return statistics.median(seconds[1:]), peak_mib() - before


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--one", nargs=2, metavar=("BATCH", "CHUNK"), help="internal")
    arguments = started(options)
    directory, threads = arguments.directory, arguments.threads
    if arguments.one:
        batch, chunk = arguments.one
        print(*measured(directory, int(batch), chunk))
        return
    lines = []
    for batch, chunk in SHAPES:
        one = ["--threads", str(threads), "--one", str(batch), str(chunk or "null")]
        command = [sys.executable, "-m", "benchmarks.contrastive_memory", str(directory), *one]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        seconds, mib = map(float, done.stdout.split()[-2:])
        lines.append([str(batch), str(chunk or "-"), f"{seconds:.1f}", f"{mib:.0f}"])
    print(headline(threads, 1))
    print(markdown_table(("batch", "chunk", "seconds a step", "peak MiB"), lines))


if __name__ == "__main__":
    main()
