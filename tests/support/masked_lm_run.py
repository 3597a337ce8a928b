"""A config with masked language modelling, made a run of seconds."""

import json
from pathlib import Path

CONFIG = "configs/cs224n_mlm.yaml"
FAST = ["training.frozen_baseline=false", "training.checkpoint_steps=4", "tasks.mlm.max_length=48"]
EVERY_TASK = ("sst", "qqp", "sts", "mlm")


def tiny(encoder: Path, files: Path) -> list[str]:
    """Overrides: the tiny encoder, the small course files."""
    return [
        f"data_dir={files}",
        f"encoder.name={encoder}",
        "training.precision=fp32",
        *(f"tasks.{task}.max_length=48" for task in EVERY_TASK),
    ]


def stages(**first: object) -> str:
    """An override: both stages, with settings of the first."""
    entries = [{"name": "masked_lm", "tasks": ["mlm"], **first}]
    return f"stages={json.dumps([*entries, {'name': 'tasks', 'tasks': ['sst', 'qqp', 'sts']}])}"
