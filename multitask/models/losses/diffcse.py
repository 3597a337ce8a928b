"""DiffCSE: a contrastive loss plus replaced-token detection (Chuang et al. 2022)."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from multitask.models.losses.contrastive_loss import ContrastiveHead, at_least_fp32
from multitask.utils import distributed
from multitask.utils.device import autocast

# (masked ids, token types, mask) [S, T] each -> the most probable token at each position [S, T]
Generator = Callable[[Tensor, Tensor, Tensor], Tensor]


class DiffCSEHead(ContrastiveHead):
    """The contrastive loss + rtd_weight * the loss of detecting tokens that a generator replaced.

    The text is masked, and a frozen masked language model fills it in. A second encoder, the
    discriminator, starts as a copy of the first; it predicts for each token if it was replaced.
    Its [CLS] embedding is replaced by the sentence vector h, so that h learns the difference of the
    two texts. Sentence vectors need neither model. The discriminator trains at the rate of heads:
    set `head_lr` to that of the encoder.

    Args:
        dim: width of h.
        encoder: the shared encoder.
        generator: a masked language model over the same vocabulary: directory, hub id, or a run
            with a `masked_lm` task.
        autocast: the dtype of the encoders under autocast, None for fp32.
        mask_share: share of the tokens, without special tokens, that are masked: 80 % of these
            become the mask token, 10 % a random token, 10 % stay.
        rtd_weight: weight of the detection loss, a mean over the real tokens of both views.

    Raises:
        ValueError: a share outside (0, 1), or h of another width than the encoder's.
    """

    def __init__(
        self,
        dim: int,
        encoder: Any,
        generator: str,
        mask_share: float = 0.3,
        rtd_weight: float = 0.005,
        temperature: float = 0.05,
        hard_negative_weight: float = 0.0,
        mlp_only_train: bool = False,
        chunk: int | None = None,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, temperature, hard_negative_weight, mlp_only_train, chunk)
        if not 0 < mask_share < 1:
            raise ValueError(f"mask_share must be between 0 and 1, not {mask_share}")
        if dim != encoder.word_embedding.weight.shape[1]:
            raise ValueError(
                f"{dim} numbers cannot replace a [CLS] embedding: set `projection: mlp`"
            )
        self.generator_name = generator
        self.mask_share, self.rtd_weight, self.autocast = mask_share, rtd_weight, autocast
        self.discriminator = copy.deepcopy(encoder)
        self.detector = nn.Linear(encoder.dim, 2)
        nn.init.normal_(self.detector.weight, std=0.02)
        nn.init.zeros_(self.detector.bias)
        self._generator: tuple[Generator, ...] = ()  # in a tuple, so that it is not saved

    def use_generator(self, generator: Generator) -> None:
        """Set the generator, which training needs."""
        self._generator = (generator,)

    def loss(self, pooled: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the contrastive loss plus ``detection_loss``, and the views [B, V, d]."""
        loss, views = super().loss(pooled, batch)
        with autocast(views.device, self.autocast):
            return loss + self.detection_loss(torch.cat(views.unbind(1)), batch), views

    def detection_loss(self, h: Tensor, batch: Any) -> Tensor:
        """Compute rtd_weight * the mean cross-entropy over the real tokens of all ranks' views.

        Args:
            h: sentence vectors of the S = V B texts, all first views first [S, d].
            batch: the texts, also with masked tokens; a row with the number -1 counts on another
                rank.
        """
        ids, masked, mask = batch.input_ids, batch.masked_ids, batch.attention_mask
        types = batch.token_type_ids
        (generator,) = self._generator
        with torch.no_grad():
            filled = generator(masked, types, mask)
            filled[:, 0] = ids[:, 0]
            replaced = ((filled != ids) & (mask == 1)).long()
            filled = torch.where(mask == 1, filled, ids)
        size = self.chunk or len(ids)
        parts = zip(*(x.split(size) for x in (h, filled, replaced, types, mask)), strict=True)
        again = partial(checkpoint, self._detection, use_reentrant=False)
        summed = again if self.chunk else self._detection
        mean = torch.stack([summed(*part) for part in parts]).sum() / mask.sum()
        return self.rtd_weight * mean * _balance(batch.labels, mask)

    def _detection(
        self, h: Tensor, filled: Tensor, replaced: Tensor, types: Tensor, mask: Tensor
    ) -> Tensor:
        """Sum the cross-entropy over the real tokens of some texts."""
        packing = self.discriminator.packing(mask)
        embedded = self.discriminator.embed(filled, types, mask, packing)
        embedded = torch.cat([h.to(embedded.dtype).unsqueeze(1), embedded[:, 1:]], dim=1)
        last = self.discriminator.num_layers
        hidden = self.discriminator.encode(embedded, mask, (last,), packing=packing)[last]
        logits = at_least_fp32(self.detector(hidden))
        real = mask == 1
        return functional.cross_entropy(logits[real], replaced[real], reduction="sum")


def _balance(labels: Tensor, mask: Tensor) -> float:
    """Return the rank's share of all tokens divided by its share of all rows.

    The trainer weights a rank's loss by its rows, but this loss is a mean over tokens.
    """
    if distributed.world() == 1:
        return 1.0
    rows = int((labels[:, 0] >= 0).sum())
    tokens = int(mask.sum()) if rows else 0
    all_rows, all_tokens = distributed.total([rows, tokens], mask.device)
    return (tokens / all_tokens) / (rows / all_rows) if rows else 0.0
