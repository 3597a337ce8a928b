"""Start-up times, and peak memory, of whole processes.

    python -m benchmarks.processes DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

Start-up: `--help`, a config error, `check`, and a run's first training step, with no cached tokens
and with them; wall seconds from the start of the process, medians over rounds, in turn. Peak
memory: the largest resident size of a process that takes 60 mixed training steps (fp32, batches of
32), ours and a plain `transformers` loop (see benchmarks/training_step.py).
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


def train_ours(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        prepared = prepared_run(directory, ["training.precision=fp32"])
        Stepper(prepared, Path(scratch)).steps(STEPS)


def train_loop(directory: Path) -> None:
    from benchmarks.training_step import Loop, train
    from multitask.pretrained import load_tokenizer, packaged_directory

    name = str(packaged_directory())
    tokens = read_tokens(directory, load_tokenizer(name), 3000)
    loop = Loop(name)
    optimizer = torch.optim.AdamW(loop.parameters(), 1e-5)
    train(loop, optimizer, mixed_steps(tokens, STEPS, grouped=False), bf16=False)


TRAINING = {"transformers loop": train_loop, "ours": train_ours}


def peak_memory(name: str, directory: Path, threads: int) -> float:
    """Largest resident MiB of a process that trains for ``STEPS`` steps."""
    code = (
        "import sys, pathlib, torch; from benchmarks.processes import TRAINING; "
        "torch.set_num_threads(int(sys.argv[3])); TRAINING[sys.argv[1]](pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, name, str(directory), str(threads)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the training of {name} failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    arguments = started(parser(__doc__, rounds=3))
    directory = arguments.directory
    with tempfile.TemporaryDirectory() as scratch:
        starts = start_up(directory, Path(scratch), arguments.rounds)
    peaks = {name: peak_memory(name, directory, arguments.threads) for name in TRAINING}
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("start", "seconds"), starts))
    base = peaks["transformers loop"]
    rows = [[name, f"{peak:.0f}", f"{peak / base:.2f}"] for name, peak in peaks.items()]
    print()
    print(markdown_table((f"{STEPS} training steps", "peak MiB", "x loop"), rows))


if __name__ == "__main__":
    main()
