"""Export a task to ONNX: from token ids, mask and token types to scores, for any batch shape."""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from multitask.data.tokenize import pair_of
from multitask.inference.export.export_parts import (
    BATCH,
    PADDED,
    TOLERANCE,
    Parts,
    largest_difference,
    saved_tokenizer,
)
from multitask.inference.export.onnx_module import INPUTS, PlainTask
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

FILE, INT8_FILE = "model.onnx", "model_int8.onnx"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
Texts = Sequence[tuple[str, ...]]


def check_graph(parts: Parts) -> None:
    """Raise UserError for a head, or layers, that have no ONNX graph of the same scores."""
    if not parts.config.tasks[parts.task].gives_vectors:
        head = parts.config.tasks[parts.task].head.name
        message = f"tasks.{parts.task}.head: {head} predicts {parts.reader.task_type.predicts}: "
        raise UserError(message + "export another task, or --format transformers --encoder-only")
    if parts.config.encoder.bitlinear is not None:
        # onnxruntime sums in another order, and rounding to 8 bits makes the difference larger
        message = (
            "encoder.bitlinear: ONNX would give other scores, for inputs are rounded to 8 bits: "
        )
        raise UserError(message + "export it with --format ternary")


def export_onnx(parts: Parts, directory: Path) -> None:
    """Write ``model.onnx`` and the tokenizer into an empty directory.

    Raises UserError for a head, pooling or layers that ONNX cannot represent, and for a missing
    package.
    """
    for package in PACKAGES:
        optional(package, f"{package} is not installed", "onnx")
    check_graph(parts)
    names = input_names(parts)
    # an example input: all sizes differ, so that the exporter does not take two of them as equal
    endings = {"endings": 5} if parts.chooses else {}
    sizes = [{"batch": 3, **endings, "length": 11}]
    sizes += [
        {"batch": 3, f"length_{side}": 8 if side == 2 else 11 + side}
        for side in range(2, parts.sides + 1)
    ]
    sizes = [size for size in sizes for _ in range(len(names) // parts.sides)]
    dimensions = {name: torch.export.Dim(name) for size in sizes for name in size}
    shapes = tuple({i: dimensions[name] for i, name in enumerate(size)} for size in sizes)
    sample = [torch.ones(*size.values(), dtype=torch.long) for size in sizes]
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a fused kernel without a counterpart
    try:
        with warnings.catch_warnings(), torch.no_grad(), quiet("torch.onnx"):
            warnings.simplefilter("ignore")
            program: Any = torch.onnx.export(
                PlainTask(parts).eval(),
                tuple(sample),
                input_names=names,
                output_names=[output_name(parts)],
                dynamic_shapes=(shapes,),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the exporter raises many kinds, all of them about the model
        raise UserError(
            f"{parts.pooling_key}: ONNX cannot carry {parts.pooling_name} "
            f"({type(error).__name__} in torch.onnx): train with another pooling"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    described = {
        "task": parts.task,
        "labels": json.dumps(list(parts.reader.names)),
        "reading": parts.reading("onnx"),
        "max_length": str(parts.max_length),
    }
    program.model.metadata_props.update(described)
    program.save(directory / FILE, external_data=False)
    parts.task_tokenizer().save_pretrained(directory)


@contextmanager
def quiet(name: str | None) -> Iterator[None]:
    """Let a logger, and those below it, log only errors inside the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def input_names(parts: Parts) -> list[str]:
    """Return the names of the graph's inputs by side, numbered from the second side on."""
    names = [name for name in INPUTS if name in parts.tokenizer.model_input_names]
    others = (f"{name}_{side}" for side in range(2, parts.sides + 1) for name in names)
    return [*names, *others]


def output_name(parts: Parts) -> str:
    """Return ``logits``, ``numbers`` on the label scale, or ``embeddings`` (contrastive tasks)."""
    if parts.embeds:
        return "embeddings"
    return "numbers" if parts.reader.task_type.described_by == "label_range" else "logits"


def session(file: Path) -> Any:
    """Open the file in onnxruntime, with as many CPU threads as torch has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def feeds(parts: Parts, tokenizer: Any, texts: Texts) -> list[dict[str, np.ndarray]]:
    """Tokenize rows of texts into inputs of the graph, padded batches of BATCH rows, in order.

    ``tokenizer`` is the one that the export saves. Inputs are [B, T], or [B, n, T] of a task with n
    endings, as in `AutoModelForMultipleChoice`.
    """
    sides = [list(texts)] if parts.embeds or parts.chooses else parts.form.arrange(texts)
    batches = []
    for start in range(0, len(texts), BATCH):
        feed: dict[str, np.ndarray] = {}
        for place, side in enumerate(sides, 1):
            suffix = f"_{place}" if place > 1 else ""
            rows = side[start : start + BATCH]
            count = len(rows)
            if parts.chooses:
                rows = [pair for row in rows for pair in parts.form.sequences(row)]
            pairs = (pair_of(row, tokenizer) for row in rows)
            ready = tokenizer(*map(list, zip(*pairs, strict=True)), **PADDED, return_tensors="np")
            for name in INPUTS:
                if name in ready:
                    values = ready[name]
                    feed[name + suffix] = (
                        values.reshape(count, -1, values.shape[1]) if parts.chooses else values
                    )
        batches.append(feed)
    return batches


def run_session(loaded: Any, batches: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """Run the graph on all batches and concatenate the outputs."""
    names = {entry.name for entry in loaded.get_inputs()}
    inputs = [{name: batch[name] for name in batch if name in names} for batch in batches]
    return np.concatenate([loaded.run(None, batch)[0] for batch in inputs])


def check_onnx(parts: Parts, directory: Path, texts: Texts) -> float:
    """Return the largest difference between onnxruntime's scores and the run's.

    Raises UserError if it is above TOLERANCE.
    """
    inputs = [row[:1] for row in texts] if parts.embeds else list(texts)
    batches = feeds(parts, saved_tokenizer(directory), inputs)
    exported = run_session(session(directory / FILE), batches)
    expected = parts.vectors([row[0] for row in inputs]) if parts.embeds else parts.scores(inputs)
    difference = largest_difference(exported, expected.numpy())
    if not difference <= TOLERANCE:
        raise UserError(
            f"{parts.pooling_key}: {parts.pooling_name} does not give the same scores in ONNX "
            f"(difference {difference:.2g}): train with another pooling"
        )
    return difference
