# Tested by tests/inference/export/test_onnx.py
"""Quantise an ONNX file to int8 weights, and measure its scores, size and speed."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from multitask.inference.export import onnx as graphs
from multitask.inference.export.export_parts import (
    Parts,
    largest_difference,
    saved_tokenizer,
)
from multitask.inference.similarity import cosines
from multitask.tasks import metrics

INT8_FILE = "model_int8.onnx"
PADDING = (
    "int8 scores of a text depend on its batch: activations are scaled by the largest of the "
    "batch, pads included; for scores that do not, run each text alone and without padding"
)
Records = Sequence[Mapping[str, Any]]


def quantise(directory: Path) -> None:
    """Write ``model_int8.onnx``: weights in int8 per channel, activations quantised at run time."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(directory / graphs.FILE)
    del model.graph.value_info[:]  # the shapes of weights are about to change
    _split_gemm(model.graph)
    with graphs.quiet(None):  # it warns about a step that is not needed
        quantize_dynamic(
            model,
            directory / INT8_FILE,
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},  # of nodes that it adds
        )


def _split_gemm(graph: Any) -> None:
    """Replace Gemm by MatMul and Add, and transpose each weight once.

    onnxruntime's quantiser does the same once per use, so it would transpose the weights of an
    encoder that reads two texts twice.
    """
    from onnx import helper, numpy_helper

    weights = {tensor.name: tensor for tensor in graph.initializer}
    turned: dict[str, Any] = {}
    nodes = []
    for node in graph.node:
        # as torch.onnx writes a linear layer; alpha and beta, which it leaves out, are 1
        linear = node.op_type == "Gemm" and [a.name for a in node.attribute if a.i] == ["transB"]
        if not linear or node.input[1] not in weights:
            nodes.append(node)
            continue
        rows, weight, *bias = node.input
        name = f"{weight}_transposed"
        if name not in turned:
            values = numpy_helper.to_array(weights[weight]).T.copy()
            turned[name] = numpy_helper.from_array(values, name)
        product = f"{node.output[0]}_product" if bias else node.output[0]
        nodes.append(helper.make_node("MatMul", [rows, name], [product], f"{node.name}_MatMul"))
        if bias:
            nodes.append(helper.make_node("Add", [product, *bias], node.output, f"{node.name}_Add"))
    used = {name for node in nodes for name in node.input} | {out.name for out in graph.output}
    tensors = [tensor for tensor in (*graph.initializer, *turned.values()) if tensor.name in used]
    for field, values in ((graph.node, nodes), (graph.initializer, tensors)):
        del field[:]
        field.extend(values)


def compare_int8(parts: Parts, directory: Path, records: Records, output: int = 0) -> list[str]:
    """Run both files on the same rows; return their scores, sizes and speeds in words.

    ``records`` are predictions of dev rows; the labels of others are None.
    """
    inputs = [record["texts"][: 1 if parts.embeds else None] for record in records]
    labelled = all(record["label"] is not None for record in records)
    batches = graphs.feeds(parts, saved_tokenizer(directory), inputs)
    files = [directory / graphs.FILE, directory / INT8_FILE]
    outputs, speeds = [], []
    for file in files:
        loaded = graphs.session(file)
        graphs.run_session(loaded, batches[:1])
        began = time.perf_counter()
        outputs.append(graphs.run_session(loaded, batches, output))
        speeds.append(len(inputs) / (time.perf_counter() - began))
    plain, small = (file.stat().st_size / 1e6 for file in files)
    rows = f"{len(inputs):,} {'dev ' if labelled else ''}rows"
    return [
        f"int8 on {rows}: {_difference(parts, outputs, records if labelled else None)}",
        f"int8 file: {small:.2f} MB, fp32 {plain:.2f} MB",
        f"int8 speed: {speeds[1]:.0f} rows/s, fp32 {speeds[0]:.0f} rows/s "
        f"(x {speeds[1] / speeds[0]:.2f}; {torch.get_num_threads()} CPU threads, no tokenizing)",
        PADDING,
    ]


def _difference(parts: Parts, outputs: Sequence[np.ndarray], records: Records | None) -> str:
    """Compare the outputs of fp32 and int8 in words: by the task's metric, if there are labels."""
    if parts.embeds:
        return f"lowest cosine to the fp32 embeddings {cosines(*outputs).min():.5f}"
    if records is None:
        (name,) = graphs.output_names([parts])
        return f"{name} differ by {largest_difference(*outputs):.1e} at most"
    kind, scores = parts.reader.task_type, []
    metric = parts.config.tasks[parts.task].metric or kind.selects[0]
    labels, _, _ = kind.read_records(records)
    for output in outputs:
        predicted = (each.numpy() for each in parts.head.predict(torch.from_numpy(output)))
        scores.append(metrics.compute(kind, (labels, *predicted))[metric])
    plain, small = scores
    return f"{metric} {plain:.4f} in fp32, {small:.4f} in int8 ({small - plain:+z.4f})"
