"""Export a task's sentence vectors as a directory that `sentence-transformers` loads."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from multitask.inference.export.export_parts import Parts, lowest_cosine
from multitask.inference.export.hugging_face import export_encoder
from multitask.models.projections import Linear, MlpBatchNorm, Tanh
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

POOLINGS = ("cls", "mean", "max")
LOWEST_COSINE = 0.99999


def export_sentences(parts: Parts, directory: Path) -> None:
    """Write the modules Transformer, Pooling and, for a projection, Dense.

    The vectors are those of ``TrainedRun.encode``: for a contrastive task those that it compares,
    else the pooled vectors.

    Raises UserError, with the config key, for a pooling or projection without such a module.
    """
    package = "sentence-transformers"
    library = optional("sentence_transformers", f"{package} is not installed", package)
    check_poolable(parts)
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    with tempfile.TemporaryDirectory() as scratch:
        export_encoder(parts, Path(scratch))
        transformer = Transformer(scratch, max_seq_length=parts.max_length)
        modules = [transformer, Pooling(parts.encoder.dim, pooling_mode=parts.pooling_name)]
        model = library.SentenceTransformer(modules=[*modules, *_dense(parts)], device="cpu")
        model.save(str(directory), create_model_card=False, safe_serialization=True)


def check_poolable(parts: Parts) -> None:
    """Raise UserError for layers and poolings that `sentence-transformers` has no module for."""
    parts.check_encoder("sentence-transformers")
    if parts.pooling_name not in POOLINGS:
        raise UserError(
            f"{parts.pooling_key}: {parts.pooling_name}: sentence-transformers has no such "
            f"pooling, only {', '.join(POOLINGS)}: export it with --format onnx"
        )


def _dense(parts: Parts) -> list[Any]:
    """Return the projection of ``TrainedRun.encode`` as modules of sentence-transformers."""
    from sentence_transformers.sentence_transformer.modules import Dense

    def dense(weight: Any, bias: Any, activation: nn.Module) -> Any:
        shape = (weight.shape[1], weight.shape[0])
        initial = {"init_weight": weight.detach().float(), "init_bias": bias.detach().float()}
        return Dense(*shape, activation_function=activation, **initial)

    projection = parts.vector_projection
    if projection is None:
        return []
    if isinstance(projection, MlpBatchNorm):  # in evaluation a batch norm is a linear map
        first, norm, _, second, last = projection.layers
        return [
            dense(*_folded(first, norm), nn.ReLU()),
            dense(*_folded(second, last), nn.Identity()),
        ]
    layer: Linear = projection
    activation = nn.Tanh() if isinstance(layer, Tanh) else nn.Identity()
    return [dense(layer.dense.weight, layer.dense.bias, activation)]


def _folded(linear: Any, norm: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias of ``norm(linear(x))`` under the norm's running statistics."""
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    shift = -norm.running_mean.double() * scale
    if norm.affine:
        scale = scale * norm.weight.double()
        shift = shift * norm.weight.double() + norm.bias.double()
    return scale[:, None] * linear.weight.double(), shift


def check_sentences(parts: Parts, directory: Path, texts: list[str]) -> float:
    """Load the export and return the lowest cosine between its vectors and the run's.

    Raises UserError if it is below LOWEST_COSINE.
    """
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(directory), device="cpu")
    exported, expected = model.encode(texts, show_progress_bar=False), parts.vectors(texts).numpy()
    lowest = lowest_cosine(exported, expected)
    if not lowest >= LOWEST_COSINE:
        raise UserError(
            f"{parts.pooling_key}: sentence-transformers gives other vectors (cosine {lowest:.6f})"
        )
    return lowest
