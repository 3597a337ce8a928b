"""Small made data with several endings per row, and a config that learns them."""

import random
from pathlib import Path

from tests.support.token_run import write_lines

GOOD, OTHERS = "good great bright".split(), "bad awful dull".split()
FILLERS = "the cat sees a dog in house and river near tree".split()
COUNT = 4
CONFIG = """
data_dir: {directory}
output_dir: {output}
encoder: {{name: {encoder}}}
training: {{epochs: 6, lr: 3e-3, head_lr: 1e-2, precision: fp32}}
tasks:
  ending:
    data:
      train: train.jsonl
      dev: dev.jsonl
      test: test.jsonl
      text: context
      choices: endings
      label: label
    input: choices
    max_length: 24
    pooling: cls
    projection: tanh
    head: multiple_choice
"""


def chosen(size: int, seed: int) -> list[dict]:
    """Rows whose right ending is the one with a word of ``GOOD``; place 2 is right most often."""
    rng = random.Random(seed)
    rows = []
    for number in range(size):
        label = 2 if number % 3 == 0 else rng.randrange(COUNT)
        endings = []
        for place in range(COUNT):
            words = rng.choices(FILLERS, k=rng.randint(1, 3))
            words.insert(rng.randint(0, 1), rng.choice(GOOD if place == label else OTHERS))
            endings.append(" ".join(words))
        context = " ".join(rng.choices(FILLERS, k=rng.randint(2, 6)))
        rows.append({"context": context, "endings": endings, "label": label})
    return rows


def write_choices(directory: Path, encoder: Path, train: int = 240, dev: int = 60) -> Path:
    """Write the rows and a config of one task; return the config."""
    for seed, (split, size) in enumerate((("train", train), ("dev", dev), ("test", 6))):
        rows = chosen(size, seed)
        if split == "train":
            rows.append({**rows[0], "label": None})
        if split == "test":
            rows = [{k: v for k, v in row.items() if k != "label"} for row in rows]
        write_lines(directory / f"{split}.jsonl", rows)
    file = directory / "choices.yaml"
    output = directory / "run"
    file.write_text(CONFIG.format(directory=directory, output=output, encoder=encoder))
    return file
