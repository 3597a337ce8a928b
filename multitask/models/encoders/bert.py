"""BERT's encoder (Devlin et al. 2019).

Its layers work on the N real tokens of a batch [N, d], without padding
(``multitask.models.encoders.packing``); its inputs and outputs are [B, T, d] with a mask. RoBERTa
is the same network with other position numbers and one token type. MPNet (Song et al. 2020) adds a
bias by relative position to RoBERTa's attention, and has no token types.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint

from multitask.models.encoders import kernels
from multitask.models.encoders.dropout import Dropout
from multitask.models.encoders.operators import TORCH, Operators, RelativeBias, attention
from multitask.models.encoders.packing import Packing
from multitask.models.linear import Linear, linear

OPERATORS = {operators.name: operators for operators in (TORCH, kernels.COMPILED)}


class Embeddings(nn.Module):
    """Word + position + token-type embeddings, LayerNorm, dropout (section 3, figure 2)."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        positions: int,
        token_types: int,
        first_position: int,
        dropout: float,
        eps: float,
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(vocab_size, dim)
        self.position = nn.Embedding(positions, dim)
        self.token_type = nn.Embedding(token_types, dim) if token_types else None
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.dropout = Dropout(dropout)
        self.first_position = first_position

    def forward(self, ids: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        """int64 [N] each, positions from ``first_position`` -> [N, d]."""
        summed = self.word(ids) + self.position(positions)
        if self.token_type is not None:
            summed = summed + self.token_type(types)
        return self.dropout(self.norm(summed))


def roberta_positions(ids: Tensor, mask: Tensor, first: int) -> Tensor:
    """Number the tokens of each sequence from ``first`` as RoBERTa does: int64 [B, T].

    The pad token has the id ``first - 1``. Where a text contains it (`<pad>`), it is not counted
    and its position is ``first - 1`` too.
    """
    counted = (mask != 0) & (ids != first - 1)
    return torch.where(counted, counted.cumsum(1) + first - 1, first - 1)


QUERY, KEY, VALUE = QKV = ("query", "key", "value")
# an adapter's ``term`` of one layer: (name of a linear map, its input) -> a term for its output
Term = Callable[[str, Tensor], Tensor | None]


def with_terms(mapped: Tensor, rows: Tensor, term: Term | None, names: Sequence[str]) -> Tensor:
    """Add an adapter's terms to the output of linear maps: [M, o] and [M, i] -> [M, o].

    ``names`` are the maps', one after another in the output.
    """
    terms = [] if term is None else [term(name, rows) for name in names]
    if all(added is None for added in terms):
        return mapped
    parts = zip(mapped.chunk(len(names), dim=-1), terms, strict=True)
    return torch.cat([part if added is None else part + added for part, added in parts], dim=-1)


class FusedLinear(Linear):
    """Query, key and value in one matrix product."""

    parts = 3

    def forward(self, hidden: Tensor, rows: slice | None = None) -> Tensor:
        """[N, d] -> [N, 3 d], or only the outputs ``rows``."""
        return linear(hidden, self.weight, self.bias, rows)


class SelfAttention(nn.Module):
    """Multi-head scaled dot-product self-attention (Vaswani et al. 2017, section 3.2)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = Dropout(dropout)
        self.qkv = FusedLinear(dim, 3 * dim)
        self.output = Linear(dim, dim)

    def forward(
        self,
        hidden: Tensor,
        packing: Packing,
        first_only: bool = False,
        operators: Operators = TORCH,
        bias: Tensor | None = None,
        term: Term | None = None,
    ) -> Tensor:
        """[N, d] -> [N, d]; with ``first_only`` -> [B, d], for the queries of the first tokens.

        ``bias`` is that of ``RelativeBias``.
        """
        rate = self.dropout.current_rate
        if first_only:
            dim, first = hidden.shape[1], hidden.index_select(0, packing.first)
            query = with_terms(self.qkv(first, slice(dim)), first, term, [QUERY])
            key_value = self.qkv(hidden, slice(dim, None))
            key_value = with_terms(key_value, hidden, term, [KEY, VALUE])
            mixed = attention(key_value, packing, self.heads, rate, query=query, bias=bias)
        else:
            qkv = with_terms(self.qkv(hidden), hidden, term, QKV)
            mixed = operators.attend(qkv, packing, self.heads, rate, bias=bias)
        return with_terms(self.output(mixed), mixed, term, ["attention.output"])


class FeedForward(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2 with the exact (erf) GELU, row by row (section 3, appendix A)."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.up = Linear(dim, inner)
        self.down = Linear(inner, dim)

    def forward(self, hidden: Tensor, term: Term | None = None) -> Tensor:
        """[N, d] -> [N, d]."""
        inner = with_terms(self.up(hidden), hidden, term, ["feed_forward.up"])
        inner = gelu(inner)
        return with_terms(self.down(inner), inner, term, ["feed_forward.down"])


class Layer(nn.Module):
    """One Transformer block, LayerNorm after each residual sum.

    a = LN(h + drop(attention(h)));  h' = LN(a + drop(feed_forward(a)))

    An adapter may change what either part adds and add a third to the second sum.
    """

    def __init__(
        self, dim: int, heads: int, inner: int, dropout: float, attention_dropout: float, eps: float
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(dim, heads, attention_dropout)
        self.attention_norm = nn.LayerNorm(dim, eps=eps)
        self.feed_forward = FeedForward(dim, inner)
        self.output_norm = nn.LayerNorm(dim, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        hidden: Tensor,
        packing: Packing,
        first_only: bool = False,
        adapter: Any = None,
        number: int = 0,
        operators: Operators = TORCH,
        bias: Tensor | None = None,
    ) -> Tensor:
        """[N, d] -> [N, d], or [B, d] with ``first_only``; the adapter is told the ``number``."""
        first = packing.first if first_only else None
        residual = hidden if first is None else hidden.index_select(0, first)
        # an adapter's input already has the dropout
        rate = self.dropout.current_rate if adapter is None else 0.0
        term = None if adapter is None else partial(adapter.term, number)
        added = self.attention(hidden, packing, first_only, operators, bias=bias, term=term)
        if adapter is not None:
            added = adapter.after_attention(number, self.dropout(added))
        attended = operators.add_norm(added, residual, self.attention_norm, rate)
        added = self.feed_forward(attended, term)
        if adapter is not None:
            added = adapter.after_feed_forward(number, self.dropout(added))
            attend = partial(attention, packing=packing)
            beside = adapter.beside(number, hidden, first, attend)
            added = added if beside is None else added + beside
        return operators.add_norm(added, attended, self.output_norm, rate)

    def linear_maps(self) -> dict[str, Tensor]:
        """Return the weights of ``BertEncoder.linear_maps``."""
        return {
            **dict(zip(QKV, self.attention.qkv.weight.chunk(3), strict=True)),
            "attention.output": self.attention.output.weight,
            "feed_forward.up": self.feed_forward.up.weight,
            "feed_forward.down": self.feed_forward.down.weight,
        }


class BertEncoder(nn.Module):
    """Embeddings and L layers, in two stages: ``embed`` and ``encode``.

    Args:
        vocab_size, dim, num_layers, heads: as in BERT; ``heads`` divides ``dim``.
        inner: width of the feed-forward layers; 4 ``dim`` by default.
        positions: rows of the position embedding.
        token_types: rows of the token-type embedding; 0: there is none.
        first_position: position number of the first token: 0; in RoBERTa 2, the id of its pad token
            plus 1.
        dropout: dropout rate of embeddings and layers.
        attention_dropout: dropout rate of the attention weights.
        eps: eps of the LayerNorms.
        relative_buckets: buckets of MPNet's ``RelativeBias``, which all layers share; 0: none.

    Attributes:
        max_positions: longest input in tokens, special tokens included.
        config: the checkpoint's `transformers` config, or None.
        gradient_checkpointing: compute each layer again in the backward pass, to save memory.

    New weights are normal with standard deviation .02, biases 0, LayerNorms 1 and 0 (the published
    BERT code's ``initializer_range``).
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        dim: int,
        num_layers: int,
        heads: int,
        inner: int | None = None,
        positions: int = 512,
        token_types: int = 2,
        first_position: int = 0,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        eps: float = 1e-12,
        relative_buckets: int = 0,
    ) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise ValueError(f"{heads} attention heads do not divide the width {dim}")
        self.dim, self.num_layers = dim, num_layers
        self.max_positions = positions - first_position
        self.config: Any = None
        self.gradient_checkpointing = False
        self._operators = TORCH
        self.embeddings = Embeddings(
            vocab_size, dim, positions, token_types, first_position, dropout, eps
        )
        self.layers = nn.ModuleList(
            Layer(dim, heads, inner or 4 * dim, dropout, attention_dropout, eps)
            for _ in range(num_layers)
        )
        self.relative = RelativeBias(relative_buckets, heads) if relative_buckets else None
        self.apply(initialise)

    def layer_parameters(self) -> list[list[nn.Parameter]]:
        """Return the parameters by depth: the embeddings' at 0, those of layer l at l = 1 .. L."""
        parts = [list(part.parameters()) for part in (self.embeddings, *self.layers)]
        if self.relative is not None:  # all layers share it
            parts[0] += self.relative.parameters()
        return parts

    def linear_maps(self) -> list[dict[str, Tensor]]:
        """Return the weights [o, i] of each layer's linear maps by the names that ``term`` has."""
        layers: Any = self.layers
        return [layer.linear_maps() for layer in layers]

    @property
    def word_embedding(self) -> nn.Embedding:
        """The word embedding [V, d], which a masked-LM head shares."""
        return self.embeddings.word

    @property
    def norm_eps(self) -> float:
        """The eps of the LayerNorms."""
        return self.embeddings.norm.eps

    @property
    def kernels(self) -> str:
        """The kernels in use: "torch", or the argument of ``use_kernels``."""
        return self._operators.name

    def use_kernels(self, kind: str) -> None:
        """Compute with other kernels than torch's usual ones.

        Args:
            kind: "compiled", for a CPU; raises as ``kernels.load_kernels``.
        """
        if kind == "compiled":
            kernels.load_kernels()
        self._operators = OPERATORS[kind]

    def reinitialise(self, count: int) -> None:
        """Initialise the top ``count`` layers again (Zhang et al. 2021, section 4)."""
        for layer in list(self.layers)[self.num_layers - count :]:
            layer.apply(initialise)

    def packing(self, mask: Tensor, lengths: np.ndarray | None = None) -> Packing:
        """Return what ``embed`` and ``encode`` need to know of a mask [B, T], once per pass.

        ``lengths`` are the tokens of each sequence, if they are known: see ``Packing``.
        """
        return Packing(mask, lengths)

    def embed(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        mask: Tensor,
        packing: Packing | None = None,
    ) -> Tensor:
        """Embed tokens, with positions, LayerNorm and dropout: int64 [B, T] each -> [B, T, d].

        Positions count the real tokens, so they do not depend on where the pads are. ``packing`` is
        that of the mask, by default a new one.
        """
        packing = packing or Packing(mask)
        ids, types = packing.pack(input_ids), packing.pack(token_type_ids)
        token_type = self.embeddings.token_type
        if token_type is not None and token_type.num_embeddings == 1:
            types = torch.zeros_like(types)
        positions = packing.positions
        if first := self.embeddings.first_position:
            positions = packing.pack(roberta_positions(input_ids, mask, first))
        return packing.unpack(self.embeddings(ids, positions, types))

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

        Layers above the highest requested one are not computed. With "first", that layer computes
        only the first tokens.

        Args:
            embeddings: [B, T, d] from ``embed``.
            mask: [B, T], 1 for tokens and 0 for pads.
            layers: numbers of the hidden states, 0 (embeddings) to L.
            tokens: "all", or "first" for only the [CLS] vectors.
            adapter: the task's adapter (``pals.base.Adapter``), or None.
            packing: the packing of the mask; by default a new one.

        Returns:
            {layer: [B, T, d]}, zero at pads; or [B, 1, d] for "first".
        """
        packing = packing or Packing(mask)
        hidden = packing.pack(embeddings)
        highest = max(layers)
        states: dict[int, Tensor] = {}

        def keep(number: int, state: Tensor, first_only: bool = False) -> None:
            if number in layers:
                complete = tokens == "all" or first_only
                states[number] = state if complete else state.index_select(0, packing.first)

        keep(0, hidden)
        bias = self.relative(int(packing.seqlens[-1])) if self.relative is not None else None
        for number, layer in enumerate(list(self.layers)[:highest], 1):
            first_only = tokens == "first" and number == highest
            adapts = adapter is not None and number in adapter.layers
            arguments = (hidden, packing, first_only, adapter if adapts else None, number)
            if self.gradient_checkpointing and torch.is_grad_enabled():
                hidden = checkpoint(layer, *arguments, self._operators, bias, use_reentrant=False)
            else:
                hidden = layer(*arguments, self._operators, bias)
            keep(number, hidden, first_only)
        if tokens == "all":
            return {number: packing.unpack(states[number]) for number in layers}
        return {n: packing.in_batch_order(states[n]).unsqueeze(1) for n in layers}


def initialise(module: nn.Module) -> None:
    """Set the module's parameters to BERT's initial values."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
