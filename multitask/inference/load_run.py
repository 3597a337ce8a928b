"""Load a trained run for predictions and sentence vectors, from the command line or a notebook.

from multitask import load

run = load("runs/cs224n")
run.predict("sst", ["A quiet triumph."])
run.predict("sts", [("A man runs.", "Someone is running.")])
run.encode(["A quiet triumph.", "A dull mess."], task="sts")   # array [2, d]
"""

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.config.read_config import listed_overrides
from multitask.data.by_type import reading_of
from multitask.data.classes import label_readers
from multitask.data.inputs.base import input_of
from multitask.data.inputs.single import Single
from multitask.data.load_rows import split_rows
from multitask.data.splits import masked_split, tokenized
from multitask.data.texts import as_list, rows_of_texts
from multitask.data.tokenize import Split, Tokens, default_cache, tokenize
from multitask.inference.scoring import Scorer, Scores, task_maskings
from multitask.models import pretrained
from multitask.models.build import assemble
from multitask.models.encoders import Encoder
from multitask.models.head_checks import check_head, check_lengths
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.weights import build_fitting, intact_weights, read_checked
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.store.saved import selected_steps
from multitask.tasks.base import NoLabels, Record, RowLabels
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import predicted_records, with_both_scores
from multitask.tasks.rows import Rows
from multitask.utils.device import autocast_dtype, pick_device
from multitask.utils.distributed import planned_world
from multitask.utils.errors import UserError, reading, suggest
from multitask.utils.paths import expand_home

Text = str | Sequence[str]


def load(run_dir: str | os.PathLike[str], overrides: Sequence[str] = ()) -> "TrainedRun":
    """Load a run directory that ``run_multitask.py`` wrote.

    Args:
        run_dir: the run directory.
        overrides: config values to change, such as ``["device=cpu", "data_dir=DIR"]``.

    Raises:
        UserError: no run there, or it has no weights yet.
    """
    directory = expand_home(os.fspath(run_dir))
    return TrainedRun(directory, load_run_config(directory, listed_overrides(overrides)))


class TrainedRun:
    """A run's encoder and tasks with the weights that ``training.select`` chose.

    Attributes:
        directory: the run directory.
        tasks: names of the tasks.
        config: the resolved config.
        readers: the label reader of each task.
        scorer: runs the model with the weights that are loaded.
    """

    def __init__(self, directory: Path, config: Config, *, every_process: bool = False) -> None:
        """Load a run; with ``every_process`` all processes do, and share out the rows to score."""
        self.directory = directory
        self.config = config
        self._loaded_from = self.files.identity
        self.tasks = list(config.tasks)
        if planned_world() > 1 and not every_process:
            raise UserError("a trained run is loaded by one process: start without a launcher")
        with config.errors_at(("device",)):
            self.device = pick_device(config.device)
        for task in self.tasks:
            check_head(config, task)
        self.readers: dict[str, LabelReader] = label_readers(config)
        owners = config.selecting_tasks()
        with reading(self.files.best):
            self.steps = selected_steps(self.files.best_steps(), owners, config.training.select)
        context = {task: reader.head_context() for task, reader in self.readers.items()}
        autocast = autocast_dtype(config.training.precision, self.device)

        def build() -> MultiTaskModel:
            encoder = pretrained.saved_encoder(self.files.encoder, config)
            weights = pretrained.empty_head_weights(encoder)
            return assemble(config, encoder, context, weights=weights, autocast=autocast)

        self._weights = {n: intact_weights(self.files, n) for n in set(self.steps.values())}
        self.model = build_fitting(build, self._weights.values())
        self.tokenizer = pretrained.saved_tokenizer(self.files.encoder)
        check_lengths(config, self.model.encoder)
        pretrained.check_vocabulary(self.model.encoder, self.tokenizer, str(self.files.encoder))
        pretrained.use_kernels(
            config, self.model.encoder, self.device, partial(print, file=sys.stderr)
        )
        self.model.to(self.device).eval()
        batch_size = config.training.eval_batch_size
        self.scorer = Scorer(self.model, self.tokenizer, batch_size, self.device)
        self._maskings = task_maskings(self.model, self.tokenizer, self.tasks)
        self._loaded: int | None = None

    def __fspath__(self) -> str:
        """Return the run directory, so that a run can be given where one is asked for."""
        return str(self.directory)

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task} (step {self.steps[task]})" for task in self.tasks)
        return f"<run {self.directory} on {self.device}: {tasks}>"

    @property
    def files(self) -> RunDirectory:
        """The files of the run."""
        return RunDirectory(self.directory)

    def check_unchanged(self) -> None:
        """Raise UserError if another run has taken the place of this one since it was loaded."""
        if self.files.identity != self._loaded_from:
            message = "another run has taken its place, so nothing is written: repeat the command"
            raise UserError(f"{self.directory}: {message}")

    def predict(self, task: str, texts: Iterable[Text]) -> list[Record]:
        """Predict texts, or pairs of texts, in order. An empty list gives an empty list.

        For a tagging task a text is a list of words, or a string that is split at white space. For
        question answering a pair is a question and a context.

        Returns:
            One dict per text: ``prediction`` (class id, 0/1 or number on the label scale), ``name``
            (the class; absent for numbers) and ``scores`` (the probability of each class, or the
            number). Task types may add keys: see ``multitask.tasks.records``.

        Raises:
            UserError: an unknown task, a task without labels, or single texts where pairs are
                needed and vice versa; a string, a mapping or a table instead of a list; a missing
                text.
        """
        self._use(task)
        self._check_predicts(task)
        reader = self.readers[task]
        form, source = input_of(self.config.tasks[task]), f"task {task}"
        given = as_list(texts, form.items, source)
        if not given:
            return []
        rows = reading_of(reader.task_type).rows_of_texts(given, form, source)
        scores = self.score(task, rows)
        records = predicted_records(rows, reader, scores.predictions, scores.scores)
        one_of_two = isinstance(reader.task_type, RowLabels) and scores.scores.shape[1] == 1
        return with_both_scores(records) if one_of_two and len(reader.names) == 2 else records

    def encode(self, texts: Iterable[str], task: str | None = None) -> np.ndarray:
        """Compute sentence vectors under a task's pooling, float32 [N, d] in order.

        For a contrastive task they are those that it compares: after its projection, unless that
        is for training only. ``task`` defaults to ``vector_task``.
        """
        task = task or self.vector_task()
        self._use(task)
        if not self.config.tasks[task].gives_vectors:
            message = f"task {task} looks at tokens and has no vector of a text: take another task"
            raise UserError(f"{self.directory}: {message}")
        single = [text for (text,) in rows_of_texts(texts, Single(), f"task {task}").texts]
        return self.scorer.vectors(task, single, self.config.tasks[task].max_length)

    def vector_task(self) -> str:
        """Return the default task for vectors: the first that compares texts, else the first."""
        comparing = [name for name in self.tasks if input_of(self.config.tasks[name]).compares]
        pooled = [name for name in self.tasks if self.config.tasks[name].gives_vectors]
        return [*comparing, *pooled, *self.tasks][0]

    def model_for(self, task: str) -> MultiTaskModel:
        """Return the model with the weights that serve a task, in evaluation mode."""
        self._use(task)
        return self.model

    def scorer_for(self, task: str) -> Scorer:
        """Return the scorer, with the weights that serve a task."""
        self._use(task)
        return self.scorer

    def inputs(self, task: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Split texts at tabs into the sequences of the encoder.

        Raises UserError for a text that is not a pair, if a sequence has both texts of a pair.
        """
        form = input_of(self.config.tasks[task])
        if form.texts == 1:
            return [(text,) for text in texts]
        rows: Sequence[Sequence[str]] = [text.split("\t") for text in texts]
        if form.joins:
            rows = rows_of_texts(rows, form, f"task {task}").texts
        return [sequence for row in rows for sequence in form.sequences(row)]

    def tokens(self, task: str, texts: Sequence[tuple[str, ...]]) -> Tokens:
        """Tokenize sequences of one text, or of two texts."""
        rows = Rows("texts", [str(i) for i in range(len(texts))], list(texts), None)
        length = self.config.tasks[task].max_length
        return tokenize(rows, self.tokenizer, max_length=length)

    def encoder(self, task: str) -> tuple[Encoder, Any]:
        """Return the encoder with the weights that serve a task, and the task's adapter or None."""
        self._use(task)
        return self.model.encoder, self.model.adapter(task)

    def score(self, task: str, rows: Rows) -> Scores:
        """Score rows, in order. Raises UserError for a task without labels."""
        self._use(task)
        self._check_predicts(task)
        return self.score_split(task, self._tokenized(task, rows))

    def load_split(self, task: str, name: str) -> Split:
        """Load the rows of the task's dev or test split for ``score_split``."""
        rows = split_rows(self.config, task, name, self.readers)
        split = self._tokenized(task, rows, default_cache() / "tokens")
        return masked_split(split, self._maskings[task]) if task in self._maskings else split

    def score_split(self, task: str, split: Split) -> Scores:
        """Score a split from ``load_split``."""
        self._use(task)
        return self.scorer.score(task, split)

    def _tokenized(self, task: str, rows: Rows, cache: Path | None = None) -> Split:
        reader = self.readers[task]
        return tokenized(
            self.config, task, rows, reader=reader, tokenizer=self.tokenizer, cache=cache
        )

    def _check_predicts(self, task: str) -> None:
        if isinstance(self.readers[task].task_type, NoLabels):
            message = "predicts nothing about a text: take another task"
            if self.config.tasks[task].gives_vectors:
                message += ", or its vectors (`encode`)"
            raise UserError(f"{self.directory}: task {task} {message}")

    def _use(self, task: str) -> None:
        """Load the weights that serve the task, unless they are loaded already."""
        if task not in self.tasks:
            raise UserError(f"{self.directory}: no task {task!r}{suggest(str(task), self.tasks)}")
        if self.steps[task] != self._loaded:
            self.model.load_state_dict(read_checked(self._weights[self.steps[task]]))
            self._loaded = self.steps[task]
