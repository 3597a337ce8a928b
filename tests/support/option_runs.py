"""Small runs that train every line of the registry, a task for each."""

import json
import random
from pathlib import Path
from typing import Any

import yaml

from multitask.config import TaskConfig
from multitask.config.registry import input_type, resolve
from multitask.config.training_config import StageConfig
from multitask.models.head_checks import inputs_for
from tests.conftest import WORDS
from tests.support.option_values import TASKS, Line, lines

SIZES = {"train": 8, "dev": 6}
MOODS = ["bad", "dull", "good"]
# the label column of each task type, and more keys of `data`; a new type needs a line and a column
LABELS: dict[str, dict[str, Any]] = {
    "class": {"label": "mood", "labels": {mood: mood for mood in MOODS}},
    "binary": {"label": "same"},
    "labels": {"label": "classes"},
    "number": {"label": "score", "label_range": [0, 5]},
    "tags": {"label": "tags", "text": "words"},
    "span": {"label": "answers", "text2": "text"},
    "choice": {"label": "same"},
    "tokens": {},
    "views": {},
    "preference": {"label": "votes"},  # the type of docs/extending.md
}
COLUMNS = {"text": "text", "text2": "other", "text3": "third", "choices": ["other", "third"]}


def write_rows(directory: Path) -> None:
    """Write `train.jsonl` and `dev.jsonl`, whose rows have labels of every type."""
    draw = random.Random(0)
    for split, size in SIZES.items():
        rows = []
        for number in range(size):
            words, other, third = (draw.choices(WORDS[:40], k=draw.randint(3, 7)) for _ in range(3))
            mood = MOODS[min(number % 4, 2)]  # more rows of the last class
            words[0], words[-1] = "cat", mood
            same = number % 2
            rows.append(
                {
                    "text": " ".join(words),
                    "other": " ".join(words[1:] if same else other),
                    "third": " ".join(third),
                    "words": words,
                    "mood": mood,
                    "same": same,
                    "score": number % 6,
                    "classes": [name for name in MOODS if draw.random() < 0.5] or [mood],
                    "tags": ["B-PET", *["O"] * (len(words) - 1)],
                    "answers": {"text": ["cat"], "answer_start": [0]},
                    "votes": f"{number + 1}:{3 * same + 1}",
                }
            )
        lines_of_file = [json.dumps(row) for row in rows]
        (directory / f"{split}.jsonl").write_text("\n".join(lines_of_file) + "\n")


def task(head: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A task with this head, on the rows that its type and its input need."""
    made = resolve("head", head["name"])
    assert made.task_type in LABELS, (
        f"head {head['name']!r}: add the label of a {made.task_type!r} task to LABELS in "
        "tests/support/option_runs.py"
    )
    wide = inputs_for(made.takes)[-1] if made.takes != "vector" else "single"
    columns = {key: COLUMNS[key] for key in input_type(wide).columns}
    data = {"train": "train.jsonl", "dev": "dev.jsonl", **columns, **LABELS[made.task_type]}
    tokens = made.takes in ("tokens", "sequence")
    entry = {"data": data, "input": wide, "head": head, "pooling": "tokens" if tokens else "mean"}
    if made.takes == "views":
        entry["projection"] = "mlp"  # for `mlp_only_train`
    return {**entry, **parts}


def configs(kind: str) -> dict[str, dict[str, Any]]:
    """Configs that train every line of a kind, and the name of each config.

    The parts of tasks need one, with a task per line; samplers one, with a stage per line; methods
    of gradient surgery one each.
    """
    every = lines(kind)
    if kind in TaskConfig.model_fields:
        return {
            kind: {"tasks": {name_of(line, n): task_with(line) for n, line in enumerate(every)}}
        }
    tasks = {name: task({"name": "classification"}) for name in TASKS}
    if kind in StageConfig.model_fields:
        stages = [
            {"name": name_of(line, n), kind: line.entry, "max_steps": 2, "combine": "alternate"}
            for n, line in enumerate(every)
        ]
        return {kind: {"tasks": tasks, "stages": stages}}
    return {
        name_of(line, n): {"tasks": tasks, "training": {kind: line.entry}}
        for n, line in enumerate(every)
    }


def name_of(line: Line, number: int) -> str:
    """A name for a line that no part of a model has."""
    return "_".join(["the", line.name, *line.options, str(number)])


def task_with(line: Line) -> dict[str, Any]:
    """A task with a part."""
    if line.kind == "head":
        return task(line.entry)
    if line.kind == "pooling" and line.name == "tokens":
        return task({"name": "token_classification"})
    # a batch norm is for pairs
    head = {"name": "siamese_paraphrase" if line.kind == "projection" else "classification"}
    return task(head, **{line.kind: line.entry})


def write_config(file: Path, encoder: Path, generator: Path, config: dict[str, Any]) -> Path:
    """Write a config of joint steps on the rows beside it, with a checkpoint after each step."""
    training = {"combine": "joint", "precision": "fp32", "frozen_baseline": False}
    training |= {"lr": 1e-3, "head_lr": 1e-2, "warmup": 0.0, "checkpoint_steps": 1}
    training |= {} if "stages" in config else {"max_steps": 2}
    text = yaml.safe_dump(
        {
            "data_dir": str(file.parent),
            "encoder": {"name": str(encoder)},
            "defaults": {"max_length": 24, "batch_size": 4},
            **config,
            "training": {**training, **config.get("training", {})},
        },
        sort_keys=False,
    )
    file.write_text(text.replace("GENERATOR", str(generator)))
    return file
