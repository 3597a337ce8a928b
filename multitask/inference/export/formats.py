"""The formats to which a task of a run can be exported."""

from contextlib import suppress

from multitask.inference.export.export_parts import Parts
from multitask.inference.export.hugging_face import check_classifier, check_peft, check_poolable
from multitask.inference.export.onnx import check_graph
from multitask.models.encoders import BertEncoder
from multitask.utils.errors import UserError


def check_ternary(parts: Parts) -> BertEncoder:
    """Return the encoder if its layers are ternary and the task has no adapter, else UserError."""
    encoder = parts.model.encoder
    if not isinstance(encoder, BertEncoder):
        raise UserError("encoder.name: an encoder of transformers has no ternary layers")
    if parts.adapter is not None:
        message = "the file has only the encoder, without the task's adapter: take `onnx`"
        raise UserError(f"tasks.{parts.base}.adapter: {message}")
    if parts.config.encoder.bitlinear is None:
        raise UserError("no layer is ternary: train with `encoder.bitlinear: {}`")
    return encoder


CHECKS = {
    "transformers": check_classifier,
    "transformers --encoder-only": lambda parts: parts.check_encoder("transformers"),
    "sentence-transformers": check_poolable,
    "peft": check_peft,
    "onnx": check_graph,
    "ternary": check_ternary,
}


def export_formats(parts: Parts) -> list[str]:
    """Return the values of `export --format` that fit the task.

    The export itself may still be refused, such as for a pooling that torch.onnx cannot trace.
    """
    fitting = []
    for form, check in CHECKS.items():
        with suppress(UserError):
            check(parts)
            fitting.append(form)
    if "transformers" in fitting:
        fitting.remove("transformers --encoder-only")
    return fitting
