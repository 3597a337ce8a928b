"""Masked language modelling (Devlin et al. 2019, section 3.1): which tokens are hidden, and how."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multitask.data.tokenize import Split, Tokens
from multitask.tasks.base import Columns
from multitask.utils.errors import UserError


@dataclass(frozen=True)
class Masking:
    """Settings with which a task masks its tokens.

    The share ``share`` of a text's units (its tokens, or its words) is drawn at random. A token of
    these becomes ``mask_id`` with probability 0.8, one of ``replacements`` with 0.1, and is
    unchanged with 0.1.

    Attributes:
        share: the probability of each unit. Of a text with U units, share * U are drawn, rounded up
            or down at random so that the mean is exact.
        whole_words: draw all tokens of a word together.
        mask_id: the id of the tokenizer's mask token.
        maskable: bool [V], False for special tokens.
        replacements: the ids of all tokens that are not special.
    """

    share: float
    whole_words: bool
    mask_id: int
    maskable: np.ndarray
    replacements: np.ndarray

    def apply(self, tokens: Tokens, seed: Sequence[int]) -> Tokens:
        """Mask tokens at random (from ``seed``) and save their ids in ``targets``."""
        rng = np.random.default_rng(seed)
        rows = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
        places = np.flatnonzero(self.maskable[tokens.ids])
        rows = rows[places]
        begins = np.ones(len(places), dtype=bool)  # True at the first token of a unit
        if self.whole_words:
            assert tokens.words is not None, "whole words need tokens made with their words"
            begins[1:] = (np.diff(rows) != 0) | (np.diff(tokens.words[places]) != 0)
        chosen = _choose(rows[begins], len(tokens.offsets) - 1, self.share, rng)
        hidden = places[chosen[np.cumsum(begins) - 1]]
        targets = np.full(len(tokens.ids), -1, dtype=np.int32)
        targets[hidden] = tokens.ids[hidden]
        ids = tokens.ids.copy()
        fate = rng.random(len(hidden))
        ids[hidden[fate < 0.8]] = self.mask_id
        random = hidden[(fate >= 0.8) & (fate < 0.9)]
        ids[random] = self.replacements[rng.integers(len(self.replacements), size=len(random))]
        return replace(tokens, ids=ids, targets=targets)


def masking_of(tokenizer: Any, share: float, whole_words: bool) -> Masking:
    """Build the masking of a tokenizer. Raises UserError if it has no mask token."""
    if tokenizer.mask_token_id is None:
        message = "the encoder's tokenizer has no mask token: take another encoder"
        raise UserError(f"masked language modelling: {message}")
    maskable = np.ones(len(tokenizer), dtype=bool)
    maskable[tokenizer.all_special_ids] = False
    return Masking(share, whole_words, tokenizer.mask_token_id, maskable, np.flatnonzero(maskable))


def _choose(rows: np.ndarray, count: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw units, bool [U]; ``rows`` has each unit's row (ascending), out of ``count`` rows."""
    units = np.bincount(rows, minlength=count)
    quota = np.floor(share * units + rng.random(count))
    order = np.lexsort((rng.random(len(rows)), rows))  # shuffled inside each row
    rank = np.arange(len(rows)) - (np.cumsum(units) - units)[rows]
    chosen = np.empty(len(rows), dtype=bool)
    chosen[order] = rank < quota[rows]
    return chosen


def unigrams(train: Tokens, masking: Masking) -> np.ndarray:
    """Return the log frequency of each maskable token [V], with add-one smoothing."""
    counts = np.bincount(train.ids, minlength=len(masking.maskable)) + 1.0
    counts[~masking.maskable] = 0
    with np.errstate(divide="ignore"):
        return np.log(counts / counts.sum())


def guess_loss(train: Tokens, masking: Masking) -> float:
    """Return the loss per token of the unigram model on the training tokens (their entropy)."""
    logs = unigrams(train, masking)[train.ids]
    return -float(logs[masking.maskable[train.ids]].mean())


def guess(train: Tokens, dev: Split, masking: Masking) -> Columns:
    """Score the unigram model on dev, per text: masked tokens, correct ones, summed losses."""
    masked, logs = dev.tokens, unigrams(train, masking)
    assert masked.targets is not None, "the tokens are not masked"
    right = masked.sums(masked.targets == logs.argmax())
    losses = masked.sums(np.where(masked.targets >= 0, -logs[masked.targets], 0.0))
    return dev.rows.gold, right.astype(np.int64), losses[:, None]
