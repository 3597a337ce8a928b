"""Work on an idle and on a busy machine, by how long OpenMP's threads spin.

    python -m benchmarks.busy DIRECTORY-OF-THE-COURSE-FILES [--spins 300000 10000 0] [--only NAME]

A thread of libgomp that waits for the other threads first spins and then sleeps. `GOMP_SPINCOUNT`
says how long it spins (multitask/utils/waiting.py). Each measurement is a process: alone, beside
processes that only count (one per core), or beside a second one with the same work. It repeats its
work for some seconds and takes the median time, without the first. All variants run in turn, and
the ratios are per round. The time of "two at once" is that of the slower process.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import torch

from benchmarks.course_batches import headline, mixed_steps, parser, read_tokens, started
from benchmarks.our_trainer import BF16, COMPILED, CONFIG, FP32, Stepper, prepared_run
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table
from multitask.utils.waiting import SPINS

ROOT = CONFIG.parent.parent
LIBRARY = 300_000  # how often libgomp spins if no variable is set
LONG_ENOUGH = 4.0  # seconds
IDLE, BUSY, TWICE = LOADS = ("idle", "busy", "two at once")
Work = Callable[[], object]


def training(directory: Path, scratch: Path, *changes: str) -> Work:
    return partial(Stepper(prepared_run(directory, changes), scratch).steps, 6)


def evaluation(directory: Path, scratch: Path) -> Work:
    plan = prepared_run(directory, [BF16])
    return partial(plan.scorer.score, "sts", plan.data.splits["sts"]["dev"])


def encode(directory: Path, scratch: Path) -> Work:
    from benchmarks.encode import ENCODERS, sentences

    name = "ours, bf16"
    return partial(ENCODERS[name](str(packaged_directory()), name), sentences(directory, 1000))


def loop(directory: Path, scratch: Path) -> Work:
    from benchmarks.training_step import Loop, train

    name = str(packaged_directory())
    model = Loop(name)
    steps = mixed_steps(read_tokens(directory, load_tokenizer(name), 3000), 3, grouped=False)
    return partial(train, model, torch.optim.AdamW(model.parameters(), 1e-5), steps, "fp32")


def command(directory: Path, scratch: Path, *launcher: str) -> Work:
    """A complete run of 12 steps on the embedded rows, start-up and dev scores included."""
    arguments = [*launcher, "run_multitask.py", "configs/demo.yaml", "--overwrite"]
    arguments += ["training.frozen_baseline=false", "training.max_steps=12"]
    arguments += [f"output_dir={scratch / 'run'}"]
    return partial(subprocess.run, [sys.executable, *arguments], check=True, capture_output=True)


WORK: dict[str, Callable[[Path, Path], Work]] = {
    "6 steps, bf16": lambda *places: training(*places, BF16),
    "6 steps, fp32": lambda *places: training(*places, FP32),
    "6 steps, bf16, compiled kernels": lambda *places: training(*places, BF16, COMPILED),
    "scores of STS dev, bf16": evaluation,
    "1,000 sentences to vectors, bf16": encode,
    "3 steps, transformers loop": loop,
    "a run of 12 steps": command,
    "a run of 12 steps on two ranks": lambda *places: command(
        *places, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"
    ),
}


def median_time(name: str, directory: Path) -> float:
    """The median seconds of a work, done again for ``LONG_ENOUGH`` seconds, without the first."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        work = WORK[name](directory, Path(scratch))
        while len(times) < 2 or sum(times[1:]) < LONG_ENOUGH:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


@contextmanager
def counting(processes: int) -> Iterator[None]:
    """Keep so many processes counting."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measured(name: str, directory: Path, spins: int, load: str, threads: int) -> float:
    """Seconds of a work under a load; the slower of two for "two at once"."""
    variables = {**os.environ, "GOMP_SPINCOUNT": str(spins)}
    call = [sys.executable, "-m", "benchmarks.busy", str(directory), f"--work={name}"]
    call.append(f"--threads={threads}")
    start = partial(
        subprocess.Popen, call, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True
    )
    with counting((os.cpu_count() or 1) if load == BUSY else 0):
        processes = [start() for _ in range(2 if load == TWICE else 1)]
        printed = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{name}: failed")
    return max(float(text.split()[-1]) for text in printed)


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--spins", type=int, nargs="+", default=[LIBRARY, SPINS, 0])
    options.add_argument("--only", nargs="+", choices=WORK, default=list(WORK))
    options.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    options.add_argument("--work", choices=WORK, help="do this work and print its seconds")
    arguments = started(options)
    if arguments.work:
        print(median_time(arguments.work, arguments.directory))
        return
    variants = list(product(arguments.only, arguments.spins, arguments.loads))
    times: dict[tuple[str, int, str], list[float]] = {variant: [] for variant in variants}
    for _ in range(arguments.rounds):
        for name, spins, load in variants:
            taken = measured(name, arguments.directory, spins, load, threads=arguments.threads)
            times[name, spins, load].append(taken)
            print(f"{name}, {spins} spins, {load}: {taken:.2f} s", file=sys.stderr, flush=True)
    print(headline(arguments.threads, arguments.rounds))
    header = ("work", "spins", *(f"seconds, {load}" for load in arguments.loads))
    header += (*(f"{load}, x idle" for load in arguments.loads[1:]), "idle, x 1st")
    keys = product(arguments.only, arguments.spins)
    print(markdown_table(header, [line(times, *key) for key in keys]))


def line(times: dict[tuple[str, int, str], list[float]], name: str, spins: int) -> list[str]:
    """The table's row of a work and a number of spins."""
    loads = {load: seconds for (n, s, load), seconds in times.items() if (n, s) == (name, spins)}
    first = next(seconds for (n, _, load), seconds in times.items() if (n, load) == (name, IDLE))
    slower = [f"{over(seconds, loads[IDLE]):.2f}" for seconds in list(loads.values())[1:]]
    medians = [f"{statistics.median(seconds):.1f}" for seconds in loads.values()]
    return [name, str(spins), *medians, *slower, f"{over(loads[IDLE], first):.2f}"]


def over(seconds: list[float], base: list[float]) -> float:
    """How many times as long as ``base``: the median over rounds."""
    return statistics.median(a / b for a, b in zip(seconds, base, strict=True))


if __name__ == "__main__":
    main()
