"""How many launches and waits a training step asks of a GPU, counted on a CPU.

    python -m benchmarks.launches > launches.md

A step of the trainer on an encoder of 12 layers, with random weights and batches of 32 rows that
are as long as the course's. Our modules take their branch of a GPU. Launches are the operators that
are not views; dropout and attention count as one each way, as on CUDA. Waits are counted on torch's
meta device: each read of a tensor is one, and whatever else needs a value raises an error there.
The column "before" has the counts of commit 5e213e7, made by the same rules before this file was.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks import synthetic
from benchmarks.course_batches import read_tokens
from benchmarks.gpu_steps import TURN, Steps, loop_steps
from benchmarks.launch_counter import Waits, as_on_a_gpu, launches
from benchmarks.our_trainer import Place, Stepper, prepared_run
from multitask.models.pretrained import load_tokenizer
from multitask.reporting.table_formats import markdown_table
from multitask.training.setup import Plan
from multitask.utils.versions import git_revision

ROWS = 96
FP32, BF16 = "training.precision=fp32", "training.precision=bf16"
JOINT, PCGRAD = "training.combine=joint", "training.gradient_surgery=pcgrad"
SMART = "defaults.smart={}"
PALS = "defaults.adapter={name: pal, size: 36, heads: 12}"  # heads of 3, padded to 8 as 17 to 24
META = torch.device("meta")
# what the config says, and the count of commit 5e213e7
LAUNCHES: dict[str, tuple[list[str], str]] = {
    "launches: one task, fp32": ([FP32], "960 to 1,550"),
    "launches: one task, bf16": ([BF16], "1,280 to 1,970"),
    "launches: joint": ([FP32, JOINT], "2,240"),
    "launches: SMART": ([FP32, SMART], "4,050"),
    "launches: PALs": ([FP32, PALS], "2,480"),
    "launches: joint with PCGrad": ([FP32, JOINT, PCGRAD], "6,010"),
}
WAITS: dict[str, tuple[list[str], str]] = {
    "waits: one task": ([FP32], "8.5"),
    "waits: joint": ([FP32, JOINT], "12"),
    "waits: SMART": ([FP32, SMART], "19"),
    "waits: PALs": ([FP32, PALS], "-"),
    "waits: joint with PCGrad": ([FP32, JOINT, PCGRAD], "-"),
    "waits: HIRE for SST": ([FP32, "tasks.sst.pooling=hire"], "-"),
}
LOOPS = {"launches: one task, fp32": "fp32", "launches: one task, bf16": "bf16"}


class Files(NamedTuple):
    """The files that the count reads.

    Attributes:
        data: the directory of the tasks' rows.
        encoder: the directory of the encoder.
        scratch: where logs go.
    """

    data: Path
    encoder: str
    scratch: Path

    def plan(self, changes: Sequence[str]) -> Plan:
        return prepared_run(self.data, [f"encoder.name={self.encoder}", *changes])

    def loop(self, precision: str) -> Steps:
        tokens = read_tokens(self.data, load_tokenizer(self.encoder), ROWS)
        return loop_steps(self.encoder, tokens, precision, Place())


def shown(counts: Sequence[int]) -> str:
    """The least and the most of some counts."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def launches_of(steps: Steps) -> str:
    """Launches per step of each task, after steps that make the optimizer's state."""
    steps(TURN)
    counts = []
    for _ in range(TURN):
        with launches() as counter:
            steps(1)
        counts.append(counter.count)
    return shown(counts)


def waits_of(steps: Steps, device: str) -> str:
    """Reads of tensors of a device per step of each task."""
    counts = []
    for _ in range(TURN):
        with Waits(device) as waits:
            steps(1)
        counts.append(waits.count)
    return shown(counts)


def on_meta(plan: Plan, scratch: Path) -> Steps:
    """The steps of a plan on the meta device. Fused AdamW does not run there."""
    stepper = Stepper(replace(plan, device=META, model=plan.model.to(META)), scratch)
    optimizer = stepper.trainer.stages.optimizer
    for group in optimizer.param_groups:
        group["fused"] = False
    optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
    return stepper.steps


def rows(files: Files) -> list[list[str]]:
    """The table: the count of commit 5e213e7, the loop's, and ours."""
    lines = []
    for what, (changes, before) in LAUNCHES.items():
        loop = launches_of(files.loop(LOOPS[what])) if what in LOOPS else ""
        with as_on_a_gpu():
            ours = launches_of(Stepper(files.plan(changes), files.scratch).steps)
        lines.append([what, before, loop, ours])
    for what, (changes, before) in WAITS.items():
        loop = waits_of(files.loop("fp32"), "cpu") if what == next(iter(WAITS)) else ""
        lines.append(
            [what, before, loop, waits_of(on_meta(files.plan(changes), files.scratch), "meta")]
        )
    return lines


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with synthetic.workplace() as scratch:
        data = synthetic.write_rows(scratch / "data", ROWS)
        encoder = str(synthetic.write_encoder(scratch / "deep", "deep"))
        lines = rows(Files(data, encoder, scratch))
    print(f"torch {torch.__version__}, commit {git_revision()}\n")
    print(markdown_table(("per step", "before", "transformers loop", "ours"), lines))


if __name__ == "__main__":
    main()
