"""Export a run's encoder, or a classifier, as a directory that `transformers` loads."""

from pathlib import Path

import torch
from torch import Tensor

from multitask.data.tokenize import Tokens, pair_of
from multitask.inference.export.export_parts import (
    BATCH,
    PADDED,
    TOLERANCE,
    Parts,
    largest_difference,
    plain_encoder,
    saved_tokenizer,
)
from multitask.models.encoders.hf_layout import layout_of
from multitask.models.projections import Tanh
from multitask.utils.errors import UserError

INSTEAD = "export it with --format onnx, or the encoder alone with --encoder-only"


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
    layout = layout_of(config.model_type)
    assert layout.classifier, "checked above"
    inner, outer = layout.classifier
    state = {
        layout.prefix + name: t for name, t in plain_encoder(parts.encoder).state_dict().items()
    }
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
    if not layout_of(kind).classifier:
        reason = f"{kind} puts another layer before its classifier than a task of this project has"
        raise UserError(f"encoder.name: {reason}: {INSTEAD}")


@torch.no_grad()
def check_transformers(parts: Parts, directory: Path, texts: list[tuple[str, ...]]) -> float:
    """Load the export and return its largest difference to the run, over a classifier's scores or
    the encoder's last hidden states. The export reads padded batches, by its own tokenizer.

    Raises UserError if it is above TOLERANCE.
    """
    from transformers import AutoModel, AutoModelForSequenceClassification

    name = str(directory)
    tokenizer = saved_tokenizer(directory)
    config = parts.encoder.config.__class__.from_pretrained(name)
    classifies = "SequenceClassification" in (config.architectures or [""])[0]
    loader = AutoModelForSequenceClassification if classifies else AutoModel
    model = loader.from_pretrained(name, use_safetensors=True).eval()
    rows = texts if classifies else [text[:1] for text in texts]
    exported: list[Tensor] = []
    for start in range(0, len(rows), BATCH):
        chosen = rows[start : start + BATCH]
        (side,) = parts.form.arrange(chosen) if classifies else [chosen]
        columns = map(list, zip(*(pair_of(each, tokenizer) for each in side), strict=True))
        inputs = tokenizer(*columns, **PADDED, return_tensors="pt")
        output = model(**inputs)
        if classifies:
            exported += output.logits
        else:
            masks = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
            exported += [v[m] for v, m in zip(output.last_hidden_state, masks, strict=True)]
    if classifies:
        expected = list(parts.head.classifier_scores(parts.scores(rows)).reshape(len(rows), -1))
    else:
        expected = _last_states(parts, parts.tokens(rows))
    difference = max(
        largest_difference(ours.numpy(), wanted.numpy())
        for ours, wanted in zip(exported, expected, strict=True)
    )
    if not difference <= TOLERANCE:
        raise UserError(f"{parts.task}: transformers gives other numbers (by {difference:.2g})")
    return difference


def _last_states(parts: Parts, tokens: Tokens) -> list[Tensor]:
    """Return the last hidden states of each sequence in the run, [length, d]."""
    last, states = parts.encoder.num_layers, []
    for number in range(len(tokens)):
        ids, types = (torch.from_numpy(each[None]).long() for each in tokens.sequence(number))
        mask = torch.ones_like(ids)
        embedded = parts.encoder.embed(ids, types, mask)
        states.append(parts.encoder.encode(embedded, mask, (last,))[last][0])
    return states
