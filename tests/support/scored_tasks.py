"""Tasks on one tiny encoder, and rows that are made up, to score them."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from multitask.config.registry import build, task_type
from multitask.inference.scoring import Scorer
from multitask.models.encoders.hf import encoder_from_pretrained
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.task_module import TaskModule
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

D = 32
READERS = {
    "class": LabelReader(task_type("class"), {"a": 0, "b": 1, "c": 2}, ("a", "b", "c")),
    "binary": LabelReader(task_type("binary"), {"0": 0, "1": 1}, ("0", "1")),
    "number": LabelReader(task_type("number"), {}, (), 0.0, 5.0),
}


def tiny_model(encoder: Path, tasks: Mapping[str, tuple], dropout: float) -> MultiTaskModel:
    """A model of tasks, each with the names of its pooling, projection, head and its options."""
    context = {"dim": D, "num_labels": 3, "class_counts": [1, 1, 1], "low": 0.0, "high": 5.0}
    torch.manual_seed(2)
    modules = {
        name: TaskModule(
            build("pooling", pooling, {}, {"dim": D, "num_layers": 2}),
            build("projection", projection, {}, context) if projection else nn.Identity(),
            build("head", head, options, context),
            dropout=dropout,
        )
        for name, (pooling, projection, head, options) in tasks.items()
    }
    return MultiTaskModel(encoder_from_pretrained(str(encoder)), modules)


def numbered_rows(count: int, labels: object = None) -> Rows:
    """Rows whose texts are their numbers."""
    names = [str(i) for i in range(count)]
    labels = None if labels is None else np.asarray(labels)
    return Rows("made up", names, [(name,) for name in names], labels)


def scorer_of(model: MultiTaskModel, batch_size: int = 16) -> Scorer:
    return Scorer(model, SimpleNamespace(pad_token_id=0), batch_size, torch.device("cpu"))


@contextmanager
def left_alone(model: MultiTaskModel) -> Iterator[None]:
    """Modes, weights and the state of random generators are the same after the block."""

    def states() -> tuple:
        modes = {name: module.training for name, module in model.named_modules()}
        numpy = np.random.get_state()[1].tolist()
        return modes, torch.get_rng_state().tolist(), random.getstate(), numpy

    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = states()
    yield
    assert states() == before
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
