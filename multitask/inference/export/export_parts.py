"""The modules of a task, in evaluation mode, that an export needs."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multitask.config import Config
from multitask.data.collate import separate
from multitask.data.inputs.base import Texts, input_of, together
from multitask.data.tokenize import Arrange, Tokens, pair_of, tokenize
from multitask.inference.scoring import Scorer
from multitask.models.encoders import BertEncoder, Encoder
from multitask.models.encoders.bert_weights import module_names, to_transformers
from multitask.models.encoders.hf_layout import has_token_types
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

SHOWN = 20  # classes that a card names
TOLERANCE = 1e-4  # absolute, or relative for numbers above 1
BATCH = 32  # rows of a padded batch in which an export is compared


@dataclass
class Parts:
    """The parts of a run that turn token ids into the scores of one task.

    Attributes:
        config: the run's config.
        task: the task's name.
        model: the model with the weights that serve the task, in evaluation mode, on the CPU.
        tokenizer: the run's tokenizer.
        reader: the task's label reader.
        merged: the task's LoRA, which ``encoder`` has in its weights, or None.
        adapter: an adapter of another kind, or None.
        base: the task whose adapter, pooling and projection are used, usually the task itself.
        pooler: the pooler of evaluation mode.
        projection: the projection of evaluation mode, or None.
        vector_projection: the projection that sentence vectors have: that of a contrastive task,
            else None.
        sides: the number of sequences of a row that are encoded separately.
        chooses: True if the head takes a sequence per ending, which the graph has in one tensor.
        embeds: True if the task gives vectors of texts and no predictions.
    """

    config: Config
    task: str
    model: MultiTaskModel
    tokenizer: Any
    reader: LabelReader

    def __post_init__(self) -> None:
        model, task = self.model, self.task
        self.base = model.owners_of(task)[-1]
        adapter = model.adapter(task)
        merges = adapter is not None and adapter.in_maps and self.config.encoder.bitlinear is None
        self.merged: Any = adapter if merges else None
        self.adapter: Any = None if merges else adapter
        self.head: Any = model.head(task)
        self.pooler: Any = model.module(task).scoring_pooler
        projection: Any = model.tasks[self.base].scoring_projection
        self.projection: Any = None if isinstance(projection, nn.Identity) else projection
        self.vector_projection = self.projection if model.compares_projected(task) else None
        self.embeds = self.reader.task_type.compares_rows
        self.form = input_of(self.config.tasks[task])
        self.chooses = self.form.sides is None
        self.sides = 1 if self.embeds else self.form.sides or 1
        self.max_length = self.config.tasks[task].max_length
        base = self.config.tasks[self.base]
        key = "pooling" if base.eval_pooling is None else "eval_pooling"
        self.pooling_key = f"tasks.{self.base}.{key}"
        self.pooling_name: str = getattr(base, key).name

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder; with LoRA a copy that has it in the weights, made when it is needed."""
        encoder = self.model.encoder
        return encoder if self.merged is None else self.merged.merged(encoder)

    def reading(self, library: str) -> str:
        """Say how to read the scores of an export for ``library``; "" if there are none."""
        if self.embeds:
            return ""
        text, names = self.head.reading, self.reader.names
        if library == "transformers":
            text = self.head.classifier_reading or text
        shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        return str(text.format(names=shown, last=names[-1] if names else ""))

    def check_encoder(self, library: str) -> None:
        """Raise UserError if ``library`` has no module for a part of the encoder's layers."""
        without = f"and {library} has no such module: export it with --format"
        if self.adapter is not None:
            key = f"tasks.{self.base}.adapter"
            raise UserError(f"{key}: it is part of the encoder's layers, {without} onnx")
        if self.config.encoder.bitlinear is not None:
            message = "the encoder's layers have ternary weights and 8-bit inputs"
            raise UserError(f"encoder.bitlinear: {message}, {without} ternary")

    def task_tokenizer(self) -> Any:
        """Return a tokenizer to save: its file has no padding and no truncation, its
        ``model_max_length`` is the task's. It gives no token types to an encoder without them.
        """
        made = copy.deepcopy(self.tokenizer)
        made.backend_tokenizer.no_padding()
        made.backend_tokenizer.no_truncation()
        made.model_max_length = self.max_length
        if not has_token_types(self.encoder.config):
            made.model_input_names = [n for n in made.model_input_names if n != "token_type_ids"]
        return made

    @property
    def scorer(self) -> Scorer:
        """Runs the run's model, on the CPU."""
        batch_size = self.config.training.eval_batch_size
        return Scorer(self.model, self.tokenizer, batch_size, torch.device("cpu"))

    def scores(self, texts: list[Texts]) -> Tensor:
        """Score rows of texts with the run's model: float32 [N] or [N, C]."""
        return self.scorer.over_rows(
            self.tokens(texts, self.form.arrange),
            lambda batch: self.model(separate({self.task: batch}))[self.task],
        )

    def vectors(self, texts: list[str]) -> Tensor:
        """Compute the sentence vectors of ``TrainedRun.encode``: float32 [N, d]."""
        return torch.from_numpy(self.scorer.vectors(self.task, texts, self.max_length))

    def tokens(self, texts: list[Texts], arrange: Arrange = together) -> Tokens:
        """Tokenize rows as the run does."""
        rows = Rows("texts", [str(i) for i in range(len(texts))], texts, None)
        return tokenize(rows, self.tokenizer, max_length=self.max_length, arrange=arrange)


def plain_encoder(encoder: Encoder) -> Any:
    """Return the encoder as a model of `transformers` without tanh pooler, in evaluation mode."""
    if not isinstance(encoder, BertEncoder):
        return encoder.model.eval()
    from transformers import AutoModel

    model = AutoModel.from_config(encoder.config, add_pooling_layer=False, dtype=torch.float32)
    model.load_state_dict(to_transformers(encoder.state_dict(), encoder.config.model_type))
    return model.eval()


def module_of(encoder: Encoder, number: int, name: str) -> str:
    """Return the module in ``plain_encoder`` of a linear map: the layer's number and its name."""
    if isinstance(encoder, BertEncoder):
        return module_names(encoder.config.model_type)[name].format(number - 1)
    return f"{encoder.layout.layers}.{number - 1}.{name}"


def padded(tokenizer: Any, rows: Sequence[Texts], tensors: str) -> Any:
    """Tokenize sequences of texts as a padded batch, as the users of an export do."""
    columns = map(list, zip(*(pair_of(row, tokenizer) for row in rows), strict=True))
    return tokenizer(*columns, truncation=True, padding=True, return_tensors=tensors)


def saved_tokenizer(directory: Path) -> Any:
    """Load the tokenizer of an export as its users do."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(directory))


def largest_difference(actual: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest |actual - wanted|, relative to the number if that is above 1."""
    if actual.shape != wanted.shape:
        return float("inf")
    return float((np.abs(actual - wanted) / np.maximum(1, np.abs(wanted))).max())
