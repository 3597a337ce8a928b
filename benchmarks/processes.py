"""Start-up times, and peak memory, of complete processes.

    python -m benchmarks.processes DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Start-up: `--help`, a config error, `check`, and a run's first training step, with no cached tokens
and with them; wall seconds from the start of the process, medians over rounds, in turn.

Then work in a separate process, its seconds and the largest resident size of the process: 60
mixed training steps (batches of 32) of a plain `transformers` loop (see
benchmarks/training_step.py) and of ours; 60 steps of the trainers of benchmarks/trainers.py; 5,000
sentences to vectors, as in benchmarks/encode.py. Ours with huge pages for large tensors, as
run_multitask.py asks for, and once without.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.course_batches import headline, mixed_steps, parser, read_tokens, started
from benchmarks.our_trainer import BF16, COMPILED, CONFIG, FP32, Stepper, prepared_run
from multitask.models.packaged_weights import packaged_directory
from multitask.reporting.table_formats import markdown_table
from multitask.store.run_directory import RunDirectory

ROOT = CONFIG.parent.parent
PROGRAM = [sys.executable, str(ROOT / "run_multitask.py")]
STEPS = 60


def seconds(command: Sequence[str], variables: Mapping[str, str], code: int = 0) -> float:
    """Wall seconds of a command that ends with this exit code."""
    began = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True)
    taken = time.perf_counter() - began
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")
    return taken


def first_step(command: Sequence[str], output: Path, variables: Mapping[str, str]) -> float:
    """Wall seconds from the start of a run to the log of its first step; the run is ended there."""
    log = RunDirectory(output).metrics
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, f"output_dir={output}"],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (log.is_file() and b'"event": "step"' in log.read_bytes()):
        if process.poll() is not None:
            raise SystemExit(f"{' '.join(command)}: ended before its first step")
        time.sleep(0.005)
    taken = time.perf_counter() - began
    process.kill()
    process.wait()
    return taken


def start_up(directory: Path, scratch: Path, rounds: int) -> list[list[str]]:
    """A line for each start."""
    cold = map(str, range(2 * rounds))

    def cache(fresh: bool) -> dict[str, str]:
        return {"MULTITASK_CACHE": str(scratch / (next(cold) if fresh else "warm"))}

    config, data = str(CONFIG), f"data_dir={directory}"
    train = [*PROGRAM, config, data, "training.frozen_baseline=false"]
    outputs = map(str, range(10 * rounds))

    def step(fresh: bool) -> float:
        return first_step(train, scratch / "runs" / next(outputs), cache(fresh))

    step(fresh=False)  # fills the warm cache
    starts: dict[str, Callable[[], float]] = {
        "`--help`": partial(seconds, [*PROGRAM, "--help"], {}),
        "a config error": partial(seconds, [*PROGRAM, config, "tasks.sst.poling=cls"], {}, 2),
        "`check`": lambda: seconds([*PROGRAM, "check", config, data], cache(fresh=False)),
        "first training step, nothing cached": lambda: step(fresh=True),
        "first training step, cached tokens": lambda: step(fresh=False),
    }
    times: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(rounds):
        for name, start in starts.items():
            times[name].append(start())
    return [[name, f"{statistics.median(seconds):.2f}"] for name, seconds in times.items()]


def train_ours(directory: Path, *changes: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Stepper(prepared_run(directory, changes), Path(scratch)).steps(STEPS)


def train_loop(directory: Path) -> None:
    from benchmarks.training_step import Loop, train
    from multitask.models.pretrained import load_tokenizer

    name = str(packaged_directory())
    tokens = read_tokens(directory, load_tokenizer(name), 3000)
    loop = Loop(name)
    optimizer = torch.optim.AdamW(loop.parameters(), 1e-5)
    steps = mixed_steps(tokens, STEPS, grouped=False)
    train(loop, optimizer, steps, "fp32")


def train_steps(directory: Path, work: str, number: int) -> None:
    """By a trainer of benchmarks/trainers.py: the first is the peer's default."""
    from benchmarks.trainers import WARM, contenders

    trainers = contenders(directory, work, STEPS - WARM, str(packaged_directory()))
    list(trainers.values())[number]()


def encode_sentences(directory: Path, name: str) -> None:
    from benchmarks.encode import ENCODERS, SENTENCES, sentences

    ENCODERS[name](str(packaged_directory()), name)(sentences(directory, SENTENCES["minilm"]))


HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"  # run_multitask.py sets it
MIXED, VECTORS = f"{STEPS} mixed steps", "5,000 sentences to vectors"
# the first of a kind of work is what the others of its kind are compared with
WORK: dict[tuple[str, str], Callable[[Path], None]] = {
    (MIXED, "transformers loop"): train_loop,
    (MIXED, "ours, fp32"): lambda directory: train_ours(directory, FP32),
    (MIXED, "ours, bf16"): lambda directory: train_ours(directory, BF16),
    (MIXED, "ours, bf16, usual pages"): lambda directory: train_ours(directory, BF16),
    (MIXED, "ours, bf16, compiled kernels"): lambda d: train_ours(d, BF16, COMPILED),
    **{
        (f"{STEPS} steps, {work}", name): partial(train_steps, work=work, number=number)
        for work, peer in (
            ("SST-5", "transformers.Trainer"),
            ("QQP and STS-B", "sentence-transformers' trainer"),
        )
        for name, number in ((peer, 0), ("ours, fp32", 2), ("ours, bf16", 3))
    },
    **{
        (VECTORS, name): partial(encode_sentences, name=name)
        for name in (
            "sentence-transformers",
            "transformers pipeline",
            "ours, fp32",
            "ours, bf16",
            "ours, bf16, compiled kernels",
        )
    },
}


def alone(work: str, name: str, directory: Path, threads: int) -> tuple[float, float]:
    """Seconds of the work, and the largest resident MiB of its process, start-up included."""
    code = (
        "import pathlib, sys, time, torch; from benchmarks.course_batches import peak_mib; "
        "from benchmarks.processes import WORK; torch.set_num_threads(int(sys.argv[4])); "
        "began = time.perf_counter(); WORK[sys.argv[1], sys.argv[2]](pathlib.Path(sys.argv[3])); "
        "print(time.perf_counter() - began, peak_mib())"
    )
    command = [sys.executable, "-c", code, work, name, str(directory), str(threads)]
    pages = "1" if name.startswith("ours") and "usual pages" not in name else "0"
    variables = {**os.environ, HUGE_PAGES: pages}
    done = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, check=True)
    seconds, peak = map(float, done.stdout.split()[-2:])
    return seconds, peak


def main() -> None:
    arguments = started(parser(__doc__, rounds=3))
    directory = arguments.directory
    with tempfile.TemporaryDirectory() as scratch:
        starts = start_up(directory, Path(scratch), arguments.rounds)
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in WORK}
    for _ in range(arguments.rounds):
        for key, runs in measured.items():
            runs.append(alone(*key, directory, arguments.threads))
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("start", "seconds"), starts))
    first: dict[str, float] = {}
    lines = []
    for (work, name), runs in measured.items():
        seconds, peak = (statistics.median(values) for values in zip(*runs, strict=True))
        base = first.setdefault(work, peak)
        lines.append([work, name, f"{seconds:.1f}", f"{peak:.0f}", f"{peak / base:.2f}"])
    print()
    print(markdown_table(("work", "by", "seconds", "peak MiB", "x its first"), lines))


if __name__ == "__main__":
    main()
