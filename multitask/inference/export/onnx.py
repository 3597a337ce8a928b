"""Export a task to ONNX: from token ids, mask and token types to scores, for any batch shape.

``onnx_int8`` quantises it.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multitask.inference.export.export_parts import (
    BATCH,
    TOLERANCE,
    Parts,
    largest_difference,
    padded,
    saved_tokenizer,
)
from multitask.models.encoders import BertEncoder
from multitask.models.encoders.bert import roberta_positions
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

FILE = "model.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Texts = Sequence[tuple[str, ...]]


def check_graph(parts: Parts) -> None:
    """Raise UserError for a head, or layers, that have no ONNX graph of the same scores."""
    if not parts.config.tasks[parts.task].gives_vectors:
        head = parts.config.tasks[parts.task].head.name
        message = f"tasks.{parts.task}.head: {head} predicts {parts.reader.task_type.predicts}: "
        raise UserError(message + "export another task, or --format transformers --encoder-only")
    if parts.config.encoder.bitlinear is not None:
        # onnxruntime sums in another order, and rounding to 8 bits makes the difference larger
        message = "ONNX would give other scores, for inputs are rounded to 8 bits: "
        raise UserError(f"encoder.bitlinear: {message}export it with --format ternary")


def check_together(tasks: Sequence[Parts]) -> None:
    """Raise UserError for tasks whose scores are not those of one pass over the same tensors."""
    first = tasks[0]
    for other in tasks[1:]:
        names, alone = f"{first.task} and {other.task}", "export each of them alone"
        entry = f"tasks.{other.task}"
        if (other.form, other.sides) != (first.form, first.sides):
            raise UserError(f"{entry}.input: {names} read texts in different ways: {alone}")
        if other.max_length != first.max_length:
            message = f"{names} cut texts at different lengths: add {entry}.max_length="
            raise UserError(f"{entry}.max_length: {message}{first.max_length}, or {alone}")
        for task in (first, other):
            if task.model.adapter(task.task) is not None:
                message = f"a task with an adapter has its own encoder pass: {alone}"
                raise UserError(f"tasks.{task.base}.adapter: {message}")


def export_onnx(tasks: Sequence[Parts], directory: Path) -> None:
    """Write ``model.onnx`` of one or more tasks and the tokenizer into an empty directory.

    Raises UserError for a head, pooling or layers that ONNX cannot represent, for tasks that do not
    fit together, and for a missing package.
    """
    parts = tasks[0]
    for package in ("onnx", "onnxruntime", "onnxscript"):
        optional(package, f"{package} is not installed", "onnx")
    check_together(tasks)
    for each in tasks:
        check_graph(each)
    tokenizer = parts.task_tokenizer()
    names = [name for name in INPUTS if name in tokenizer.model_input_names]
    # the graph's inputs by side, numbered from the second side on
    sides = ["", *(f"_{side}" for side in range(2, parts.sides + 1))]
    # an example input: all sizes differ, so that the exporter does not take two of them as equal
    endings = {"endings": 5} if parts.chooses else {}
    sizes = [
        {"batch": 3, **endings, f"length{side}": 11 + place}
        for place, side in enumerate(sides)
        for _ in names
    ]
    dimensions = {name: torch.export.Dim(name) for size in sizes for name in size}
    shapes = tuple({i: dimensions[name] for i, name in enumerate(size)} for size in sizes)
    sample = [torch.ones(*size.values(), dtype=torch.long) for size in sizes]
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a fused kernel without a counterpart
    try:
        with warnings.catch_warnings(), torch.no_grad(), quiet("torch.onnx"):
            warnings.simplefilter("ignore")
            program: Any = torch.onnx.export(
                PlainTasks(tasks).eval(),
                tuple(sample),
                input_names=[name + side for side in sides for name in names],
                output_names=output_names(tasks),
                dynamic_shapes=(shapes,),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the exporter raises many kinds, all of them about the model
        poolings = {each.pooling_key: each.pooling_name for each in tasks}
        blamed = " or ".join(f"{key}: {name}" for key, name in poolings.items())
        raise UserError(
            f"{blamed} has no ONNX graph ({type(error).__name__} in torch.onnx): "
            "train with another pooling"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    labels = {each.task: list(each.reader.names) for each in tasks}
    reading = {each.task: each.reading("onnx") for each in tasks}
    several = len(tasks) > 1
    described = {
        "task": ",".join(labels),
        "labels": json.dumps(labels if several else labels[parts.task]),
        "reading": json.dumps(reading) if several else reading[parts.task],
        "max_length": str(parts.max_length),
    }
    program.model.metadata_props.update(described)
    program.save(directory / FILE, external_data=False)
    tokenizer.save_pretrained(directory)


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


def output_names(tasks: Sequence[Parts]) -> list[str]:
    """Return the names of the graph's outputs: those of several tasks are the tasks' names.

    Of one task: ``logits``, ``numbers`` on the label scale, or ``embeddings`` (contrastive tasks).
    """
    if len(tasks) > 1:
        return [each.task for each in tasks]
    if tasks[0].embeds:
        return ["embeddings"]
    return ["numbers" if tasks[0].reader.task_type.described_by == "label_range" else "logits"]


class PlainTasks(nn.Module):
    """Maps token ids, mask and token types to the scores of each task, without packing.

    Without token types in the tokenizer there are two tensors per side, and all types are 0. Tasks
    whose texts are read apart take the tensors of the first texts, then those of the second ones,
    and so on. Tasks with n endings per row take tensors [B, n, T].
    """

    def __init__(self, tasks: Sequence[Parts]) -> None:
        super().__init__()
        first = tasks[0]
        self.encoder, self.adapter = first.encoder, first.adapter
        self.chooses, self.sides = first.chooses, first.sides
        self.embeds = [parts.embeds for parts in tasks]
        self.poolers: Any = nn.ModuleList(parts.pooler for parts in tasks)
        self.projections = nn.ModuleList(parts.projection or nn.Identity() for parts in tasks)
        self.heads = nn.ModuleList(parts.head for parts in tasks)
        self.layers = {layer for parts in tasks for layer in parts.pooler.layers}

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """int64 [B, T] or [B, n, T] -> logits [B], [B, C], [B, n], numbers [B], vectors [B, d]."""
        count = len(inputs) // self.sides
        texts = [inputs[i : i + count] for i in range(0, len(inputs), count)]
        if self.chooses:  # the head gives each ending its logit
            texts = [tuple(values.flatten(0, 1) for values in inputs)]
        pooled = [self._pooled(*text) for text in texts]
        outputs = []
        for projection, head, embeds, *sides in zip(
            self.projections, self.heads, self.embeds, *pooled, strict=True
        ):
            vectors = [projection(side) for side in sides]
            scores = vectors[0] if embeds else head(*vectors)
            outputs.append(scores.reshape(inputs[0].shape[:2]) if self.chooses else scores)
        return tuple(outputs)

    def _pooled(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> list[Tensor]:
        types = torch.zeros_like(ids) if types is None else types
        if isinstance(self.encoder, BertEncoder):
            states = self._bert_states(ids, mask, types)
        else:
            taken = {"token_type_ids": types} if self.encoder.takes_token_types else {}
            output = self.encoder.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, **taken
            )
            states = dict(enumerate(output.hidden_states))
        return [pooler({n: states[n] for n in pooler.layers}, mask) for pooler in self.poolers]

    def _bert_states(self, ids: Tensor, mask: Tensor, types: Tensor) -> dict[int, Tensor]:
        """Compute the hidden states [B, T, d] up to the poolers' highest layer, pads included."""
        encoder: Any = self.encoder
        packing = Padded(mask)
        token_type = encoder.embeddings.token_type
        if token_type is not None and token_type.num_embeddings == 1:
            types = torch.zeros_like(types)
        positions = packing.positions
        if first := encoder.embeddings.first_position:
            positions = roberta_positions(ids, mask, first).flatten()
        hidden = encoder.embeddings(ids.flatten(), positions, types.flatten())
        bias = None if encoder.relative is None else encoder.relative(mask.shape[1])
        states = {0: packing.pad(hidden)}
        for number in range(1, max(self.layers) + 1):
            adapter = self.adapter
            of_layer = adapter if adapter is not None and number in adapter.layers else None
            layer = encoder.layers[number - 1]
            hidden = layer(hidden, packing, False, of_layer, number, bias=bias)
            states[number] = packing.pad(hidden)
        return states


class Padded:
    """Stands in for a ``Packing`` and keeps the pads: rows [B * T, d].

    Pads are masked as attention keys, so their rows influence no token.
    """

    def __init__(self, mask: Tensor) -> None:
        self.shape, self.max_seqlen = mask.shape, mask.shape[1]
        self.mask = (mask != 0)[:, None, None, :]
        # a pad has the position of the token before it
        self.positions = ((mask != 0).long().cumsum(1) - 1).clamp(min=0).flatten()
        self.rows = slice(None)
        self.groups = [self]

    def pad(self, rows: Tensor) -> Tensor:
        """[B * T, d] -> [B, T, d]."""
        return rows.view(*self.shape, -1)

    def unpad(self, padded: Tensor) -> Tensor:
        """[B, T, d] -> [B * T, d]."""
        return padded.flatten(0, 1)


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
            shape: tuple[int, ...] = (len(rows),)
            if parts.chooses:
                rows = [pair for row in rows for pair in parts.form.sequences(row)]
                shape = (*shape, len(rows) // len(side[start : start + BATCH]))
            ready = padded(tokenizer, rows, "np")
            feed |= {
                name + suffix: ready[name].reshape(*shape, -1) for name in INPUTS if name in ready
            }
        batches.append(feed)
    return batches


def run_session(
    loaded: Any, batches: Sequence[dict[str, np.ndarray]], output: int = 0
) -> np.ndarray:
    """Run the graph on all batches and concatenate one of its outputs."""
    names = {entry.name for entry in loaded.get_inputs()}
    inputs = [{name: batch[name] for name in batch if name in names} for batch in batches]
    return np.concatenate([loaded.run(None, batch)[output] for batch in inputs])


def check_onnx(parts: Parts, directory: Path, texts: Texts, output: int = 0) -> float:
    """Return the largest difference between onnxruntime's scores, an output, and the run's.

    Raises UserError if it is above TOLERANCE.
    """
    inputs = [row[:1] for row in texts] if parts.embeds else list(texts)
    batches = feeds(parts, saved_tokenizer(directory), inputs)
    exported = run_session(session(directory / FILE), batches, output)
    expected = parts.vectors([row[0] for row in inputs]) if parts.embeds else parts.scores(inputs)
    difference = largest_difference(exported, expected.numpy())
    if not difference <= TOLERANCE:
        raise UserError(
            f"{parts.pooling_key}: {parts.pooling_name} does not give the same scores in ONNX "
            f"(difference {difference:.2g}): train with another pooling"
        )
    return difference
