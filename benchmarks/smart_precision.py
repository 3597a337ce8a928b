"""How large SMART's term is at the start of a training run, in fp32 and in bf16.

    python -m benchmarks.smart_precision DIRECTORY-OF-THE-COURSE-FILES

One batch of 32 training rows of each task (`configs/cs224n_minilm.yaml`), one ascent step, noise as
wide as eps, a step of 100 eps; the same random numbers in both precisions.
"""

import argparse
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.smart_step import CONFIG, TASKS
from multitask.config import SmartConfig, load_config
from multitask.data.collate import separate
from multitask.models.multitask_model import MultiTaskModel
from multitask.reporting.table_formats import markdown_table
from multitask.training.loss import Objective
from multitask.training.setup import set_up
from multitask.utils.versions import git_revision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.absolute()
    overrides = [f"data_dir={directory}", "defaults.max_rows=200", "training.precision=bf16"]
    prepared = set_up(load_config(CONFIG, overrides), torch.device("cpu"), lambda line: None)
    model = prepared.model.train()
    batches = prepared.loader.sample(TASKS, seed=(1,))
    pool = MultiTaskModel.pool

    def in_bf16(model, batches, embedded, in_fp32=False):  # type: ignore[no-untyped-def]
        return pool(model, batches, embedded)

    lines = []
    for eps in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        smoothing = SmartConfig(eps=eps, noise=eps, step_size=100 * eps)
        for precision, used in (("fp32", pool), ("bf16", in_bf16)):
            penalties = []
            with patch.object(MultiTaskModel, "pool", used):
                for task in TASKS:
                    torch.manual_seed(0)
                    one = separate({task: batches[task]})
                    outcome = Objective({}, {task: smoothing}).losses(model, one)[task]
                    assert outcome.penalty is not None
                    penalties.append(f"{outcome.penalty.item():.1e}")
            lines.append([f"{eps:g}", precision, *penalties])
    print(f"torch {torch.__version__}, commit {git_revision()}\n")
    print(markdown_table(("eps", "passes in", *TASKS), lines))


if __name__ == "__main__":
    main()
