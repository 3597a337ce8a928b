"""The cost of each method: our training step with it, as a multiple of our plain step.

    python -m benchmarks.methods DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

`configs/cs224n_minilm.yaml` in bf16 autocast where the hardware is faster in it, batches of 32
rows, the same rows in the same order for all; SST, QQP and STS in turn, or all three in a joint
step. Whole steps of the trainer, batching, clipping and log with them. All in turn in one
process; the multiple is its median over rounds.
"""

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.course_batches import headline, in_turn, parser, ratio, started
from benchmarks.our_trainer import Stepper, prepared_run
from multitask.data.dataloader import Teacher
from multitask.reporting.table_formats import markdown_table
from multitask.training.setup import Plan

DISTILLATION = "distillation"
ALTERNATE: dict[str, list[str]] = {
    "plain": [],
    "PALs of width 60, one a task": ["defaults.adapter={name: pal, size: 60}"],
    "PALs of width 204, one a task": ["defaults.adapter={name: pal, size: 204}"],
    "SMART": ["defaults.smart={}"],
    "R-Drop": ["defaults.r_drop={}"],
    DISTILLATION: [],  # the step alone: teachers score the rows once, before it
    "Max_CLS of 3 layers for SST": ["tasks.sst.pooling=max_cls"],
    "Max_Seq + MHA for SST": ["tasks.sst.pooling=max_seq_mha"],
    "HIRE for SST": ["tasks.sst.pooling=hire"],
    "layer-wise attention for STS": ["tasks.sts.pooling=layer_attention"],
}
JOINT: dict[str, list[str]] = {
    "joint": [],
    "joint, PCGrad": ["training.gradient_surgery=pcgrad"],
    "joint, GradVac": ["training.gradient_surgery=gradvac"],
    "joint, CAGrad": ["training.gradient_surgery=cagrad"],
    "joint, uncertainty weights": ["training.loss_weighting=uncertainty"],
}


def give_scores(plan: Plan) -> None:
    """Give each task a teacher whose scores are random."""
    generator = np.random.default_rng(0)
    for task, loader in plan.loaders.items():
        width = max(len(plan.data.readers[task].names), 2)
        size = (len(loader.tokens), 1 if width == 2 else width)
        scores = generator.dirichlet(np.ones(width), size[0])[:, : size[1]]
        loader.teachers[task] = Teacher(scores.astype(np.float32), temperature=1.0, weight=0.5)


def main() -> None:
    arguments = started(parser(__doc__, rounds=3, steps=12))
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for variants, shared, count in (
            (ALTERNATE, [], arguments.steps),
            (JOINT, ["training.combine=joint"], max(1, arguments.steps // 3)),
        ):
            runs: dict[str, Callable[[], object]] = {}
            for name, overrides in variants.items():
                directory = Path(scratch) / str(len(lines) + len(runs))
                directory.mkdir()
                prepared = prepared_run(arguments.directory, [*shared, *overrides])
                if name == DISTILLATION:
                    give_scores(prepared)
                runs[name] = partial(Stepper(prepared, directory).steps, count)
            times = in_turn(runs, arguments.rounds)
            plain = times[next(iter(variants))]
            for name, seconds in times.items():
                milliseconds = 1000 * statistics.median(seconds) / count
                lines.append([name, f"{milliseconds:.0f}", f"{1 / ratio(plain, seconds):.2f}"])
    print(headline(arguments.threads, arguments.rounds))
    print(markdown_table(("step", "ms", "x the plain (or joint) step"), lines))


if __name__ == "__main__":
    main()
