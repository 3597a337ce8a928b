"""One head of sequences by name, in float64 with random weights, and vectors for it."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from multitask.config.registry import build
from multitask.models.head_checks import inputs_for

B, D, C = 5, 6, 3
COUNTS = [7, 2, 4]
LOW, HIGH = 1.0, 5.0
CONTEXT = {
    "dim": D,
    "num_labels": C,
    "class_counts": COUNTS,
    "row_count": 13,
    "low": LOW,
    "high": HIGH,
}


def on_vectors(head: Any) -> bool:
    """Return True for a class of heads on the vectors of one sequence, or of a pair."""
    parameters = inspect.signature(head.forward).parameters.values()
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return not several and bool(inputs_for(head, True))


def make_head(name: str, options: Mapping[str, object] = {}, **context: object) -> Any:
    """A float64 head with every parameter drawn at random."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        head = build("head", name, dict(options), CONTEXT | context)
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return head


def vectors(head: Any, rows: int = B, seed: int = 1) -> list[Tensor]:
    """The inputs of the head, float64 with a gradient."""
    generator = torch.Generator().manual_seed(seed)
    sides = len(inspect.signature(head.forward).parameters)
    made = [torch.randn(rows, D, generator=generator, dtype=torch.float64) for _ in range(sides)]
    return [vector.requires_grad_() for vector in made]
