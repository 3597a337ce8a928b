"""Training steps on a device: how fast they are, and what they ask of a GPU."""

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear
from torch.profiler import ProfilerActivity, profile

from benchmarks.course_batches import Rows, Step, in_turn, mixed_steps
from benchmarks.our_trainer import Place, Stepper, prepared_run
from benchmarks.trainers import settle
from benchmarks.training_step import Loop
from multitask.utils.device import DTYPES, autocast

TURN = 3  # SST, QQP and STS
DRAWN = 120  # batches of the plain loop, which it takes again and again
# the calls of CUDA's libraries: launches, copies and fills; and waits for the GPU. The profiler
# itself waits with cudaDeviceSynchronize.
LAUNCH, WAIT = "cu(da)?(Launch|Mem(cpy|set))", "cu(da)?(Stream|Event)Synchronize"
Steps = Callable[[int], int]  # takes so many steps; returns their useful tokens


class Measured(NamedTuple):
    """Measurements of some steps.

    Attributes:
        rate: useful tokens a second, the median over rounds.
        seconds: seconds a step, the median over rounds.
        launches: launches per step; None if there is no GPU to count them.
        waits: waits of the host per step.
        peak: the most GPU memory in use, in GiB.
    """

    rate: float
    seconds: float
    launches: float | None
    waits: float | None
    peak: float | None

    def cells(self) -> list[str]:
        """Launches, waits and memory, as a table shows them."""
        numbers = ((self.launches, ".0f"), (self.waits, ".1f"), (self.peak, ".2f"))
        return ["-" if number is None else format(number, form) for number, form in numbers]


def measured(steps: Steps, device: torch.device, seconds: float) -> Measured:
    """Measure steps for some seconds, in rounds of ``TURN`` steps, after as many seconds.

    The first steps are slow: CUDA's libraries load a kernel when a shape first needs it.
    """
    rounds(steps, device, seconds)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    tokens, times = rounds(steps, device, seconds)
    rate = statistics.median(t / s for t, s in zip(tokens, times, strict=True))
    on_gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else None
    launches, waits = calls(partial(steps, TURN)) if on_gpu else (None, None)
    return Measured(rate, statistics.median(times) / TURN, launches, waits, peak)


def rounds(steps: Steps, device: torch.device, seconds: float) -> tuple[list[int], list[float]]:
    """Take rounds of steps for some seconds; return each round's useful tokens and seconds."""
    tokens: list[int] = []
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 2 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        tokens.append(steps(TURN))
        settle(device)
        times.append(time.perf_counter() - start)
    return tokens, times


def calls(steps: Callable[[], object]) -> tuple[float | None, float | None]:
    """Count launches and waits per step; None if the profiler does not see the GPU's calls."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        steps()
    names = Counter(event.name for event in profiler.events() or ())
    return counted(names)


def counted(names: Mapping[str, int]) -> tuple[float | None, float | None]:
    """Launches and waits per step, from how often the profiler saw each name in ``TURN`` steps."""
    launches, waits = (
        sum(count for name, count in names.items() if re.match(pattern, name))
        for pattern in (LAUNCH, WAIT)
    )
    return (launches / TURN, waits / TURN) if launches else (None, None)


def loop_steps(name: str, tokens: Mapping[str, Rows], precision: str, place: Place) -> Steps:
    """The plain loop: `transformers` with sdpa, fused AdamW, clipping, random batches of one task.

    Batches travel in pinned memory, and the loss is read once per step.
    """
    device, dtype = place.device, DTYPES[precision]
    model = Loop(name).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    drawn = mixed_steps(tokens, DRAWN, grouped=False, batch=place.batch)
    if device.type == "cuda":
        drawn = [Step(b.task, b.ids.pin_memory(), b.mask.pin_memory()) for b in drawn]
    turns = cycle([(batch, int(batch.mask.sum())) for batch in drawn])

    def steps(count: int) -> int:
        useful = 0
        for batch, real in islice(turns, count):
            useful += real
            inputs = [x.to(device, non_blocking=True) for x in (batch.ids, batch.mask)]
            with autocast(device, dtype):
                loss = model(Step(batch.task, *inputs))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            loss.item()
        return useful

    return steps


def our_steps(directory: Path, name: str, scratch: Path, place: Place, *changes: str) -> Steps:
    """The steps of our trainer, with batching, schedule and log."""
    overrides = [f"encoder.name={name}", *place.overrides, *changes]
    return Stepper(prepared_run(directory, overrides, device=place.device), scratch).steps


def ceiling(precision: str, shape: tuple[int, int], device: torch.device) -> float:
    """FLOP a second of the feed-forward layer's product [rows, width]: the best of 20."""
    (rows, width), dtype = shape, DTYPES[precision] or torch.float32
    inputs = torch.randn(rows, width, device=device, dtype=dtype)
    weight = torch.randn(4 * width, width, device=device, dtype=dtype)

    def products() -> None:
        for _ in range(10):
            linear(inputs, weight)
        settle(device)

    best = min(in_turn({"product": products}, 20)["product"])
    return 10 * 2 * rows * width * 4 * width / best
