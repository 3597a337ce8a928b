"""Read and write weights of BERT, RoBERTa and MPNet checkpoints by their `transformers` names.

These are the encoder and its tanh pooler; the pooler of other types too.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from multitask.models.encoders.architecture import load_architecture
from multitask.models.encoders.bert import QKV, BertEncoder
from multitask.models.encoders.hf_layout import LAYOUTS, layout_of
from multitask.models.weights import read_tensors, without_memory

# our name -> the name in `transformers`, for all but the fused query, key and value
NAMES = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.token_type": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "layers.{}.attention.output": "encoder.layer.{}.attention.output.dense",
    "layers.{}.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.{}.feed_forward.up": "encoder.layer.{}.intermediate.dense",
    "layers.{}.feed_forward.down": "encoder.layer.{}.output.dense",
    "layers.{}.output_norm": "encoder.layer.{}.output.LayerNorm",
}
FUSED = "layers.{}.attention.qkv"
SPLIT_QKV = [f"encoder.layer.{{}}.attention.self.{part}" for part in ("query", "key", "value")]
# the names that MPNet has in their place
MPNET_NAMES = NAMES | {
    "layers.{}.attention.output": "encoder.layer.{}.attention.attn.o",
    "layers.{}.attention_norm": "encoder.layer.{}.attention.LayerNorm",
    "relative.buckets": "encoder.relative_attention_bias",
}
MPNET_QKV = [f"encoder.layer.{{}}.attention.attn.{part}" for part in ("q", "k", "v")]
# the names of ``BertEncoder.linear_maps`` that are names of modules
INNER = ("attention.output", "feed_forward.up", "feed_forward.down")


def module_names(model_type: str) -> dict[str, str]:
    """Return the module in `transformers` for each name of ``BertEncoder.linear_maps``; its `{}` is
    the layer's number from 0.
    """
    names, qkv = _names(model_type)
    found = {name: names["layers.{}." + name] for name in INNER}
    return dict(zip(QKV, qkv, strict=True)) | found


def _names(model_type: str) -> tuple[dict[str, str], list[str]]:
    """Return a type's names by ours, and those of query, key and value."""
    return (MPNET_NAMES, MPNET_QKV) if model_type == "mpnet" else (NAMES, SPLIT_QKV)


def unsupported(config: Any) -> str | None:
    """Say why our own encoder cannot run a `transformers` config; None if it can."""
    if not layout_of(config.model_type).own:
        known = ", ".join(name for name, layout in LAYOUTS.items() if layout.own)
        return f"model type {config.model_type!r} is not one of {known}"
    wanted = {"hidden_act": "gelu", "is_decoder": False, "position_embedding_type": "absolute"}
    for key, value in wanted.items():
        actual = getattr(config, key, value)
        if actual != value:
            return f"{key} is {actual!r}, not {value!r}"
    return None


def encoder_from_pretrained(
    name: str, *, revision: str | None = None, dropout: float | None = None
) -> BertEncoder:
    """Load an encoder with the weights of a hub id or local directory, in fp32.

    Args:
        name: hub id or directory with config.json and safetensors files.
        revision: hub revision.
        dropout: replaces the model's hidden dropout.

    Raises:
        OSError: nothing to load there.
        ValueError: not an architecture for this encoder, or a weight that is missing or has
            another shape than config.json says.
    """
    config = load_architecture(name, revision)
    weights = read_weights(name, config, revision)
    with without_memory():  # no initial weights: the next line replaces them
        encoder = _new_encoder(config, dropout)
    encoder.load_state_dict(from_transformers(weights, encoder), assign=True)
    return encoder


def encoder_from_config(directory: str, dropout: float | None = None) -> BertEncoder:
    """Build an encoder of the architecture in ``directory/config.json``, with random weights.

    Raises:
        OSError, ValueError: no such file, or not an architecture for this encoder.
    """
    return _new_encoder(load_architecture(directory), dropout)


def _new_encoder(config: Any, dropout: float | None) -> BertEncoder:
    reason = unsupported(config)
    if reason is not None:
        raise ValueError(reason)
    if config.model_type != "bert" and config.pad_token_id is None:
        raise ValueError("config.json has no pad_token_id, which says where positions begin")
    relative = config.model_type == "mpnet"
    pad = 1 if relative else config.pad_token_id  # MPNet's code has no other
    encoder = BertEncoder(
        vocab_size=config.vocab_size,
        dim=config.hidden_size,
        num_layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        inner=config.intermediate_size,
        positions=config.max_position_embeddings,
        token_types=0 if relative else config.type_vocab_size,
        first_position=0 if config.model_type == "bert" else pad + 1,
        dropout=config.hidden_dropout_prob if dropout is None else dropout,
        attention_dropout=config.attention_probs_dropout_prob,
        eps=config.layer_norm_eps,
        relative_buckets=config.relative_attention_num_buckets if relative else 0,
    )
    encoder.config = config
    return encoder


def save_pretrained(encoder: BertEncoder, directory: Path) -> None:
    """Write config.json and model.safetensors, which `AutoModel.from_pretrained` reads.

    ``encoder`` must have come from a checkpoint's config.
    """
    encoder.config.save_pretrained(directory)
    tensors = to_transformers(encoder.state_dict(), encoder.config.model_type)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def to_transformers(state: Mapping[str, Tensor], model_type: str = "bert") -> dict[str, Tensor]:
    """Rename our encoder's state dict to the names of a model type in `transformers`."""
    names, parts = _names(model_type)
    renamed = {}
    for name, tensor in state.items():
        stem, _, kind = name.rpartition(".")
        match = re.match(r"layers\.(\d+)\.", stem)
        layer = match[1] if match else ""
        stem = stem.replace(f"layers.{layer}.", "layers.{}.")
        if stem == FUSED:
            for part, matrix in zip(parts, tensor.chunk(3), strict=True):
                renamed[f"{part.format(layer)}.{kind}"] = matrix.contiguous()
        else:
            renamed[f"{names[stem].format(layer)}.{kind}"] = tensor
    return renamed


def from_transformers(state: Mapping[str, Tensor], encoder: BertEncoder) -> dict[str, Tensor]:
    """Build the encoder's state dict, in fp32, from the tensors of ``read_weights``.

    Raises ValueError if one is missing, has another shape, or holds integers, NaN or infinity.
    """
    state_dict = {}
    for name, tensor in encoder.state_dict().items():
        keys = list(to_transformers({name: tensor}, encoder.config.model_type))
        missing = [key for key in keys if key not in state]
        if missing:
            raise ValueError(f"the checkpoint lacks encoder weights, such as {missing[0]}")
        state_dict[name] = torch.cat([state[key] for key in keys]).float()
        if state_dict[name].shape != tensor.shape:
            shapes = f"{list(state_dict[name].shape)}, by config.json it is {list(tensor.shape)}"
            raise ValueError(f"{' + '.join(keys)}: the shape in the checkpoint is {shapes}")
        floats = all(state[key].is_floating_point() for key in keys)
        if not floats or not state_dict[name].isfinite().all():
            raise ValueError(f"{' + '.join(keys)}: integers, NaN or infinity in place of weights")
    return state_dict


def read_weights(name: str, config: Any, revision: str | None = None) -> dict[str, Tensor]:
    """Read all tensors in the safetensors files of a hub id or directory, by today's names.

    The prefix of the model type, such as ``bert.``, is dropped, and LayerNorm's ``gamma`` and
    ``beta`` are renamed. ``config`` is the `transformers` config there.

    Raises OSError if there are none.
    """
    from transformers.utils.hub import cached_file, get_checkpoint_shard_files

    try:
        files = [cached_file(name, "model.safetensors", revision=revision)]
    except OSError as error:
        try:
            index = cached_file(name, "model.safetensors.index.json", revision=revision)
        except OSError:
            raise error from None
        files, _ = get_checkpoint_shard_files(name, index, revision=revision)
    tensors = [read_tensors(Path(file), advice="get it anew") for file in files]
    prefix = layout_of(config.model_type).prefix
    return {_name(key, prefix): tensor for part in tensors for key, tensor in part.items()}


def pooler_weights(weights: Mapping[str, Tensor], config: Any) -> tuple[Tensor, Tensor] | None:
    """Return weight [d, d] and bias [d] of the tanh pooler in fp32, from a checkpoint's tensors.

    None if the checkpoint has no such pooler.
    """
    place = layout_of(config.model_type).pooler
    keys = [f"{place}.{kind}" for kind in ("weight", "bias")]
    found = [weights[key].float() for key in keys if key in weights]
    return (found[0], found[1]) if len(found) == 2 else None


def _name(key: str, prefix: str) -> str:
    key = re.sub(r"(?<=LayerNorm\.)beta$", "bias", key.removeprefix(prefix))
    return re.sub(r"(?<=LayerNorm\.)gamma$", "weight", key)
