"""Start-up times, and peak memory, of whole processes.

    python -m benchmarks.processes DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Start-up: `--help`, a config error, `check`, and a run's first training step, with no cached tokens
and with them; wall seconds from the start of the process, medians over rounds, in turn. Then 60
mixed training steps (batches of 32) in a process of their own: their seconds and the largest
resident size, of a plain `transformers` loop (see benchmarks/training_step.py) and of ours; ours
with huge pages for large tensors, as run_multitask.py asks for, and without.
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
from benchmarks.our_trainer import CONFIG, Stepper, prepared_run
from multitask.tables import markdown_table

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
    """Wall seconds from the start of a run to the first line of its log; the run is ended there."""
    log = output / "metrics.jsonl"
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, f"output_dir={output}"],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (log.is_file() and log.stat().st_size):
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
    return [[name, f"{statistics.median(found):.2f}"] for name, found in times.items()]


def train_ours(directory: Path, precision: str = "fp32") -> float:
    """Seconds of the steps."""
    with tempfile.TemporaryDirectory() as scratch:
        prepared = prepared_run(directory, [f"training.precision={precision}"])
        stepper = Stepper(prepared, Path(scratch))
        began = time.perf_counter()
        stepper.steps(STEPS)
        return time.perf_counter() - began


def train_loop(directory: Path) -> float:
    """Seconds of the steps."""
    from benchmarks.training_step import Loop, train
    from multitask.pretrained import load_tokenizer, packaged_directory

    name = str(packaged_directory())
    tokens = read_tokens(directory, load_tokenizer(name), 3000)
    loop = Loop(name)
    optimizer = torch.optim.AdamW(loop.parameters(), 1e-5)
    steps = mixed_steps(tokens, STEPS, grouped=False)
    began = time.perf_counter()
    train(loop, optimizer, steps, bf16=False)
    return time.perf_counter() - began


HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"  # run_multitask.py sets it
TRAINING = {
    "transformers loop": (train_loop, "0"),
    "ours": (train_ours, "1"),
    "ours, bf16": (partial(train_ours, precision="bf16"), "1"),
    "ours, bf16, usual pages": (partial(train_ours, precision="bf16"), "0"),
}


def train_alone(name: str, directory: Path, threads: int) -> tuple[float, float]:
    """Seconds, and the largest resident MiB, of a process that trains for ``STEPS`` steps."""
    code = (
        "import sys, pathlib, torch; from benchmarks.course_batches import peak_mib; "
        "from benchmarks.processes import TRAINING; torch.set_num_threads(int(sys.argv[3])); "
        "print(TRAINING[sys.argv[1]][0](pathlib.Path(sys.argv[2])), peak_mib())"
    )
    command = [sys.executable, "-c", code, name, str(directory), str(threads)]
    variables = {**os.environ, HUGE_PAGES: TRAINING[name][1]}
    done = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, check=True)
    seconds, peak = map(float, done.stdout.split()[-2:])
    return seconds, peak


def main() -> None:
    arguments = started(parser(__doc__, rounds=3))
    directory = arguments.directory
    with tempfile.TemporaryDirectory() as scratch:
        starts = start_up(directory, Path(scratch), arguments.rounds)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in TRAINING}
    for _ in range(arguments.rounds):
        for name, runs in found.items():
            runs.append(train_alone(name, directory, arguments.threads))
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("start", "seconds"), starts))
    medians = {name: [statistics.median(v) for v in zip(*runs, strict=True)]
               for name, runs in found.items()}  # fmt: skip
    base = medians["transformers loop"][1]
    rows = [[name, f"{seconds:.1f}", f"{peak:.0f}", f"{peak / base:.2f}"]
            for name, (seconds, peak) in medians.items()]  # fmt: skip
    print()
    print(markdown_table((f"{STEPS} training steps", "seconds", "peak MiB", "x loop"), rows))


if __name__ == "__main__":
    main()
