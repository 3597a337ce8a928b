"""Tokenise once: a split's texts as flat arrays of token ids, cached on disk."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from multitask.data.load import Rows


@dataclass
class Tokens:
    """Token ids of N rows in one flat array.

    Row i has ``sides`` sequences (2 for siamese pairs, 3 for triplets, else 1); sequence i of side
    s is number ``s * N + i`` and spans ``ids[offsets[k]:offsets[k + 1]]``. ``types`` holds the
    token types of cross-encoded pairs and is all zero otherwise. ``words`` numbers the words of
    each text, special tokens -1, where the tokens were made with them. ``targets`` holds, in masked
    tokens, the hidden id at each place that is to be predicted, and -1 elsewhere.
    """

    ids: np.ndarray  # int32 [tokens]
    types: np.ndarray  # int8 [tokens]
    offsets: np.ndarray  # int64 [sides * N + 1]
    truncated: np.ndarray  # bool [sides * N]
    sides: int
    words: np.ndarray | None = None  # int32 [tokens]
    targets: np.ndarray | None = None  # int32 [tokens]

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.sides

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row's longest sequence, int64 [N]."""
        return np.diff(self.offsets).reshape(self.sides, -1).max(axis=0)

    @property
    def truncated_share(self) -> float:
        """Share of rows with a cut sequence."""
        return float(self.truncated.reshape(self.sides, -1).any(axis=0).mean())

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum over each sequence of a value a token: [tokens] -> float64 [sides * N]."""
        ends = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        return np.diff(ends[self.offsets])

    @cached_property
    def masked(self) -> np.ndarray:
        """Tokens to be predicted in each sequence, int64 [sides * N]."""
        if self.targets is None:
            raise ValueError("the tokens are not masked")
        return self.sums(self.targets >= 0).astype(np.int64)

    def sequence(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids, types) of one sequence, each [length]."""
        span = slice(self.offsets[number], self.offsets[number + 1])
        return self.ids[span], self.types[span]


def tokenize(
    rows: Rows,
    tokenizer: Any,
    *,
    siamese: bool,
    max_length: int,
    words: bool = False,
    twice: bool = False,
    cache: Path | None = None,
) -> Tokens:
    """Token ids of a split's rows, from the cache where they stand there already.

    Args:
        rows: texts of one side, or pairs; pairs are cut longest first when cross-encoded.
        tokenizer: a fast tokenizer of `transformers`.
        siamese: encode the sides of a pair or triplet as separate sequences.
        max_length: tokens a sequence may have, special tokens included.
        words: also tell which word each token is part of.
        twice: each text stands on two sides, as two views of it (not with ``siamese``).
        cache: directory of the cache; None for no cache.
    """
    file = cache / f"{_key(rows, tokenizer, siamese, max_length, words)}.tokens" if cache else None
    sides = len(rows.texts[0]) if siamese else 1
    arrays = _read(file)
    if arrays is None:
        arrays = _tokenize(rows, tokenizer, siamese, max_length, words)
        if file is not None:
            _write(file, arrays)
    if twice:
        ends = arrays.pop("offsets")
        arrays = {name: np.concatenate([values, values]) for name, values in arrays.items()}
        arrays["offsets"], sides = np.concatenate([ends, ends[1:] + ends[-1]]), 2
    return Tokens(**arrays, sides=sides)


def _tokenize(
    rows: Rows, tokenizer: Any, siamese: bool, max_length: int, words: bool
) -> dict[str, np.ndarray]:
    if siamese:
        first = [texts[side] for side in range(len(rows.texts[0])) for texts in rows.texts]
        second = None
    else:
        first = [texts[0] for texts in rows.texts]
        second = [texts[1] for texts in rows.texts] if len(rows.texts[0]) == 2 else None
    # padding and truncation are given here, so nothing baked into the tokenizer survives
    encoded = tokenizer(first, second, padding=False, truncation=True, max_length=max_length)
    sequences = encoded["input_ids"]
    types = encoded.get("token_type_ids") or [[0] * len(ids) for ids in sequences]
    lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
    found = {
        "ids": np.concatenate([np.asarray(ids, dtype=np.int32) for ids in sequences]),
        "types": np.concatenate([np.asarray(kinds, dtype=np.int8) for kinds in types]),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "truncated": np.array([bool(e.overflowing) for e in encoded.encodings]),
    }
    if words:
        numbers = [-1 if word is None else word for e in encoded.encodings for word in e.word_ids]
        found["words"] = np.asarray(numbers, dtype=np.int32)
    return found


def default_cache() -> Path:
    """``$MULTITASK_CACHE``, else ``$XDG_CACHE_HOME/multitask``, else ``~/.cache/multitask``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MULTITASK_CACHE") or Path(home) / "multitask")


def _key(rows: Rows, tokenizer: Any, siamese: bool, max_length: int, words: bool) -> str:
    """A hash of everything the result depends on."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend.pop("padding"), backend.pop("truncation")  # they change with every call
    settings = [backend, tokenizer.model_input_names, siamese, max_length]
    settings += ["words"] if words else []
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(json.dumps(rows.texts).encode())
    return digest.hexdigest()[:32]


def _read(file: Path | None) -> dict[str, np.ndarray] | None:
    from safetensors.numpy import load

    try:
        found = b"" if file is None else file.read_bytes()
    except OSError:
        return None
    digest, data = found[:32], found[32:]
    if hashlib.sha256(data).digest() != digest:
        return None  # half-written, damaged or foreign: tokenise again
    return load(data)


def _write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save

    data = save(arrays)
    scratch = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(hashlib.sha256(data).digest() + data)
        scratch.replace(file)
    except OSError:  # a cache that cannot be written costs time, nothing else
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
