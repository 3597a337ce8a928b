"""Export a run's encoder, classifier or vectors for `transformers`, `sentence-transformers`."""

import copy
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multitask.inference.export.export_parts import (
    BATCH,
    TOLERANCE,
    Parts,
    largest_difference,
    module_of,
    padded,
    plain_encoder,
    saved_tokenizer,
)
from multitask.inference.similarity import cosines
from multitask.models.encoders.hf_layout import layout_of
from multitask.models.projections import Linear, MlpBatchNorm, Tanh
from multitask.utils.errors import UserError
from multitask.utils.optional import optional

INSTEAD = "export it with --format onnx, or the encoder alone with --encoder-only"
POOLINGS = ("cls", "mean", "max")  # of sentence-transformers
LOWEST_COSINE = 0.99999
BASE = "base"


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
    if missing := _missing(parts):
        key = missing[0].partition("=")[0]
        message = "transformers classifies tanh(W h + b) of the first token's vector"
        advice = " and ".join(f"`{value}`" for value in missing)
        raise UserError(f"{key}: {message}: train with {advice}, {INSTEAD}")


def missing_values(parts: Parts) -> list[str]:
    """Return the config values that are missing for a sequence classifier of `transformers`.

    The list is empty if nothing is missing, and if no value would help.
    """
    try:
        _check_head_and_encoder(parts)
    except UserError:
        return []
    return _missing(parts)


def _missing(parts: Parts) -> list[str]:
    pooling = [] if parts.pooling_name == "cls" else [f"{parts.pooling_key}=cls"]
    projection, wide = parts.projection, parts.model.encoder.dim
    has_tanh = isinstance(projection, Tanh) and projection.output_dim == wide
    return pooling + ([] if has_tanh else [f"tasks.{parts.base}.projection=tanh"])


def _check_head_and_encoder(parts: Parts) -> None:
    parts.check_encoder("transformers")
    entry, key = parts.config.tasks[parts.task], f"tasks.{parts.task}"
    if not parts.head.problem_type:
        reason = "no sequence classifier of transformers has such a head"
        raise UserError(f"{key}.head: {entry.head.name}: {reason}: {INSTEAD}")
    kind = parts.model.encoder.config.model_type
    if not layout_of(kind).classifier:
        reason = f"{kind} puts another layer before its classifier than a task of this project has"
        raise UserError(f"encoder.name: {reason}: {INSTEAD}")


@torch.no_grad()
def check_model(
    parts: Parts, model: Any, directory: Path, texts: list[tuple[str, ...]], *, classifies: bool
) -> float:
    """Return the largest difference of a loaded model to the run, over a classifier's scores or the
    encoder's last hidden states. The model reads padded batches, by the export's tokenizer.

    Raises UserError if it is above TOLERANCE.
    """
    tokenizer = saved_tokenizer(directory)
    model.eval()
    rows = texts if classifies else [text[:1] for text in texts]
    exported: list[Tensor] = []
    for start in range(0, len(rows), BATCH):
        chosen = rows[start : start + BATCH]
        (side,) = parts.form.arrange(chosen) if classifies else [chosen]
        inputs = padded(tokenizer, side, "pt")
        output = model(**inputs)
        if classifies:
            exported += output.logits
        else:
            masks = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
            exported += [v[m] for v, m in zip(output.last_hidden_state, masks, strict=True)]
    if classifies:
        expected = list(parts.head.classifier_scores(parts.scores(rows)).reshape(len(rows), -1))
    else:
        encoder, adapter = parts.model.encoder, parts.model.adapter(parts.task)
        expected, last, tokens = [], encoder.num_layers, parts.tokens(rows)
        for number in range(len(tokens)):
            ids, types = (torch.from_numpy(e[None]).long() for e in tokens.sequence(number))
            mask = torch.ones_like(ids)
            embedded = encoder.embed(ids, types, mask)
            expected.append(encoder.encode(embedded, mask, (last,), "all", adapter)[last][0])
    difference = max(
        largest_difference(ours.numpy(), wanted.numpy())
        for ours, wanted in zip(exported, expected, strict=True)
    )
    if not difference <= TOLERANCE:
        raise UserError(f"{parts.task}: transformers gives other numbers (by {difference:.2g})")
    return difference


def check_peft(parts: Parts) -> Any:
    """Return the task's LoRA. Raises UserError if it has none, or its maps are ternary."""
    adapter = parts.model.adapter(parts.task)
    if adapter is None or not adapter.in_maps:
        message = "peft has a task's LoRA, and this task has none: take another format"
        raise UserError(f"tasks.{parts.base}.adapter: {message}")
    parts.check_encoder("peft")
    return adapter


def export_peft(parts: Parts, directory: Path) -> None:
    """Write the task's LoRA, the encoder below it in ``base``, and the tokenizer: `PeftModel`."""
    adapter = check_peft(parts)
    library = optional("peft", "peft is not installed", "peft")
    encoder = parts.model.encoder
    terms = {module_of(encoder, *place): term for place, term in adapter.pieces().items()}
    base = copy.deepcopy(plain_encoder(encoder))  # peft changes it
    base.save_pretrained(directory / BASE, safe_serialization=True)
    settings = library.LoraConfig(
        r=adapter.r,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout.p,
        target_modules=sorted(terms),
        task_type="FEATURE_EXTRACTION",
    )
    made = library.get_peft_model(base, settings)
    for module, term in terms.items():
        layer = made.base_model.model.get_submodule(module)
        layer.lora_A["default"].load_state_dict(term.down.state_dict())
        layer.lora_B["default"].load_state_dict(term.up.state_dict())
    made.peft_config["default"].base_model_name_or_path = BASE
    made.save_pretrained(directory, safe_serialization=True)
    parts.task_tokenizer().save_pretrained(directory)


def load_peft(directory: Path) -> Any:
    """Load an export of ``export_peft`` as its users do."""
    from peft import PeftModel
    from transformers import AutoModel

    base = AutoModel.from_pretrained(str(directory / BASE), use_safetensors=True)
    return PeftModel.from_pretrained(base, str(directory))


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
    lowest = float(cosines(exported, expected).min())
    if not lowest >= LOWEST_COSINE:
        raise UserError(
            f"{parts.pooling_key}: sentence-transformers gives other vectors (cosine {lowest:.6f})"
        )
    return lowest
