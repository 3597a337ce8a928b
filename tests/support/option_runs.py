"""Small runs that train every line of the registry, a task for each."""

import json
import random
from pathlib import Path
from typing import Any

import yaml

from multitask.config import TaskConfig
from multitask.config.registry import TASK_TYPES, input_type, resolve, task_type
from multitask.config.training_config import StageConfig
from multitask.models.head_checks import inputs_for
from tests.conftest import WORDS
from tests.support.cases import type_case
from tests.support.option_values import TASKS, Line, lines

SIZES = {"train": 8, "dev": 6}
COLUMNS = {"text": "text", "text2": "other", "text3": "third", "choices": ["other", "third"]}


def write_rows(directory: Path) -> None:
    """Write `train.jsonl` and `dev.jsonl`, whose rows have labels of every type."""
    draw = random.Random(0)
    labelled = [case for case in map(type_case, TASK_TYPES) if "label" in case.DATA]
    for split, size in SIZES.items():
        rows = []
        for number in range(size):
            words, other, third = (draw.choices(WORDS[:40], k=draw.randint(3, 7)) for _ in range(3))
            words[0], words[-1] = "cat", type_case("class").cell(number, words)
            rows.append(
                {
                    "text": " ".join(words),
                    "other": " ".join(words[1:] if number % 2 else other),
                    "third": " ".join(third),
                    "words": words,
                    **{case.DATA["label"]: case.cell(number, words) for case in labelled},
                }
            )
        lines_of_file = [json.dumps(row) for row in rows]
        (directory / f"{split}.jsonl").write_text("\n".join(lines_of_file) + "\n")


def task(head: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A task with this head, on the rows that its type and its input need."""
    made = resolve("head", head["name"])
    tokens = not inputs_for(made, True)
    fitting = inputs_for(made, not tokens)
    wide = fitting[0] if input_type(fitting[0]).sides == 1 else fitting[-1]
    wide = fitting[-1] if task_type(made.task_type).compares_rows else wide
    columns = {key: COLUMNS[key] for key in input_type(wide).columns}
    data = {"train": "train.jsonl", "dev": "dev.jsonl", **columns, **type_case(made.task_type).DATA}
    entry = {"data": data, "input": wide, "head": head, "pooling": "tokens" if tokens else "mean"}
    if task_type(made.task_type).compares_rows:
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
    if line.kind == "head":  # one that `transformers` has is exported to it
        classifies = getattr(resolve("head", line.name), "problem_type", "")
        return task(line.entry, **({"pooling": "cls", "projection": "tanh"} if classifies else {}))
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
