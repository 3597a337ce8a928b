"""A config with a contrastive task, made a run of seconds."""

import random
from pathlib import Path

import torch
from torch import Tensor

from multitask.config import load_config
from multitask.data.collate import SharedBatch
from multitask.training.setup import Plan, set_up
from tests.conftest import WORDS
from tests.support.losses import task_losses

CPU = torch.device("cpu")

HEADER = "anchor\tpositive\tnegative\tkind\n"

# an STS task that is only scored, with the contrastive task's pooling, and that selects
CONFIG = """
data_dir: {files}
encoder: {{name: {encoder}, dropout: {dropout}}}
training:
  {{epochs: 1, frozen_baseline: false, precision: fp32, select: sts, lr: 1.0e-3, head_lr: 1.0e-3}}
stages: [{{tasks: [views]}}]
defaults: {{max_length: 40, dropout: 0.0}}
tasks:
  views:
    data: {data}
    input: {input}
    pooling: {pooling}
    projection: mlp
    head: {head}
    batch_size: 16
  sts:
    data:
      format: tsv
      train: sts-train.csv
      dev: sts-dev.csv
      text: sentence1
      text2: sentence2
      label: similarity
      label_range: [0, 5]
    input: siamese
    share_pooling: views
    head: cosine_regression
    metric: spearman
"""

DATA = {
    "single": "{train: triplets.tsv, dev_share: 0.2, text: anchor}",
    "siamese": "{train: triplets.tsv, dev_share: 0.2, text: anchor, text2: positive}",
    "triplet": "{train: triplets.tsv, dev_share: 0.2, text: anchor, text2: positive, "
    "text3: negative}",
}


def write_triplets(directory: Path, rows: int = 60) -> None:
    """Made-up triplets: the positive shares most words with the anchor, the negative none."""
    rng = random.Random(0)
    lines = []
    for number in range(rows):
        words = rng.sample(WORDS[:40], 10)
        negative = " ".join(rng.sample(sorted(set(WORDS[:40]) - set(words)), 5))
        lines.append(f"{' '.join(words[:6])}\t{' '.join(words[2:7])}\t{negative}\t{number % 2}.0\n")
    (directory / "triplets.tsv").write_text(HEADER + "".join(lines))


def write_config(
    file: Path,
    encoder: Path,
    files: Path,
    input: str = "single",
    head: str = "contrastive",
    pooling: str = "cls",
    data: str | None = None,
    dropout: float = 0.1,
) -> str:
    """The config above in ``file``; its name."""
    text = CONFIG.format(
        files=files,
        encoder=encoder,
        dropout=dropout,
        data=data or DATA[input],
        input=input,
        head=head,
        pooling=pooling,
    )
    file.write_text(text)
    return str(file)


def prepared(file: str, *overrides: str) -> Plan:
    """The plan of a config, on the CPU."""
    return set_up(load_config(file, list(overrides)), CPU, lambda line: None)


def batch_of(made: Plan) -> SharedBatch:
    """The next batch of the contrastive task."""
    (result,) = made.loader.next(["views"])
    return result


def gradients(made: Plan, batches: SharedBatch, seed: int = 0) -> Tensor:
    """Of the loss on one batch, all parameters in one vector."""
    made.model.train().zero_grad()
    torch.manual_seed(seed)
    task_losses(made.model, batches)["views"].loss.backward()
    result = [p.grad.flatten() for p in made.model.parameters() if p.grad is not None]
    return torch.cat(result)
