"""Sentence vectors of a run's task or of a bare encoder, for whatever compares texts."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from multitask.config import Choice, load_run_config
from multitask.config.registry import KINDS, build, resolve
from multitask.config.run_directory import RunDirectory
from multitask.config.run_start import check_encoder
from multitask.data.splits import load_splits
from multitask.inference.analysis.layers import layer_vectors
from multitask.inference.scoring import Scorer
from multitask.inference.trained_run import TrainedRun
from multitask.models.multitask_model import MultiTaskModel, TaskModule
from multitask.models.pretrained import load_encoder_and_tokenizer
from multitask.tasks.examples import Rows
from multitask.tasks.metrics import joint_tasks
from multitask.utils.device import best_device
from multitask.utils.errors import UserError
from multitask.utils.versions import command_line, git_revision

DEFAULT_POOLING = "mean"
MAX_LENGTH = 128
BATCH_SIZE = 64
ALONE = "texts"  # what the model calls its one task where no task of a run pools


@dataclass
class Vectors:
    """Texts to vectors [N, d], as one task of a run makes them, or an encoder with a fixed pooling.

    Attributes:
        source: the run directory or the encoder, as it was given.
        task: the task of the run; None for an encoder.
        pooling: the pooling's name.
        max_length: tokens of a text, special ones included; the rest is cut.
        scorer: runs the model over texts.
        part: the task of the model that pools.
        run: the run, None for an encoder.
    """

    source: str
    task: str | None
    pooling: str
    max_length: int
    scorer: Scorer
    part: str
    run: TrainedRun | None = None

    @property
    def dim(self) -> int:
        """Width d of a vector."""
        return self.encode(["."]).shape[1]

    def encode(self, texts: Sequence[str], title: str = "") -> np.ndarray:
        """float32 [N, d] in order; with a ``title``, behind a progress bar."""
        if self.run is not None and self.task is not None:
            self.run.encoder(self.task)  # its weights may have made room for another task's
        return self.scorer.vectors(self.part, texts, self.max_length, title)

    def layers(self, texts: Sequence[str], title: str = "") -> np.ndarray:
        """Vectors of every layer under each fixed pooling: see ``analysis.layers``."""
        adapter = self.scorer.model.adapter(self.part)
        return layer_vectors(self.scorer, adapter, texts, self.max_length, title=title)

    def fingerprint(self) -> str:
        """A hash of what a vector depends on: the model's weights, tokenizer, task and pooling."""
        tokenizer = json.loads(self.scorer.tokenizer.backend_tokenizer.to_str())
        tokenizer.pop("padding"), tokenizer.pop("truncation")  # they change with every call
        settings = [self.task, self.pooling, self.max_length, tokenizer]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for name, tensor in self.scorer.model.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def scores_directory(self) -> Path:
        """Where scores go unless told otherwise: in the run, or beside an encoder's user."""
        return Path("scores") if self.run is None else self.run.directory / "scores"

    def describe(self) -> str:
        """Such as ``runs/sts, task sts, mean pooling``."""
        return f"{self.weights()}, {self.pooling} pooling"

    def facts(self) -> dict[str, Any]:
        """What sts.json and search.json say of the vectors and of how they were measured."""
        return {
            "format": 1,
            "of": self.describe(),
            "source": self.source,
            "task": self.task,
            "pooling": self.pooling,
            "max_length": self.max_length,
            "command": command_line(),
            "git_revision": git_revision(),
        }

    def weights(self) -> str:
        """Such as ``runs/sts, task sts``."""
        return f"{self.source}, task {self.task}" if self.task else self.source

    def known_rows(self) -> tuple[list[Rows], list[Rows]]:
        """What the run trains on or holds out of that; and the dev rows that select its weights.

        No rows for an encoder. Raises UserError where the files are no longer there.
        """
        if self.run is None:
            return [], []
        config = self.run.config
        splits, _ = load_splits(config, self.run.readers)
        trained = [splits[task] for task in config.trained_tasks()]
        seen = [own[name] for own in trained for name in ("train", "holdout") if name in own]
        if config.training.holdout:
            return seen, []
        kinds = {task: self.run.readers[task].task_type for task in config.trained_tasks()}
        select = config.training.select
        if select == "per_task":
            selecting = [config.selecting_tasks()[str(self.task)]]
        else:
            selecting = [select] if select in splits else joint_tasks(kinds)
        return seen, [splits[task]["dev"] for task in selecting]


def open_vectors(
    source: str,
    *,
    task: str | None = None,
    pooling: str | None = None,
    overrides: Sequence[str] = (),
    max_length: int | None = None,
) -> Vectors:
    """The vectors of a run directory or of an encoder, computed in fp32.

    Args:
        source: a run directory, or an encoder: a directory, a hub id or the packaged one.
        task: the run's task whose weights, adapter and pooling count; default: ``vector_task``.
        pooling: a pooling without parameters, in place of the task's own.
        overrides: values of the run's config to change, such as ``data_dir=DIR``.
        max_length: tokens of a text; default: the task's, or ``MAX_LENGTH``.

    Raises:
        UserError: neither a run nor an encoder, an unknown task, a pooling with parameters.
    """
    place = Path(source)
    if RunDirectory(place).holds_run:
        run = TrainedRun(place, load_run_config(place, ["training.precision=fp32", *overrides]))
        return run_vectors(run, source, task=task, pooling=pooling, max_length=max_length)
    check_encoder(source, task, overrides)
    encoder, tokenizer = load_encoder_and_tokenizer(source)
    length = min(max_length or MAX_LENGTH, encoder.max_positions)
    device = best_device()
    name = pooling or DEFAULT_POOLING
    scorer = Scorer(_fixed(encoder, name, None).to(device), tokenizer, BATCH_SIZE, device)
    return Vectors(source, None, name, length, scorer, ALONE)


def run_vectors(
    run: TrainedRun,
    source: str,
    *,
    task: str | None = None,
    pooling: str | None = None,
    max_length: int | None = None,
) -> Vectors:
    """``open_vectors`` of a run that is loaded; ``source`` is what to call it."""
    task = task or run.vector_task()
    encoder, adapter = run.encoder(task)
    entry = run.config.tasks[task]
    scorer, part, name = run.scorer, task, _shown(entry.eval_pooling or entry.pooling)
    if pooling is not None:
        scorer = replace(run.scorer, model=_fixed(encoder, pooling, adapter))
        part, name = ALONE, pooling
    elif name == "tokens":
        raise UserError(
            f"{source}: task {task} looks at tokens and gives no vector of a text: name "
            "another task (--task) or a pooling (--pooling mean)"
        )
    length = min(max_length or entry.max_length, encoder.max_positions)
    return Vectors(source, task, name, length, scorer, part, run)


def _shown(choice: Choice) -> str:
    """A method's name, with its options where it has any."""
    return " ".join([choice.name, *([json.dumps(choice.options)] if choice.options else [])])


def _fixed(encoder: Any, pooling: str, adapter: Any) -> MultiTaskModel:
    """An encoder under a pooling without parameters."""
    names = [name for name in KINDS["pooling"] if name != "tokens"]
    if pooling == "tokens":
        raise UserError(f"--pooling: tokens gives no vector of a text: one of {', '.join(names)}")
    context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
    try:
        pooler = build("pooling", pooling, {}, context)
    except UserError as error:
        raise UserError(f"--pooling: {error}") from error
    if any(True for _ in pooler.parameters()):
        raise UserError(
            f"--pooling: {pooling} has weights of its own: name the task that trained them (--task)"
        )
    head = resolve("head", "cosine_regression")(pooler.output_dim, 0.0, 1.0)
    module = TaskModule(pooler, nn.Identity(), head, 0.0, 1)
    adapters = {} if adapter is None else {ALONE: adapter}
    return MultiTaskModel(encoder, {ALONE: module}, adapters=adapters).eval()
