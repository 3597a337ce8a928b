"""Sentence vectors of a run's task, or of an encoder with a fixed pooling."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from multitask.config import Choice
from multitask.config.registry import build, resolve
from multitask.data.overlap import pair_finder
from multitask.data.splits import load_splits, tokenized
from multitask.data.tokenize import Split, default_cache
from multitask.inference.analysis.sts_by_layer import layer_vectors
from multitask.inference.load_run import TrainedRun
from multitask.inference.scoring import Scorer
from multitask.inference.sts_scores import Find
from multitask.models.multitask_model import MultiTaskModel, TaskModule
from multitask.models.pretrained import load_encoder_and_tokenizer
from multitask.reporting.sts_report import VectorFacts
from multitask.store.prepare_run import check_encoder
from multitask.store.run_directory import load_run_config, open_run
from multitask.store.saved import LAST
from multitask.tasks.metrics import joint_tasks
from multitask.utils.device import pick_device
from multitask.utils.errors import UserError
from multitask.utils.versions import command_line, git_revision

DEFAULT_POOLING = "mean"
MAX_LENGTH = 128
BATCH_SIZE = 64
ALONE = "texts"  # the name of the only task in a model with a fixed pooling


@dataclass
class Vectors:
    """Maps texts to vectors [N, d] by a task of a run, or by an encoder with a fixed pooling.

    Attributes:
        source: the run directory or the encoder, as the user gave it.
        task: the task of the run; None for an encoder.
        pooling: the pooling's name.
        max_length: tokens per text, special tokens included; longer texts are cut.
        scorer: runs the model over texts.
        part: the task of the model that pools.
        run: the run, None for an encoder.
        size: the first numbers of a vector that count; None for all.
    """

    source: str
    task: str | None
    pooling: str
    max_length: int
    scorer: Scorer
    part: str
    run: TrainedRun | None = None
    size: int | None = None

    @property
    def dim(self) -> int:
        """Width d of a vector."""
        return self.encode(["."]).shape[1]

    def encode(self, texts: Sequence[str], title: str = "") -> np.ndarray:
        """Encode texts: float32 [N, d] in order; a ``title`` shows a progress bar."""
        if self.run is not None and self.task is not None:
            self.run.encoder(self.task)  # another task's weights may be loaded now
        return self.scorer.vectors(self.part, texts, self.max_length, title)[:, : self.size]

    def layers(self, texts: Sequence[str], title: str = "") -> np.ndarray:
        """Encode texts at every layer under each fixed pooling; see ``layer_vectors``."""
        adapter = self.scorer.model.adapter(self.part)
        made = layer_vectors(self.scorer, adapter, texts, self.max_length, title=title)
        return made[..., : self.size]

    def fingerprint(self) -> str:
        """Hash what a vector depends on: the model's weights, tokenizer, task and pooling."""
        tokenizer = json.loads(self.scorer.tokenizer.backend_tokenizer.to_str())
        tokenizer.pop("padding"), tokenizer.pop("truncation")  # they change with every call
        settings = [self.task, self.pooling, self.max_length, tokenizer]
        settings += [self.size] if self.size else []
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for name, tensor in self.scorer.model.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def scores_directory(self) -> Path:
        """The default directory for scores: in the run, or ./scores for an encoder."""
        return Path("scores") if self.run is None else self.run.directory / "scores"

    def describe(self) -> str:
        """Describe the vectors, such as ``runs/sts, task sts, mean pooling``."""
        return f"{self.weights()}, {self.pooling} pooling"

    def cut(self, size: int | None) -> "Vectors":
        """Return the vectors with the first ``size`` numbers alone. Raises UserError for too many.

        Vectors that were trained with ``matryoshka`` keep most of their quality.
        """
        if size is not None and size > (most := self.dim):
            raise UserError(f"--dim {size}: a vector of {self.source} has {most} numbers")
        return replace(self, size=size)

    def facts(self) -> VectorFacts:
        """Return the keys of sts.json and search.json that describe the vectors and the command."""
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
        """Name the weights, such as ``runs/sts, task sts``, and how many numbers count if cut."""
        task = f", task {self.task}" if self.task else ""
        cut = f", the first {self.size} numbers" if self.size else ""
        return f"{self.source}{task}{cut}"

    def known_rows(self) -> tuple[list[Split], list[Split]]:
        """Return the run's training rows (with the holdout), and the dev rows that select weights.

        An encoder has neither. Raises UserError if the files no longer exist.
        """
        if self.run is None:
            return [], []
        config, readers, tokenizer = self.run.config, self.run.readers, self.run.tokenizer
        cache = default_cache() / "tokens"
        rows, _ = load_splits(config, readers, lambda: tokenizer)

        def splits(tasks: Iterable[str], *names: str) -> list[Split]:
            how: dict[str, Any] = {"tokenizer": tokenizer, "cache": cache}
            parts = [(task, rows[task][n]) for task in tasks for n in names if n in rows[task]]
            return [tokenized(config, t, part, reader=readers[t], **how) for t, part in parts]

        seen = splits(config.trained_tasks(), "train", "holdout")
        if config.training.holdout:
            return seen, []
        kinds = {task: readers[task].task_type for task in config.trained_tasks()}
        select = config.training.select
        if select == "per_task":
            selecting = [config.selecting_tasks()[str(self.task)]]
        elif select == LAST:
            selecting = [n for n, task in config.tasks.items() if task.early_stopping.patience]
        else:
            selecting = [select] if select in rows else joint_tasks(kinds)
        return seen, splits(selecting, "dev")

    def pair_finders(self) -> list[Find]:
        """Return functions that find pairs in each of ``known_rows``; none for an encoder."""
        tokenizer, length = self.scorer.tokenizer, self.max_length
        known = () if self.run is None else self.known_rows()
        return [pair_finder(splits, tokenizer, length) for splits in known]


def open_vectors(
    source: str,
    *,
    task: str | None = None,
    pooling: str | None = None,
    overrides: Sequence[str] = (),
    max_length: int | None = None,
) -> Vectors:
    """Open the vectors of a run directory or of an encoder, computed in fp32.

    Args:
        source: a run directory, or an encoder: a directory, a hub id or the packaged one.
        task: the run's task whose weights, adapter and pooling count; default: ``vector_task``.
        pooling: a pooling without parameters that replaces the task's.
        overrides: values of the run's config to change, such as ``data_dir=DIR``.
        max_length: tokens per text; default: the task's, or ``MAX_LENGTH`` for an encoder.

    Raises:
        UserError: neither a run nor an encoder, an unknown task, a pooling with parameters.
    """
    place = Path(source)
    if open_run(place).holds_run:
        run = TrainedRun(place, load_run_config(place, ["training.precision=fp32", *overrides]))
        return run_vectors(run, source, task=task, pooling=pooling, max_length=max_length)
    check_encoder(source, task, overrides)
    encoder, tokenizer = load_encoder_and_tokenizer(source)
    length = min(max_length or MAX_LENGTH, encoder.max_positions)
    device = pick_device("auto")
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
    """Return the vectors of a loaded run, which messages call ``source``; see ``open_vectors``."""
    task = task or run.vector_task()
    encoder, adapter = run.encoder(task)
    entry = run.config.tasks[task]
    scorer, part, name = run.scorer, task, _shown(entry.eval_pooling or entry.pooling)
    if pooling is not None:
        scorer = replace(run.scorer, model=_fixed(encoder, pooling, adapter))
        part, name = ALONE, pooling
    elif not entry.gives_vectors:
        raise UserError(
            f"{source}: task {task} looks at tokens and gives no vector of a text: name "
            "another task (--task) or a pooling (--pooling mean)"
        )
    length = min(max_length or entry.max_length, encoder.max_positions)
    return Vectors(source, task, name, length, scorer, part, run)


def _shown(choice: Choice) -> str:
    """Write a method's name, and its options if it has any."""
    return " ".join([choice.name, *([json.dumps(choice.options)] if choice.options else [])])


def _fixed(encoder: Any, pooling: str, adapter: Any) -> MultiTaskModel:
    """Put a pooling without parameters on an encoder."""
    if pooling == "tokens":
        raise UserError("--pooling: tokens gives no vector of a text: take another one")
    context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
    try:
        pooler = build("pooling", pooling, {}, context)
    except UserError as error:
        raise UserError(f"--pooling: {error}") from error
    if [*pooler.parameters()]:
        message = "has weights: name the task that trained them (--task)"
        raise UserError(f"--pooling: {pooling} {message}")
    head = resolve("head", "cosine_regression")(pooler.output_dim, 0.0, 1.0)
    module = TaskModule(pooler, nn.Identity(), head, 0.0)
    adapters = {} if adapter is None else {ALONE: adapter}
    return MultiTaskModel(encoder, {ALONE: module}, adapters=adapters).eval()
