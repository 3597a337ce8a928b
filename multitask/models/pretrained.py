"""Load encoder and tokenizer by ``encoder.name``: packaged weights, a directory or the hub."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from multitask.config import Config
from multitask.models.encoders import BertEncoder, Encoder, bert_weights, hf
from multitask.models.encoders.architecture import load_architecture
from multitask.models.encoders.bert import initialise
from multitask.models.encoders.bitlinear import quantise
from multitask.models.encoders.hf_layout import OtherArchitecture
from multitask.models.encoders.kernels import automatic
from multitask.models.encoders.mlm_weights import mlm_weights
from multitask.models.packaged_weights import place
from multitask.store.files import check_checksums
from multitask.utils.errors import UserError, check_regular, reading, reason_of, without_panic
from multitask.utils.limits import SIZE
from multitask.utils.names import PACKAGED_ENCODER
from multitask.utils.optional import optional
from multitask.utils.terminal import silent_stderr

PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>")


def pretrained_tokenizer(config: Config) -> Any:
    """Load the tokenizer of the encoder that a config names."""
    wanted = config.encoder
    with config.errors_at(("encoder", "name")), _explained(wanted.name):
        return load_tokenizer(place(wanted.name), wanted.revision)


def load_pretrained(config: Config, say: Callable[[str], None] = print) -> Encoder:
    """Load the encoder that a config names, changed as the config says; see ``load_encoder``."""
    wanted = config.encoder
    with config.errors_at(("encoder", "name")):
        encoder = load_encoder(
            wanted.name,
            revision=wanted.revision,
            implementation=wanted.implementation,
            dropout=wanted.dropout,
            say=say,
        )
    _change(config, encoder)
    return encoder


class HeadWeights(NamedTuple):
    """Weights of a checkpoint above its encoder.

    Attributes:
        pooler: (weight [d, d], bias [d]) of the tanh pooler, for the `bert_pooler` projection.
        masked_lm: the masked-LM head (``bert_weights.mlm_weights``), for the `masked_lm` head.

    None: the checkpoint has none, or no task takes them.
    """

    pooler: tuple[Tensor, Tensor] | None = None
    masked_lm: dict[str, Tensor] | None = None


NO_HEAD_WEIGHTS = HeadWeights()


def load_head_weights(
    config: Config, say: Callable[[str], None] = lambda line: None
) -> HeadWeights:
    """Load the weights above the encoder that tasks of a config take from its checkpoint.

    ``say`` is told if the checkpoint has no head for a `masked_lm` task.
    """
    name, tasks = config.encoder.name, config.tasks.values()
    takes_head = any(task.head.name == "masked_lm" for task in tasks)
    if not takes_head and not any(task.projection for task in tasks):
        return NO_HEAD_WEIGHTS
    where, revision = place(name), config.encoder.revision
    architecture = load_architecture(where, revision)
    tensors = bert_weights.read_weights(where, architecture, revision)
    masked_lm = mlm_weights(tensors, architecture) if takes_head else None
    if takes_head and masked_lm is None:
        what = "no masked-LM head with the exact gelu and the word embedding as its decoder"
        say(f"masked_lm: {name} has {what}: training starts with a random one")
    if config.encoder.from_scratch:
        return NO_HEAD_WEIGHTS
    return HeadWeights(bert_weights.pooler_weights(tensors, architecture), masked_lm)


def empty_head_weights(encoder: Encoder) -> HeadWeights:
    """Return weights of the right shapes, for a model whose saved weights replace them."""
    return HeadWeights((torch.zeros(encoder.dim, encoder.dim), torch.zeros(encoder.dim)))


def load_encoder_and_tokenizer(name: str) -> tuple[Encoder, Any]:
    """Load an encoder and its tokenizer; see ``load_encoder``."""
    with _explained(name):
        tokenizer = load_tokenizer(place(name))
    encoder = load_encoder(name)
    check_vocabulary(encoder, tokenizer, name)
    return encoder, tokenizer


def check_vocabulary(encoder: Encoder, tokenizer: Any, name: str) -> None:
    """Raise UserError for a tokenizer with ids that the encoder has no embedding of."""
    size = encoder.word_embedding.num_embeddings
    with _explained(name):
        # also the special tokens around a text
        added = [id for id in tokenizer("a", "a")["input_ids"] if id >= size]
    numbers = {token: id for token, id in tokenizer.get_vocab().items() if id >= size}
    if numbers or added:
        token, number = next(iter(numbers.items()), ("a special token", max(added, default=0)))
        raise UserError(
            f"{name}: the tokenizer gives {token!r} the id {number}, but the encoder has "
            f"{size} embeddings: take the tokenizer that it was trained with, or save it after "
            "`resize_token_embeddings`"
        )


def load_encoder(
    name: str,
    *,
    revision: str | None = None,
    implementation: str = "own",
    dropout: float | None = None,
    say: Callable[[str], None] = print,
) -> Encoder:
    """Load an encoder with its weights.

    It runs in our own encoder if ``implementation`` is "own" and the architecture is supported;
    else in `transformers`, and ``say`` is told why.

    Raises UserError if the name is neither a directory nor on the hub; the message says what was
    tried and what works without the hub.
    """
    with _explained(name):
        where = place(name)
        loader = _implementation(implementation, where, revision, say)
        return loader.encoder_from_pretrained(where, revision=revision, dropout=dropout)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Say in a UserError what was tried, when the encoder ``name`` cannot be loaded."""
    _quiet()
    where, files = place(name), "config.json, model.safetensors and tokenizer.json"
    try:
        yield
    except (OtherArchitecture, UserError) as error:
        raise UserError(f"cannot load {where!r} as an encoder: {error}") from error
    except Exception as error:  # the libraries raise many kinds, all of them about this name
        reason = reason_of(error, 200)
        message = f"cannot load {where!r} as an encoder: {reason}"
        if Path(where).is_dir():
            message += f"; the directory needs {files}"
        else:
            message = (
                f"{name!r} is neither a directory nor an encoder that the Hugging Face hub gave us "
                f"({reason}); tried {Path(where).absolute()} and huggingface.co/{name}. Without "
                f"the hub: {PACKAGED_ENCODER}, or a directory with {files}"
            )
        raise UserError(message) from error


def _change(config: Config, encoder: Encoder) -> None:
    """Apply the options that only our own encoder has."""
    wanted = config.encoder
    if isinstance(encoder, BertEncoder):
        if wanted.reinit_layers > encoder.num_layers:
            message = f"the encoder has {encoder.num_layers} layers"
            raise config.error(("encoder", "reinit_layers"), message)
        torch.manual_seed(config.seed)
        encoder.reinitialise(wanted.reinit_layers)
        if wanted.from_scratch:
            encoder.apply(initialise)
        encoder.gradient_checkpointing = wanted.gradient_checkpointing
        _quantise(config, encoder)
        return
    if wanted.gradient_checkpointing:
        with config.errors_at(("encoder", "gradient_checkpointing")):
            encoder.checkpoint_layers()
    own = ("reinit_layers", "from_scratch", "bitlinear", "kernels")
    for option in own:
        if getattr(wanted, option) not in (0, False, None, "torch", "auto"):
            message = "our own encoder has it; this one runs in `transformers`"
            raise config.error(("encoder", option), message)


def _quantise(config: Config, encoder: BertEncoder) -> None:
    """Replace layers as ``encoder.bitlinear`` says."""
    wanted = config.encoder.bitlinear
    if wanted is not None:
        try:
            quantise(encoder, wanted.layers)
        except ValueError as error:
            raise config.error(("encoder", "bitlinear", "layers"), str(error)) from None


def use_kernels(
    config: Config, encoder: Encoder, device: torch.device, say: Callable[[str], None]
) -> None:
    """Use the kernels of ``encoder.kernels``; ``say`` is told if that is not possible."""
    if not isinstance(encoder, BertEncoder):
        return
    kind, reason = str(config.encoder.kernels), ""
    if kind == "auto":
        kind, reason = automatic(device)
    elif kind != "torch" and device.type != "cpu":
        kind, reason = "torch", f"{kind} is for cpu, not for {device}"
    if kind != "torch":
        try:
            encoder.use_kernels(kind)
        except Exception as error:  # no compiler, none that works, no place to write: many kinds
            reason = f"cannot be compiled ({reason_of(error, 200)})"
    if reason:
        say(f"encoder.kernels: {reason}: torch's operators are used")


def saved_tokenizer(directory: Path) -> Any:
    """Load the tokenizer of a run's ``encoder/`` directory."""
    with _rebuilding(directory):
        return load_tokenizer(str(directory))


def saved_encoder(directory: Path, config: Config) -> Encoder:
    """Build the encoder of a run's ``encoder/`` directory, with random weights."""
    where = str(directory)
    with _rebuilding(directory):
        loader = _implementation(config.encoder.implementation, where, None, lambda line: None)
        encoder: Encoder = loader.encoder_from_config(where, config.encoder.dropout)
    if isinstance(encoder, BertEncoder):
        _quantise(config, encoder)
    return encoder


@contextmanager
def _rebuilding(directory: Path) -> Iterator[None]:
    """Say in a UserError which run's files cannot be loaded, and why."""
    _quiet()
    check_checksums(directory)
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the libraries raise many kinds, all of them about these files
        reason = f"{type(error).__name__}: {reason_of(error, 200)}"
        raise UserError(f"{directory}: cannot rebuild the encoder: {reason}") from error


def _implementation(
    wanted: str, where: str, revision: str | None, say: Callable[[str], None]
) -> Any:
    """Return the module that loads the encoder at ``where``: ``bert_weights`` or ``hf``."""
    if wanted == "transformers":
        return hf
    reason = bert_weights.unsupported(load_architecture(where, revision))
    if reason is None:
        return bert_weights
    say(f"encoder: {reason}, so it runs in `transformers`, not in our own encoder")
    return hf


def load_tokenizer(name: str, revision: str | None = None) -> Any:
    """Load a fast tokenizer, without the padding and truncation settings of its file.

    It pads on the right and gives a mask, as ``collate`` does: positions count from the start, and
    whoever loads a saved copy gets the run's scores in a padded batch.

    Raises FileNotFoundError for a directory without a vocabulary, for which `transformers` would
    make a tokenizer of a few words, and ValueError for a tokenizer that cannot encode a text.
    """
    from transformers import AutoTokenizer

    for file in Path(name).glob("*"):
        if not file.is_dir():
            check_regular(file)
    architecture = load_architecture(name, revision)  # checked before AutoTokenizer reads it
    with without_panic(), _sentencepiece(name):
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if Path(name).is_dir() and not any((Path(name) / file).is_file() for file in files):
        raise FileNotFoundError(f"{name} has no tokenizer.json")
    vocabulary = tokenizer.get_vocab()
    if tokenizer.pad_token_id is None:
        number = getattr(architecture, "pad_token_id", None)
        named = [token for token in PAD_TOKENS if token in vocabulary]
        named += [token for token, its in vocabulary.items() if its == number]
        if not named:
            raise ValueError("the tokenizer has no pad token: name one in tokenizer_config.json")
        tokenizer.pad_token = named[0]
    token, largest = max(vocabulary.items(), key=itemgetter(1), default=("", 0))
    if largest > SIZE:  # `tokenizers` fills the memory when it saves such a vocabulary
        raise ValueError(f"the tokenizer gives {token!r} the id {largest:,}, the most is {SIZE:,}")
    tokenizer.padding_side = "right"
    if "attention_mask" not in tokenizer.model_input_names:
        tokenizer.model_input_names = [*tokenizer.model_input_names, "attention_mask"]
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    # no limit here: lengths are checked against the encoder's positions
    tokenizer.model_max_length = int(1e9)
    with reading(f"{name}: tokenizer.json"), silent_stderr():  # the library prints a backtrace
        tokenizer("a"), tokenizer("a", "a")
    return tokenizer


@contextmanager
def _sentencepiece(name: str) -> Iterator[None]:
    """Raise UserError if a vocabulary needs packages that are missing; DeBERTa-v3's is such."""
    try:
        yield
    except Exception as error:  # `transformers` asks for other packages than it needs
        if re.search("tiktoken|sentencepiece|protobuf", str(error), re.IGNORECASE):
            for package in ("sentencepiece", "google.protobuf"):
                use = f"{name} has a SentencePiece vocabulary and no tokenizer.json"
                optional(package, use, "sentencepiece")
        raise


def _quiet() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
