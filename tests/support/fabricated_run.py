"""A small run directory as training would have left it, with every oddity the readers must bear.

Three tasks: ``sst`` (class; below its frozen baseline, no test split, nasty class names), ``para``
(binary; stopped early, its later turns skipped) and ``sts`` (number; no frozen baseline, null
correlations of the trivial one, a null evaluation). Texts are nasty everywhere; the dev metrics and
their mean are exact for the saved predictions.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.store.run_directory import load_lines
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.confusion import confusion
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

CLASSES = ["very | negative", "negative", "neutral", "costs $5 or $6", "very positive"]
PAIR = {"text": "sentence1", "text2": "sentence2"}
TASKS = {
    "sst": {
        "data": {"labels": CLASSES},
        "head": "classification",
        "course_file": {"name": "sst", "column": "Predicted_Sentiment"},
    },
    "para": {
        "data": PAIR,
        "input": "siamese",
        "head": "siamese_paraphrase",
        "course_file": {"name": "para", "column": "Predicted_Is_Paraphrase"},
    },
    "sts": {"data": {**PAIR, "label_range": [0, 5]}, "input": "siamese", "head": "regression"},
}
NASTY = [
    "a | pipe and a \\ backslash",
    "two\nlines\r\nand a\ttab",
    "<script>alert('x')</script> & <br>",
    "[link](http://x.y) *bold* _it_ `code` ~~gone~~ $m$ # no heading",
    "long " * 100,
    "",
]


def write_run(
    folder: Path,
    rows: int = 120,
    rounds: int = 40,
    stop: int = 60,
    *,
    seed: int = 11711,
    noise: float = 0.0,
    only: tuple[str, ...] = ("sst", "para", "sts"),
    **settings: object,
) -> dict:
    """Write the run into ``folder`` and return its report; ``rounds`` steps for each task.

    The dev rows are always the same. A share of ``noise`` of the predictions is spoiled, others
    for each ``seed``; ``settings`` enter the saved config.
    """
    generator = np.random.default_rng(7)
    sets = {
        "sst": _classes(generator, rows),
        "para": _binary(generator, rows),
        "sts": _numbers(generator, rows),
    }
    spoiler = np.random.default_rng([seed, 1])
    sets = {task: _spoiled(spoiler, noise, *columns) for task, columns in sets.items()}
    (folder / "predictions").mkdir(parents=True)
    steps = 3 * rounds
    tasks = {}
    for task, (label_type, labels, predictions, scores) in sets.items():
        lines = [
            {
                "id": f"{task}-{i}",
                "texts": _texts(i, pair=task != "sst"),
                "label": labels[i].item(),
                "prediction": predictions[i].item(),
                "scores": scores[i].tolist(),
            }
            for i in range(rows)
        ]
        if task in only:
            _write_lines(folder / "predictions" / f"{task}.dev.jsonl", lines)
        tasks[task] = _result(task, label_type, labels, predictions, scores, steps)
    tasks["para"] |= {
        "turns": {"trained": stop // 3, "skipped": rounds - stop // 3},
        "stopped_at_step": stop,
    }
    frozen = tasks["sst"]["dev"]["accuracy"] + 0.05
    tasks["sst"]["baselines"]["frozen"]["accuracy"] = frozen
    tasks["sst"]["flags"] = [f"below the frozen-encoder baseline (0.4 < {frozen:.3f})"]
    tasks["sts"]["baselines"]["frozen"] = None
    del tasks["sst"]["data"]["test"]

    events = _events(generator, steps, stop, tasks)
    tasks = {task: tasks[task] for task in only}
    headline = {task: result["dev"][result["metric"]] for task, result in tasks.items()}
    report = {
        "format": 1,
        "command": "python run_multitask.py train configs/demo.yaml --seed 11711",
        "seed": seed,
        "git_revision": None,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "device": "cpu",
        "precision": "bf16",
        "kernels": "torch",
        "wall_time_s": 812.3,
        "train_sentences_per_s": 310.24,
        "steps": {"planned": steps, "done": steps},
        "select": "joint",
        "selection_split": "holdout",
        "encoder": {"name": "packaged-minilm", "parameters": 22713216, "seen_corpora": ["quora"]},
        "overall": {"mean": metrics.joint(headline), "cs224n": None},
        "tasks": tasks,
        "warnings": ["packaged-minilm was pretrained on quora: para | is no held-out task"],
    }
    (folder / "report.json").write_text(json.dumps(_nulls(report)))
    _write_lines(folder / "metrics.jsonl", events)
    config = {"data_dir": "data", "output_dir": str(folder), "seed": seed, **settings}
    config["tasks"] = {task: TASKS[task] for task in tasks}
    (folder / "config.yaml").write_text(dump_yaml(config))
    return _nulls(report)


def _spoiled(generator, noise, label_type, labels, predictions, scores):
    """The set with a share of ``noise`` of its predictions replaced by random ones."""
    rows = len(labels)
    random = {
        "class": generator.dirichlet(np.ones(scores.shape[1]), rows),
        "binary": generator.random((rows, 1)),
        "number": generator.uniform(0, 5, (rows, 1)),
    }[label_type]
    spoiled = generator.random((rows, 1)) < noise
    scores = np.where(spoiled, random, scores)
    again = {
        "class": scores.argmax(1),
        "binary": (scores[:, 0] > 0.5).astype(int),
        "number": scores[:, 0],
    }[label_type]
    return label_type, labels, again, scores


def _classes(generator, rows):
    scores = generator.dirichlet(np.ones(5) * 0.7, rows)
    predictions = scores.argmax(1)
    near = np.clip(predictions + generator.integers(-1, 2, rows), 0, 4)
    return "class", np.where(generator.random(rows) < 0.4, predictions, near), predictions, scores


def _binary(generator, rows):
    scores = generator.random((rows, 1))
    labels = (generator.random(rows) < scores[:, 0]).astype(int)
    return "binary", labels, (scores[:, 0] > 0.5).astype(int), scores


def _numbers(generator, rows):
    labels = generator.integers(0, 26, rows) / 5
    predictions = np.clip(labels + generator.normal(0, 0.8, rows), 0, 5)
    return "number", labels, predictions, predictions[:, None]


def _texts(row, pair):
    texts = [f"{NASTY[row % len(NASTY)]} {row}", f"the other sentence of {row}"]
    return texts if pair else texts[:1]


def _result(task, label_type, labels, predictions, scores, steps):
    columns = (labels, predictions, scores)
    rows = Rows("", [""] * len(labels), [("",)] * len(labels), labels)
    names = {"class": CLASSES, "binary": ("0", "1")}.get(label_type, ())
    kind = task_type(label_type)
    guess = kind.trivial(rows, rows, LabelReader(kind, {}, tuple(names)))
    dev = {"rows": len(labels), **metrics.compute(task_type(label_type), columns)}
    if label_type != "number":
        dev["confusion"] = confusion(labels, predictions, len(names))
    data = {
        "file": f"{task}-train.csv",
        "rows": 8544,
        "unlabelled_dropped": 3,
        "empty_texts": 1,
        "duplicates": 12,
        "truncated_share": 0.0123,
        "label_counts": {},
        "mean_tokens": 25.04,
    }
    return {
        "label_type": label_type,
        "classes": list(names) or None,
        "label_range": [0, 5] if label_type == "number" else None,
        "metric": task_type(label_type).metrics[0],
        "input": "single" if task == "sst" else "siamese",
        "pooling": "cls",
        "head": "classification",
        "selected_step": 2 * steps // 3,
        "dev": dev,
        "dev_intervals": intervals(task_type(label_type), columns, resamples=200),
        "baselines": {
            "trivial": metrics.compute(task_type(label_type), (labels, *guess)),
            "frozen": dict.fromkeys(task_type(label_type).metrics, 0.3),
        },
        "flags": [],
        "data": {
            "train": data,
            "dev": {**data, "file": f"{task}-dev.csv", "rows": len(labels), "in_train": 17},
            "test": {**data, "file": f"{task}-test.csv"},
        },
        "turns": {"trained": steps // 3, "skipped": 0},
        "stopped_at_step": None,
    }


def _events(generator, steps, stop, tasks):
    events = []
    for step in range(1, steps + 1):
        task = list(tasks)[(step - 1) % 3]
        if task == "para" and step > stop:
            events.append({"event": "skip", "step": step, "task": task})
        else:
            loss = 0.6 + math.exp(-3 * step / steps) + generator.normal(0, 0.15)
            # One loss that was not finite.
            loss = None if step == 4 else loss
            events.append({"event": "step", "step": step, "task": task, "loss": loss})
        if step == stop:
            events.append({"event": "stop", "step": step, "task": "para"})
        if step % (steps // 6) == 0:
            for split in ("dev", "holdout"):
                gain = 0.85 + 0.2 * step / steps - (split == "holdout") * 0.04
                scored = {
                    name: {
                        metric: None if step == steps // 6 and name == "sts" else value * gain
                        for metric, value in result["dev"].items()
                        if metric in task_type(result["label_type"]).metrics
                    }
                    for name, result in tasks.items()
                }
                events.append({"event": "eval", "step": step, "split": split, "tasks": scored})
    return events


def _nulls(value):
    """The same, with NaN as null and tuples as lists."""
    if isinstance(value, dict):
        return {key: _nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nulls(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_lines(path, lines):
    path.write_text("".join(json.dumps(_nulls(line)) + "\n" for line in lines))


def edited(run: Path, change: Callable[[dict], object]) -> None:
    """Change the report of a run in place."""
    report = json.loads((run / "report.json").read_text())
    change(report)
    (run / "report.json").write_text(json.dumps(report))


def edited_config(run: Path, change: Callable[[dict], object]) -> None:
    """Change the config of a run in place."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    change(config)
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def edited_log(run: Path, change: Callable[[dict], object]) -> list[dict]:
    """Change each event of a run's log in place; return all of them."""
    events = load_lines(run / "metrics.jsonl")
    for event in events:
        change(event)
    _write_lines(run / "metrics.jsonl", events)
    return events


def rewritten(run: Path, task: str, change: Callable[[int, dict], dict | None]) -> None:
    """Change the records of a run's dev predictions in place."""
    file = run / "predictions" / f"{task}.dev.jsonl"
    records = [change(i, record) for i, record in enumerate(load_lines(file))]
    file.write_text("".join(json.dumps(record) + "\n" for record in records if record))
