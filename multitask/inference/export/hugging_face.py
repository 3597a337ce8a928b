"""Export a run's encoder, or a classifier, as a directory that `transformers` loads."""

from pathlib import Path

import numpy as np
import torch

from multitask.data.tokenize import pair_of
from multitask.inference.export.export_parts import (
    TOLERANCE,
    Parts,
    largest_difference,
    plain_encoder,
)
from multitask.models.projections import Tanh
from multitask.utils.errors import UserError

INSTEAD = "export it with --format onnx, or the encoder alone with --encoder-only"
# tanh(W h + b) of the first token, then a linear layer: their names by model type
BERT = ("bert.", "bert.pooler.dense", "classifier")
ROBERTA = ("roberta.", "classifier.dense", "classifier.out_proj")
CLASSIFIERS = {"bert": BERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA, "camembert": ROBERTA}


def export_encoder(parts: Parts, directory: Path) -> None:
    """Write the encoder without a head, and the tokenizer: `AutoModel`, `AutoTokenizer`.

    Raises UserError for an adapter, and for ternary weights.
    """
    parts.check_encoder("transformers")
    plain_encoder(parts.encoder).save_pretrained(directory, safe_serialization=True)
    parts.task_tokenizer().save_pretrained(directory)


def export_classifier(parts: Parts, directory: Path) -> None:
    """Write the task's encoder, projection and head: `AutoModelForSequenceClassification`.

    Raises UserError, with the config key, for what that class would compute differently.
    """
    from transformers import AutoModelForSequenceClassification

    check_classifier(parts)
    config = parts.encoder.config.__class__.from_dict(parts.encoder.config.to_dict())
    names = list(parts.reader.names)
    weight, bias = (part.float() for part in parts.head.last_layer())
    config.num_labels = len(weight)
    if names:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = parts.head.problem_type
    model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    prefix, inner, outer = CLASSIFIERS[config.model_type]
    state = {prefix + name: t for name, t in plain_encoder(parts.encoder).state_dict().items()}
    dense = parts.projection.dense
    state |= {f"{inner}.weight": dense.weight, f"{inner}.bias": dense.bias}
    state |= {f"{outer}.weight": weight, f"{outer}.bias": bias}
    model.load_state_dict(state)
    model.save_pretrained(directory, safe_serialization=True)
    parts.task_tokenizer().save_pretrained(directory)


def check_classifier(parts: Parts) -> None:
    """Raise UserError for what a sequence classifier of `transformers` cannot carry."""
    _check_head_and_encoder(parts)
    if parts.pooling_name != "cls":
        reason = f"{parts.pooling_name}: transformers classifies the first token's vector alone"
        raise UserError(f"{parts.pooling_key}: {reason}: {INSTEAD}")
    if not _has_tanh(parts):
        choice = parts.config.tasks[parts.base].projection
        named = "none" if choice is None else choice.name
        wants = f"transformers puts tanh(W h + b) of width {parts.encoder.dim} before the head"
        raise UserError(
            f"tasks.{parts.base}.projection: {named}: {wants}: train with `projection: tanh` or "
            f"`bert_pooler`, {INSTEAD}"
        )


def missing_values(parts: Parts) -> list[str]:
    """Return the config values that are missing for a sequence classifier of `transformers`.

    The list is empty if nothing is missing, and if no value would help.
    """
    try:
        _check_head_and_encoder(parts)
    except UserError:
        return []
    pooling = [] if parts.pooling_name == "cls" else [f"{parts.pooling_key}=cls"]
    return pooling + ([] if _has_tanh(parts) else [f"tasks.{parts.base}.projection=tanh"])


def _has_tanh(parts: Parts) -> bool:
    projection = parts.projection
    return isinstance(projection, Tanh) and projection.output_dim == parts.encoder.dim


def _check_head_and_encoder(parts: Parts) -> None:
    parts.check_encoder("transformers")
    entry, key = parts.config.tasks[parts.task], f"tasks.{parts.task}"
    if not parts.head.problem_type:
        reason = "no sequence classifier of transformers has such a head"
        raise UserError(f"{key}.head: {entry.head.name}: {reason}: {INSTEAD}")
    kind = parts.encoder.config.model_type
    if kind not in CLASSIFIERS:
        reason = f"{kind} puts another layer before its classifier than a task of this project has"
        raise UserError(f"encoder.name: {reason}: {INSTEAD}")


@torch.no_grad()
def check_transformers(parts: Parts, directory: Path, texts: list[tuple[str, ...]]) -> float:
    """Load the export and return its largest difference to the run, over a classifier's scores or
    the encoder's last hidden states.

    Raises UserError if it is above TOLERANCE.
    """
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    name = str(directory)
    tokenizer = AutoTokenizer.from_pretrained(name)
    config = parts.encoder.config.__class__.from_pretrained(name)
    classifies = "SequenceClassification" in (config.architectures or [""])[0]
    loader = AutoModelForSequenceClassification if classifies else AutoModel
    model = loader.from_pretrained(name, use_safetensors=True).eval()
    differences = []
    scores = parts.scores(texts) if classifies else None
    last = parts.encoder.num_layers
    for row, text in enumerate(texts):
        (sequence,) = parts.form.sequences(text) if classifies else [text[:1]]
        given = pair_of(sequence, tokenizer)
        inputs = tokenizer(*given, truncation=True, return_tensors="pt")
        if scores is not None:
            expected = parts.head.classifier_scores(scores[row : row + 1]).reshape(-1)
            exported = model(**inputs).logits[0]
        else:
            ids, mask = inputs["input_ids"], inputs["attention_mask"]
            types = inputs.get("token_type_ids", torch.zeros_like(ids))
            embedded = parts.encoder.embed(ids, types, mask)
            expected = parts.encoder.encode(embedded, mask, (last,))[last][0]
            exported = model(**inputs).last_hidden_state[0]
        differences.append(largest_difference(np.asarray(exported), np.asarray(expected)))
    difference = max(differences)
    if not difference <= TOLERANCE:
        raise UserError(f"{parts.task}: transformers gives other numbers (by {difference:.2g})")
    return difference
