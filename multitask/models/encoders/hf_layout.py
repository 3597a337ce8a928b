# Tested by tests/models/encoders/test_hf.py
"""The architectures of `transformers` that run here: a row of names for each ``model_type``.

docs/encoders.md prints the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

# keys of config.json that change a model's output and no shape
COMPARED = tuple(
    "model_type num_hidden_layers n_layers num_attention_heads n_heads num_hidden_groups "
    "inner_group_num hidden_act hidden_activation activation layer_norm_eps norm_eps rms_norm_eps "
    "layer_types local_attention rope_parameters relative_attention max_relative_positions "
    "position_buckets norm_rel_ebd pos_att_type share_att_key conv_act".split()
)


@dataclass(frozen=True)
class MlmHead:
    """Where a checkpoint has its masked-LM head: names without ``.weight`` and ``.bias``.

    Attributes:
        dense, norm: the linear layer and the LayerNorm before the vocabulary.
        vocabulary: has the vocabulary's bias, or a ``decoder`` with it.
        activation: the config key of the activation between both; ours has the exact gelu.
        biases: False if the dense layer and the LayerNorm have none: 0 gives equal logits.
    """

    dense: str
    norm: str
    vocabulary: str
    activation: str | None = "hidden_act"
    biases: bool = True


@dataclass(frozen=True)
class Layout:
    """The names of one architecture.

    Attributes:
        prefix: what stands before the encoder's weights in a checkpoint with a head.
        layers: the list of the layers in the model; for ALBERT groups of shared layers.
        embeddings: the module that embeds tokens; None: the word vectors are the layers' input.
        word: the word embedding in a checkpoint.
        eps: the config key of the LayerNorms' eps; a model without the key has 1e-12.
        final_norm: the norm after the last layer of a pre-norm model, whose states before the last
            one are not normalised.
        padding_id: True if positions are numbered from the pad token's id + 1.
        masks_embeddings: True if the embeddings of pads are multiplied by 0.
        dropout: the config keys that ``encoder.dropout`` sets.
        pooler: the tanh pooler's linear layer in a checkpoint.
        heads: where a checkpoint may have its masked-LM head.
        classifier: names of the classifier W_2 tanh(W_1 h + b_1) + b_2 in `transformers`: its two
            linear layers; None if its class computes something else.
        checkpoints: True if `transformers` can compute its layers again in the backward pass.
        own: True if our own encoder runs it (``bert.py``).
    """

    prefix: str
    layers: str = "encoder.layer"
    embeddings: str | None = "embeddings"
    word: str = "embeddings.word_embeddings"
    eps: str = "layer_norm_eps"
    final_norm: str | None = None
    padding_id: bool = False
    masks_embeddings: bool = False
    dropout: tuple[str, ...] = ("hidden_dropout_prob",)
    pooler: str | None = None
    heads: tuple[MlmHead, ...] = ()
    classifier: tuple[str, str] | None = None
    checkpoints: bool = True
    own: bool = False


_BERT_HEAD = MlmHead(
    "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"
)
_ELECTRA_HEAD = MlmHead(
    "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head", None
)
_DEBERTA_HEAD = MlmHead(
    "lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm", "lm_predictions.lm_head"
)
_ROBERTA_HEAD = MlmHead("lm_head.dense", "lm_head.layer_norm", "lm_head", activation=None)
_ROBERTA = Layout(
    "roberta.",
    padding_id=True,
    pooler="pooler.dense",
    heads=(_ROBERTA_HEAD,),
    classifier=("classifier.dense", "classifier.out_proj"),
    own=True,
)
LAYOUTS: Mapping[str, Layout] = {
    "bert": Layout(
        "bert.",
        pooler="pooler.dense",
        heads=(_BERT_HEAD,),
        classifier=("bert.pooler.dense", "classifier"),
        own=True,
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "distilbert": Layout(
        "distilbert.",
        layers="transformer.layer",
        dropout=("dropout",),
        heads=(MlmHead("vocab_transform", "vocab_layer_norm", "vocab_projector", "activation"),),
    ),
    "electra": Layout("electra.", heads=(_ELECTRA_HEAD,)),
    "albert": Layout(
        "albert.",
        layers="encoder.albert_layer_groups",
        pooler="pooler",
        heads=(MlmHead("predictions.dense", "predictions.LayerNorm", "predictions"),),
        classifier=("albert.pooler", "classifier"),
        checkpoints=False,
    ),
    "mpnet": replace(_ROBERTA, prefix="mpnet.", checkpoints=False),
    "deberta-v2": Layout(
        "deberta.",
        masks_embeddings=True,
        heads=(_DEBERTA_HEAD, _BERT_HEAD),
    ),
    "modernbert": Layout(
        "model.",
        layers="layers",
        word="embeddings.tok_embeddings",
        eps="norm_eps",
        final_norm="final_norm",
        dropout=("embedding_dropout", "mlp_dropout"),
        heads=(
            MlmHead("head.dense", "head.norm", "decoder", "classifier_activation", biases=False),
        ),
    ),
    "nomic_bert": Layout(
        "nomic_bert.",
        layers="layers",
        heads=(replace(_BERT_HEAD, norm="cls.predictions.transform.layer_norm"),),
    ),
    # its checkpoints have the names of the code that came with the first models
    "gte": Layout(
        "new.", layers="layers", heads=(MlmHead("lm_head.dense", "lm_head.norm", "lm_head", None),)
    ),
    "eurobert": Layout(
        "model.",
        layers="layers",
        embeddings=None,
        word="embed_tokens",
        eps="rms_norm_eps",
        final_norm="norm",
        dropout=(),
    ),
}


class OtherArchitecture(ValueError):
    """An encoder of a model type that no code here runs."""


def layout_of(model_type: str) -> Layout:
    """Return the row of a model type. Raises OtherArchitecture if there is none."""
    if model_type not in LAYOUTS:
        known = ", ".join(LAYOUTS)
        message = f"is not one of {known}: take an encoder of one of these types"
        raise OtherArchitecture(f"model type {model_type!r} {message}")
    return LAYOUTS[model_type]


def has_token_types(config: Any) -> bool:
    """Return True if a model tells the two texts of a pair apart by their token types."""
    return getattr(config, "type_vocab_size", 1) > 1


def has_dropout(config: Any) -> bool:
    """Return True if a model has dropout, in its layers or on its attention weights."""
    keys = layout_of(config.model_type).dropout
    keys = (*keys, "attention_probs_dropout_prob", "attention_dropout")
    return any(getattr(config, key, 0) for key in keys)
