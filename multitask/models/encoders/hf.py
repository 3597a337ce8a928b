"""An encoder of `transformers`, in two stages: every row of ``hf_layout.LAYOUTS``."""

import contextlib
import inspect
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multitask.models.encoders.architecture import load_architecture
from multitask.models.encoders.hf_layout import has_token_types, layout_of
from multitask.models.encoders.packing import Packing
from multitask.store.tensor_files import check_header
from multitask.utils.errors import UserError


class HFEncoder(nn.Module):
    """A `transformers` encoder in two stages.

    Args:
        model: a model of a type in ``hf_layout.LAYOUTS``.

    Attributes:
        dim: width d of the hidden states.
        num_layers: layers L; hidden state 0 is the embeddings' output, of width d too.
        max_positions: longest input in tokens, special tokens included.
        config: the `transformers` config.
        kernels: always "torch"; only our own encoder has others.
    """

    kernels = "torch"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.config = model.config
        self.layout = layout_of(model.config.model_type)
        self.dim: int = model.config.hidden_size
        self.num_layers: int = model.config.num_hidden_layers
        positions = model.config.max_position_embeddings
        # RoBERTa numbers its positions from its pad token's id + 1
        first = model.embeddings.padding_idx + 1 if self.layout.padding_id else 0
        self.max_positions: int = positions - first
        self.takes_token_types = has_token_types(model.config)
        if self.layout.pooler and getattr(model, "pooler", None) is not None:
            model.pooler = None  # the `bert_pooler` projection has it
        if self.layout.embeddings:
            _return_given_embeddings(model.get_submodule(self.layout.embeddings))
        self.model = model

    def layer_parameters(self) -> list[list[nn.Parameter]]:
        """Return the parameters by depth: the embeddings' at 0, those of layer l at l = 1 .. L.

        ALBERT's layers share weights: l is the number of a group of layers.
        """
        model = self.model
        layers = [list(layer.parameters()) for layer in model.get_submodule(self.layout.layers)]
        if self.layout.final_norm:
            layers[-1] += model.get_submodule(self.layout.final_norm).parameters()
        inside = {id(parameter) for layer in layers for parameter in layer}
        return [[p for p in model.parameters() if id(p) not in inside], *layers]

    def linear_maps(self) -> list[dict[str, Tensor]]:
        """Return the weights [o, i] of each layer's linear maps, by their names in the layer.

        Of an ALBERT, these are the groups of layers that share weights.
        """
        return [
            {name: module.weight for name, module in layer.items()}
            for layer in self._linear_modules()
        ]

    def _linear_modules(self) -> list[dict[str, nn.Linear]]:
        return [
            {name: m for name, m in layer.named_modules() if isinstance(m, nn.Linear)}
            for layer in self.model.get_submodule(self.layout.layers)
        ]

    @contextlib.contextmanager
    def adapted(self, adapter: Any) -> Iterator[None]:
        """Add the ``term`` of an adapter, if any, to the output of each linear map in the block."""

        def add(number: int, name: str, module: Any, rows: tuple[Tensor], mapped: Tensor) -> Tensor:
            term = adapter.term(number, name, rows[0])
            return mapped if term is None else mapped + term

        layers = [] if adapter is None else self._linear_modules()
        with contextlib.ExitStack() as hooks:
            for number, layer in enumerate(layers, 1):
                for name, module in layer.items():
                    hook = module.register_forward_hook(partial(add, number, name))
                    hooks.callback(hook.remove)
            yield

    @property
    def word_embedding(self) -> nn.Embedding:
        """The word embedding [V, e], which a masked-LM head shares."""
        return self.model.get_input_embeddings()

    @property
    def norm_eps(self) -> float:
        """The eps of the LayerNorms."""
        return getattr(self.config, self.layout.eps, 1e-12)

    def checkpoint_layers(self) -> None:
        """Compute each layer again in the backward pass, with the same dropout, to save memory.

        Raises UserError if `transformers` cannot do it for this model type.
        """
        if not self.layout.checkpoints:
            message = "cannot compute its layers again in `transformers`: leave this out"
            raise UserError(f"{self.config.model_type} {message}")
        self.model.activation_checkpointing_enable({"use_reentrant": False})

    def packing(self, mask: Tensor, lengths: np.ndarray | None = None) -> None:
        """Return None: ``transformers`` keeps the pads."""

    def embed(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        mask: Tensor,
        packing: Packing | None = None,
    ) -> Tensor:
        """Embed tokens, with positions, LayerNorm and dropout: int64 [B, T] each -> [B, T, e]."""
        if self.layout.embeddings is None:
            return self.word_embedding(input_ids)
        more = {"token_type_ids": token_type_ids} if self.takes_token_types else {}
        more |= {"mask": mask} if self.layout.masks_embeddings else {}
        return self.model.get_submodule(self.layout.embeddings)(input_ids=input_ids, **more)

    def encode(
        self,
        embeddings: Tensor,
        mask: Tensor,
        layers: Collection[int],
        tokens: str = "all",
        adapter: Any = None,
        packing: Packing | None = None,
    ) -> dict[int, Tensor]:
        """Compute the requested hidden states of embedded input.

        If any but the last is requested, `transformers` keeps all of them until its pass ends.

        Args:
            embeddings: [B, T, e] from ``embed``.
            mask: [B, T], 1 for tokens and 0 for pads.
            layers: numbers of the hidden states, 0 (embeddings) to L.
            tokens: "all", or "first" for only the [CLS] vectors.
            adapter: the task's adapter, one that acts ``in_maps``, or None.
            packing: always None; only our own encoder has one.

        Returns:
            {layer: [B, T, d]}, or [B, 1, d] for "first".
        """
        every = set(layers) != {self.num_layers}
        with self.adapted(adapter):
            output = self.model(
                inputs_embeds=embeddings,
                attention_mask=mask,
                output_hidden_states=every,
                return_dict=True,
            )
        last = {self.num_layers: output.last_hidden_state}
        states = last if output.hidden_states is None else dict(enumerate(output.hidden_states))
        states |= last
        return {
            layer: states[layer][:, :1] if tokens == "first" else states[layer] for layer in layers
        }


def _return_given_embeddings(module: nn.Module) -> None:
    """Make a model's embeddings module return ``inputs_embeds`` unchanged.

    The model passes it the input of ``encode``, which already has positions, LayerNorm and dropout.
    The module's class becomes a subclass; its parameters and their names stay.
    """
    plain: Any = type(module)
    signature = inspect.signature(plain.forward)

    class Embeddings(plain):
        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            embedded = signature.bind(self, *args, **kwargs).arguments.get("inputs_embeds")
            return super().forward(*args, **kwargs) if embedded is None else embedded

    module.__class__ = Embeddings


def encoder_from_pretrained(
    name: str, *, revision: str | None = None, dropout: float | None = None
) -> HFEncoder:
    """Load an encoder with the weights of a hub id or local directory, in fp32.

    Args:
        name: hub id or directory that `AutoModel.from_pretrained` reads; safetensors only.
        revision: hub revision.
        dropout: replaces the model's hidden dropout.

    Raises:
        OSError: nothing to load there.
        ValueError: no architecture of ``hf_layout``, or a checkpoint that lacks encoder weights.
    """
    from transformers import AutoModel

    config = _architecture(name, revision, dropout)
    for file in Path(name).glob("*.safetensors"):
        check_header(file)
    model, info = AutoModel.from_pretrained(
        name,
        revision=revision,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        example = f"{len(missing)} encoder weights, such as {missing[0]}"
        raise ValueError(f"the checkpoint lacks {example}")
    return HFEncoder(model)


def encoder_from_config(directory: str, dropout: float | None = None) -> HFEncoder:
    """Build an encoder of the architecture in ``directory/config.json``, with random weights.

    Raises:
        OSError, ValueError: no such file, or not an architecture of ``hf_layout``.
    """
    from transformers import AutoModel

    config = _architecture(directory, None, dropout)
    return HFEncoder(AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False))


def _architecture(name: str, revision: str | None, dropout: float | None) -> Any:
    """Load the config of a model, with another dropout if it is given."""
    config = load_architecture(name, revision)
    # `transformers` guesses a type that config.json does not name
    keys = layout_of(config.model_type).dropout
    if dropout is not None and not keys:
        raise UserError(f"{config.model_type} has no dropout to set: leave out `encoder.dropout`")
    for key in keys if dropout is not None else ():
        setattr(config, key, dropout)
    return config
