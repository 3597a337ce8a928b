"""Training and encoding on a GPU: ours against a plain `transformers` loop and whole trainers.

    python -m benchmarks.gpu > gpu.md    # with a card; no row begins after eight minutes
    python -m benchmarks.gpu --toy       # on a CPU: does it run?

It needs the packages of requirements.txt, and neither data nor a network: the weights are random,
of MiniLM's and of BERT-base's size, and so are the words. The texts are as long as the course's.
What needs a package that is not installed, or more memory than there is, is a row that says so.

Each row is measured alone, for some seconds after as many, so its peak memory is its own. Useful
tokens are those that are not padding. The plain loop takes random batches of SST, QQP and STS in
turn, with sdpa, fused AdamW and clipping. Launches and waits are calls of CUDA that the profiler
sees.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import partial
from itertools import product

import torch
import transformers
from datasets import disable_progress_bars

from benchmarks import encode, synthetic, trainers
from benchmarks.course_batches import read_tokens
from benchmarks.gpu_bench import REAL, TOY, Bench, prepared
from benchmarks.gpu_checks import checks
from benchmarks.gpu_steps import Steps, ceiling, loop_steps, measured, our_steps
from benchmarks.methods import ALTERNATE, JOINT
from benchmarks.training_step import FLOP_PER_TOKEN
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table
from multitask.utils.versions import git_revision

LOOP, OURS, PEER = "transformers loop", "ours", "sentence-transformers"
PRECISIONS = ("fp32", "bf16", "fp16")
# the works of whole trainers, and the package that the peer needs
WORKS = {"SST-5": "accelerate", "QQP and STS-B": "sentence_transformers"}
COMBINE = "training.combine=joint"
METHODS = {  # the step that each is a multiple of, and what the config says
    "plain": ("plain", ALTERNATE["plain"]),
    "PALs of width 204, one per task": ("plain", ALTERNATE["PALs of width 204, one a task"]),
    "SMART": ("plain", ALTERNATE["SMART"]),
    "joint": ("joint", [COMBINE]),
    "joint, PCGrad": ("joint", [COMBINE, *JOINT["joint, PCGrad"]]),
}

# header of each table
STEPS = ("encoder", "rows", "precision", "step", "useful tokens/s", "x loop", "of the ceiling",
         "launches", "waits", "peak GiB")  # fmt: skip
TRAINERS = ("encoder", "rows", "work", "trainer", "useful tokens/s", "x the peer")
ENCODE = ("encoder", "rows", "text to vectors", "sentences/s", "x the peer")
METHOD = ("encoder", "step", "ms", "times", "of", "launches", "waits", "peak GiB")
CHECKS = ("check", "result")


def step_rows(bench: Bench) -> list[list[str]]:
    """Mixed steps of the plain loop and of ours, in each precision that the device is fast in."""
    lines = []
    fast = [precision for precision in PRECISIONS if (precision, bench.half) != ("bf16", "fp16")]
    for size, name in bench.encoders.items():
        tokens = read_tokens(bench.data, load_tokenizer(name), bench.scale.rows)
        shape = (bench.scale.product, bench.scale.sizes[size])
        most = {precision: ceiling(precision, shape, bench.device) for precision in fast}
        for batch, precision in product(bench.scale.batches, fast):
            place, change = bench.place(batch), f"training.precision={precision}"
            steps = {
                LOOP: partial(loop_steps, name, tokens, precision, place),
                OURS: partial(our_steps, bench.data, name, bench.scratch, place, change),
            }
            share = FLOP_PER_TOKEN.get(size, 0.0) / most[precision]
            lines += two_steps(bench, [size, str(batch), precision], steps, share)
    return lines


def two_steps(
    bench: Bench, key: list[str], steps: Mapping[str, Callable[[], Steps]], share: float
) -> list[list[str]]:
    """The rows of the loop and of ours; ``share``: seconds of a token's products at the ceiling."""
    rates: dict[str, float] = {}

    def cells(who: str) -> list[str]:
        result = measured(steps[who](), bench.device, bench.scale.seconds)
        rates[who] = result.rate
        times = times_as_fast(rates, who, LOOP)
        return [f"{result.rate:.0f}", times, f"{result.rate * share:.0%}", *result.cells()]

    return [bench.row([*key, who], len(STEPS), partial(cells, who)) for who in steps]


def times_as_fast(rates: Mapping[str, float], who: str, base: str) -> str:
    """How many times as fast as ``base``, which may have been skipped."""
    return f"{rates[who] / rates[base]:.2f}" if base in rates else "-"


def compared(
    bench: Bench, key: list[str], rate: Mapping[str, tuple[Callable[[], float], str]], width: int
) -> list[list[str]]:
    """A row per contender, the peer first: what measures its rate, and the package it needs."""
    rates: dict[str, float] = {}

    def cells(who: str) -> list[str]:
        with redirect_stdout(sys.stderr):  # the peers print a line at their end
            rate[who][0]()  # loads the kernels of CUDA's libraries
            rates[who] = rate[who][0]()
        return [f"{rates[who]:.0f}", times_as_fast(rates, who, next(iter(rate)))]

    return [
        bench.row([*key, who], width, partial(cells, who), needs)
        for who, (_, needs) in rate.items()
    ]


def trainer_rows(bench: Bench) -> list[list[str]]:
    """Whole trainers: the peer at its best, and ours."""
    lines, count = [], bench.scale.turns
    for size, batch, work in product(bench.encoders, bench.scale.batches, WORKS):
        name, place = bench.encoders[size], bench.place(batch)
        changes = (f"encoder.name={name}", f"training.precision={bench.half}")
        rate = {
            f"{trainers.peer_name(work)} at its best": (
                partial(best_peer, bench, work, name, batch),
                WORKS[work],
            ),
            OURS: (partial(trainers.ours, bench.data, work, count, place, *changes), "torch"),
        }
        lines += compared(bench, [size, str(batch), work], rate, len(TRAINERS))
    return lines


def best_peer(bench: Bench, work: str, name: str, batch: int) -> float:
    """Useful tokens a second of the peer's trainer, in 16 bits."""
    place, count = bench.place(batch), bench.scale.turns
    rate: float = trainers.peer_of(bench.data, work, count, name, place=place)(best=True)
    return rate


def encode_rows(bench: Bench) -> list[list[str]]:
    """Texts to vectors: sentence-transformers in 16 bits, and ours."""
    lines = []
    for size, batch in product(bench.encoders, bench.scale.batches):
        name, place = bench.encoders[size], bench.place(batch)
        given = (name, bench.half, place)
        peer, our = partial(encode.sentence_transformers, *given), partial(encode.ours, *given)
        rate = {
            f"{PEER}, {bench.half}": (
                partial(sentences_per_second, bench, peer),
                "sentence_transformers",
            ),
            f"{OURS}, {bench.half}": (partial(sentences_per_second, bench, our), "torch"),
        }
        lines += compared(bench, [size, str(batch)], rate, len(ENCODE))
    return lines


def sentences_per_second(bench: Bench, make: Callable[[], encode.Encode]) -> float:
    """Encode once; the vectors are on the host at the end."""
    run, texts = make(), encode.sentences(bench.data, bench.scale.sentences)
    began = time.perf_counter()
    run(texts)
    return len(texts) / (time.perf_counter() - began)


def method_rows(bench: Bench) -> list[list[str]]:
    """Steps with methods, as multiples of steps without them; batches of the smaller size."""
    lines, batch = [], bench.scale.batches[0]
    for size, name in bench.encoders.items():
        seconds: dict[str, float] = {}

        def cells(method: str, name: str = name, times: dict[str, float] = seconds) -> list[str]:
            base, changes = METHODS[method]
            steps = our_steps(bench.data, name, bench.scratch, bench.place(batch), *changes)
            result = measured(steps, bench.device, bench.scale.seconds)
            times[method] = result.seconds
            multiple = f"{times[method] / times[base]:.2f}" if base in times else "-"
            return [f"{1000 * result.seconds:.1f}", multiple, base, *result.cells()]

        for method in METHODS:
            lines.append(bench.row([size, method], len(METHOD), partial(cells, method)))
    return lines


def check_rows(bench: Bench) -> list[list[str]]:
    """Checkpoints, equal bits and waits, on the first encoder."""
    name, place = next(iter(bench.encoders.values())), bench.place(bench.scale.batches[0])
    return checks(bench.data, name, bench.scratch, place)


TABLES = {
    "Mixed steps": (STEPS, step_rows),
    "Whole trainers": (TRAINERS, trainer_rows),
    "Text to vectors": (ENCODE, encode_rows),
    "What a method costs": (METHOD, method_rows),
    "Checks": (CHECKS, check_rows),
}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--toy", action="store_true", help="a tiny encoder on a CPU, as a test")
    toy = options.parse_args().toy
    if not (toy or torch.cuda.is_available()):
        raise SystemExit("torch finds no CUDA card here; `--toy` runs on a CPU")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    disable_progress_bars()
    torch.backends.cudnn.allow_tf32 = False  # as in a run
    device = torch.device("cpu") if toy else torch.device("cuda", 0)
    with synthetic.workplace() as scratch:
        bench = prepared(TOY if toy else REAL, device, scratch)
        print(headline(bench))
        for title, (header, rows) in TABLES.items():
            print(f"{title}:\n\n{markdown_table(header, rows(bench))}\n", flush=True)


def headline(bench: Bench) -> str:
    """Return the card, torch and the commit, for above the tables."""
    on_gpu = bench.device.type == "cuda"
    card = torch.cuda.get_device_name(bench.device) if on_gpu else "a toy on a CPU"
    version = f"torch {torch.__version__}" + (f", CUDA {torch.version.cuda}" if on_gpu else "")
    return f"{card}, {version}, commit {git_revision()}\n"


if __name__ == "__main__":
    # one card: the peers' trainers would divide a batch among several
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    main()
