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

from multitask.data.collate import collate
from multitask.data.inputs.base import together
from multitask.data.tokenize import tokenize
from multitask.inference.export.export_parts import TOLERANCE, Parts, largest_difference
from multitask.inference.export.onnx_module import INPUTS, PlainTask
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

FILE, INT8_FILE = "model.onnx", "model_int8.onnx"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
BATCH = 32
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
    sizes = [{"batch": 3, **endings, "length": 11}] * 3
    for side in range(2, parts.sides + 1):
        sizes += [{"batch": 3, f"length_{side}": 8 if side == 2 else 11 + side}] * 3
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
    """Return the names of the graph's inputs: three per side, numbered from the second side on."""
    others = (f"{name}_{side}" for side in range(2, parts.sides + 1) for name in INPUTS)
    return [*INPUTS, *others]


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


def feeds(parts: Parts, texts: Texts) -> list[dict[str, np.ndarray]]:
    """Tokenize rows of texts into inputs of the graph, BATCH rows each, in order.

    Inputs are [B, T], or [B, n, T] of a task with n endings, as in `AutoModelForMultipleChoice`.
    """
    batches: list[dict[str, np.ndarray]] = [{} for _ in range(0, len(texts), BATCH)]
    alone = parts.embeds or parts.chooses
    sides = [list(texts)] if alone else parts.form.arrange(texts)
    arrange = parts.form.arrange if parts.chooses else together
    for place, side in enumerate(sides, 1):
        suffix = f"_{place}" if place > 1 else ""
        rows = Rows("texts", [str(i) for i in range(len(side))], side, None)
        length = parts.max_length
        tokens = tokenize(rows, parts.tokenizer, max_length=length, arrange=arrange)
        for number, feed in enumerate(batches):
            index = np.arange(number * BATCH, min((number + 1) * BATCH, len(side)))
            batch = collate(tokens, index, pad_id=parts.tokenizer.pad_token_id)
            for name in INPUTS:
                values = getattr(batch, name)
                if parts.chooses:
                    values = values.unflatten(0, (tokens.sides, -1)).transpose(0, 1).contiguous()
                feed[name + suffix] = values.numpy()
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
    exported = run_session(session(directory / FILE), feeds(parts, inputs))
    expected = parts.vectors([row[0] for row in inputs]) if parts.embeds else parts.scores(inputs)
    difference = largest_difference(exported, expected.numpy())
    if not difference <= TOLERANCE:
        raise UserError(
            f"{parts.pooling_key}: {parts.pooling_name} does not give the same scores in ONNX "
            f"(difference {difference:.2g}): train with another pooling"
        )
    return difference
