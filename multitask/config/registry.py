"""The method names that a YAML file may use, and the class or function behind each.

A name maps to a ``"module:attribute"`` string, so names can be checked without importing torch. The
attribute is imported when the model is built. To add a method, add one file and one line here.
"""

import importlib
import inspect
import os
import types
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, ValidationError, create_model

from multitask.config.base import Choice, Strict, checked, describe
from multitask.tasks.glue import FILES as GLUE_FILES
from multitask.utils.errors import UserError, reason_of, suggest
from multitask.utils.limits import SIZE
from multitask.utils.names import MODULES_VARIABLE

if TYPE_CHECKING:
    from multitask.tasks.base import TaskType

ADAPTERS = {
    "pal": "pals.pal:ProjectedAttention",
    "low_rank": "pals.low_rank:LowRank",
    "lora": "pals.lora:LoRA",
    "houlsby": "pals.houlsby:Houlsby",
}

POOLERS = {
    "cls": "multitask.models.poolers.cls:CLSPooler",
    "mean": "multitask.models.poolers.mean:MeanPooler",
    "max": "multitask.models.poolers.max:MaxPooler",
    "avg_first_last": "multitask.models.poolers.avg_first_last:AverageFirstLastPooler",
    "concat": "multitask.models.poolers.concat:ConcatPooler",
    "layer_attention": "multitask.models.poolers.layer_attention:LayerAttentionPooler",
    "tokens": "multitask.models.poolers.tokens:TokensPooler",
    "max_cls": "multitask.models.poolers.max_cls:MaxCLSPooler",
    "mha": "multitask.models.poolers.mha:MHAPooler",
    "max_seq_mha": "multitask.models.poolers.max_seq_mha:MaxSeqMHAPooler",
    "mean_seq_mha": "multitask.models.poolers.mean_seq_mha:MeanSeqMHAPooler",
    "hire": "multitask.models.poolers.hire:HirePooler",
}

PROJECTIONS = {
    "linear": "multitask.models.projections:Linear",
    "tanh": "multitask.models.projections:Tanh",
    "bert_pooler": "multitask.models.projections:BertPooler",
    "mlp": "multitask.models.projections:Mlp",
    "mlp_batchnorm": "multitask.models.projections:MlpBatchNorm",
}

HEADS = {
    "classification": "heads.classification:ClassificationHead",
    "ordinal": "heads.ordinal:OrdinalHead",
    "siamese_paraphrase": "heads.siamese_paraphrase:SiameseParaphraseHead",
    "cosine_regression": "heads.cosine_regression:CosineRegressionHead",
    "cosine_with_embeddings": "heads.cosine_with_embeddings:CosineWithEmbeddingsHead",
    "euclidean_paraphrase": "heads.euclidean:EuclideanParaphraseHead",
    "euclidean_similarity": "heads.euclidean:EuclideanSimilarityHead",
    "binary": "heads.binary:BinaryHead",
    "regression": "heads.regression:RegressionHead",
    "multi_label": "heads.multi_label:MultiLabelHead",
    "token_classification": "heads.token_classification:TokenClassificationHead",
    "span": "heads.span:SpanHead",
    "multiple_choice": "heads.multiple_choice:MultipleChoiceHead",
    "masked_lm": "heads.masked_lm:MaskedLMHead",
    "contrastive": "multitask.models.losses.contrastive_loss:ContrastiveHead",
    "diffcse": "multitask.models.losses.diffcse:DiffCSEHead",
}

# the ``task_type`` of heads with one prediction per row, for commands that do not import torch;
# any other head is imported
HEAD_TYPES = {
    "classification": "class",
    "ordinal": "class",
    "binary": "binary",
    "siamese_paraphrase": "binary",
    "euclidean_paraphrase": "binary",
    "regression": "number",
    "cosine_regression": "number",
    "cosine_with_embeddings": "number",
    "euclidean_similarity": "number",
    "multi_label": "labels",
    "multiple_choice": "choice",
}
ORDERED_HEADS = ("ordinal",)  # those whose classes are ordered

# the ``task_type`` of a head, as in report.json -> the class for its labels and metrics
TASK_TYPES = {
    "class": "multitask.tasks.classification:Classification",
    "binary": "multitask.tasks.binary:Binary",
    "labels": "multitask.tasks.multilabel:MultiLabel",
    "number": "multitask.tasks.regression:Regression",
    "tags": "multitask.tasks.token_classification:TokenClassification",
    "span": "multitask.tasks.question_answering:QuestionAnswering",
    "choice": "multitask.tasks.multiple_choice:MultipleChoice",
    "tokens": "multitask.tasks.masked_lm:MaskedLM",
    "views": "multitask.tasks.contrastive:Contrastive",
}

# the ``input`` of a task -> the class for its texts
INPUTS = {
    "single": "multitask.data.inputs.single:Single",
    "siamese": "multitask.data.inputs.siamese:Siamese",
    "cross": "multitask.data.inputs.cross:Cross",
    "triplet": "multitask.data.inputs.triplet:Triplet",
    "choices": "multitask.data.inputs.choices:Choices",
}

SAMPLERS = {
    "round_robin": "multitask.data.task_sampler:RoundRobin",
    "proportional": "multitask.data.task_sampler:Proportional",
    "square_root": "multitask.data.task_sampler:SquareRoot",
    "annealed": "multitask.data.task_sampler:Annealed",
    "temperature": "multitask.data.task_sampler:Temperature",
    "fixed": "multitask.data.task_sampler:Fixed",
}

SURGERY = {
    "pcgrad": "multitask.training.gradient_surgery:pcgrad",
    "gradvac": "multitask.training.gradient_surgery:gradvac",
    "cagrad": "multitask.training.gradient_surgery:cagrad",
    "mgda": "multitask.training.gradient_surgery:mgda",
    "aligned_mtl": "multitask.training.gradient_surgery:aligned_mtl",
}

TRACKERS = {
    "tensorboard": "multitask.training.trackers.tensorboard:TensorBoard",
    "wandb": "multitask.training.trackers.wandb:WeightsAndBiases",
    "mlflow": "multitask.training.trackers.mlflow:MLflow",
    "trackio": "multitask.training.trackers.trackio:Trackio",
}

KINDS: dict[str, Mapping[str, str]] = {
    "adapter": ADAPTERS,
    "pooling": POOLERS,
    "projection": PROJECTIONS,
    "head": HEADS,
    "sampler": SAMPLERS,
    "gradient_surgery": SURGERY,
}

# names in other keys, and in saved files
OTHERS: dict[str, Mapping[str, Any]] = {
    "input": INPUTS,
    "task type": TASK_TYPES,
    "tracker": TRACKERS,
    "glue_file": GLUE_FILES,
}

# constructor arguments that the program supplies; all others are options in YAML
SUPPLIED: dict[str, list[str]] = {
    "adapter": ["dim", "num_layers", "maps"],
    "pooling": ["dim", "num_layers"],
    "projection": ["dim", "pooler_weights", "encoder_dim"],
    "head": "dim num_labels class_counts row_count low high word_embedding norm_eps mlm_weights "
    "encoder autocast".split(),
    "sampler": ["sizes", "joint"],
    "gradient_surgery": [],
}


def _allowed(name: str) -> bool:
    """Return True for a ``module:Class`` in a package that ``--allow-module`` names."""
    module, _, attribute = name.partition(":")
    package, *inner = module.split(".")
    packages = os.environ.get(MODULES_VARIABLE, "").split(",")
    return package in packages and all(map(str.isidentifier, (package, *inner, attribute)))


def check_name(kind: str, choice: str | Choice) -> None:
    """Raise UserError, with the nearest name, if ``choice`` is not a registered ``kind``."""
    name = choice.name if isinstance(choice, Choice) else choice
    names = KINDS.get(kind) or OTHERS[kind]
    if name not in names and not (kind in KINDS and _allowed(name)):
        raise UserError(f"unknown {kind} {name!r}{suggest(name, tuple(names))}")


def registered(kind: str) -> AfterValidator:
    """Return the validator of a key whose value is a name of ``kind``, or a method with options."""
    return checked(partial(check_name, kind))


def resolve(kind: str, name: str) -> Any:
    """Import and return the class registered under ``name``."""
    check_name(kind, name)
    return imported(KINDS[kind].get(name, name))


def imported(reference: str) -> Any:
    """Import and return the object that a ``"module:attribute"`` string names."""
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UserError(f"{reference}: no module {error.name!r}: is it installed?") from error
    except (AttributeError, ImportError, SyntaxError) as error:
        raise UserError(f"{reference}: {reason_of(error)}") from error


def task_type(name: str) -> "TaskType":
    """Return the task type that a head or a saved report names; UserError if it is unknown."""
    check_name("task type", name)
    return _instance(TASK_TYPES[name])


def head_type(head: str) -> "TaskType":
    """Return the task type of a registered head."""
    if head in HEAD_TYPES:
        return task_type(HEAD_TYPES[head])
    factory = resolve("head", head)
    base = imported("heads.base:Head")
    own = inspect.isclass(factory) and issubclass(factory, base)
    trains = own and (factory.criterion is not base.criterion or factory.loss is not base.loss)
    lacks = "" if trains else "has no `criterion`" if own else "is no `heads.base.Head`"
    lacks = lacks or "" if not own or factory.task_type else "has no `task_type`"
    if lacks:
        raise UserError(f"head {head!r} ({HEADS.get(head, head)}) {lacks}: docs/extending.md")
    return task_type(factory.task_type)


def is_ordered(head: str) -> bool:
    """Return True for a head whose classes are ordered."""
    return head in ORDERED_HEADS or (head not in HEAD_TYPES and resolve("head", head).ordered)


def input_type(name: str) -> Any:
    """Return the object of a registered input, a ``multitask.data.inputs.base.Input``."""
    return _instance(INPUTS[name])


@cache
def _instance(reference: str) -> Any:
    """Return the object of a class; it is made once."""
    return imported(reference)()


EMPTY = inspect.Parameter.empty


class _Options(Strict):
    """The options of a method: sizes are bounded, or a model with them fills the memory."""

    # a constructor says more of NaN
    model_config = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=(), allow_inf_nan=True
    )
    largest = SIZE


def build(kind: str, name: str, options: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
    """Construct ``name`` with the user's options and the arguments in ``context`` that it takes.

    Raises UserError if an option is unknown or missing, has the wrong type, or is rejected by the
    constructor.
    """
    factory = resolve(kind, name)
    taken = inspect.signature(factory).parameters
    fields: dict[str, Any] = {
        option: (
            Any if one.annotation is EMPTY or isinstance(one.annotation, str) else one.annotation,
            ... if one.default is EMPTY else one.default,
        )
        for option, one in taken.items()
        if option not in context
    }
    try:
        create_model("Options", __base__=_Options, **fields).model_validate(dict(options))
    except ValidationError as error:
        path, message, problem = describe(error)
        option = str(path[0])
        what = f": {option}: {message}"
        if problem == "extra_forbidden":
            known = suggest(option, tuple(fields)) if fields else " (it has no options)"
            what = f" has no option {option!r}{known}"
        elif problem == "missing":
            what = f": the option {option!r} is missing"
        elif problem != "at_key":
            words = type_in_words(taken[option].annotation)
            article = "" if words.startswith(("one of", "true", "null")) else "a "
            what = f": {option} must be {article}{words}, not {options[option]!r}"
        raise UserError(f"{kind} {name!r}{what}", (option,)) from None
    supplied = {key: value for key, value in context.items() if key in taken}
    try:
        return factory(**supplied, **options)
    except (ValueError, TypeError, RuntimeError) as error:  # torch raises the last two
        only = tuple(options) if len(options) == 1 else ()
        raise UserError(f"{kind} {name!r}: {reason_of(error)}", only) from error


def type_in_words(annotation: Any) -> str:
    """Describe a type for someone who writes YAML, such as 'number' or 'list of texts'."""
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is types.NoneType:
        return "null"
    if origin is Annotated:
        return inner[1] if isinstance(inner[1], str) else type_in_words(inner[0])
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(type_in_words, inner)))
    if origin in (list, tuple):  # a tuple is read from a list
        return f"list of {type_in_words(inner[0])}s"
    if origin is dict:
        return f"mapping from {type_in_words(inner[0])} to {type_in_words(inner[1])}"
    return plain.get(annotation) or inspect.formatannotation(annotation)
