"""Tokenise once: a split's texts as flat arrays of token ids, cached on disk."""

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from multitask.utils.files import DAY, remove_scraps, replacing


@dataclass
class Tokens:
    """Token ids of N rows in one flat array.

    Row i has ``sides`` sequences (2 for siamese pairs, 3 for triplets, else 1); sequence i of side
    s is number ``s * N + i`` and spans ``ids[offsets[k]:offsets[k + 1]]``. ``types`` holds the
    token types of cross-encoded pairs and is all zero otherwise. ``words`` numbers the words of
    each text, special tokens -1, where the tokens were made with them. ``targets`` holds, in masked
    tokens, the hidden id at each place that is to be predicted, and -1 elsewhere; in tagged words
    the tag's id. ``spans`` says which characters of the row's last text a token stands for, -1 for
    those of no such text; ``answers`` is the first and last token of a row's answer, counted from
    the row's begin, -1 where it has none. Where a long text is read in windows each window is a row
    here, and ``owners`` says of which row of the split it is.
    """

    ids: np.ndarray  # int32 [tokens]
    types: np.ndarray  # int8 [tokens]
    offsets: np.ndarray  # int64 [sides * N + 1]
    truncated: np.ndarray  # bool [sides * N]
    sides: int
    words: np.ndarray | None = None  # int32 [tokens]
    targets: np.ndarray | None = None  # int32 [tokens]
    spans: np.ndarray | None = None  # int32 [tokens, 2]
    answers: np.ndarray | None = None  # int64 [N, 2]
    owners: np.ndarray | None = None  # int64 [N], ascending

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

    def twice(self) -> "Tokens":
        """Put each single text on two sides, as two views of it."""
        sides = {name: np.tile(getattr(self, name), 2) for name in ("ids", "types", "truncated")}
        ends = np.concatenate([self.offsets, self.offsets[1:] + self.offsets[-1]])
        return Tokens(**sides, offsets=ends, sides=2)

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

    @property
    def row_of(self) -> np.ndarray:
        """The row of the split that each row here is of, int64 [N]: itself without windows."""
        return np.arange(len(self)) if self.owners is None else self.owners

    @property
    def labelled(self) -> bool:
        """Whether the labels stand in the tokens: masked tokens, tags, answers."""
        return self.targets is not None or self.answers is not None

    def count(self, rows: np.ndarray) -> int:
        """What a mean loss over these rows is a mean over: tokens to predict, or answers."""
        if self.answers is not None:
            return int((self.answers[rows, 0] >= 0).sum())
        return int(self.masked[rows].sum())

    def sequence(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids, types) of one sequence, each [length]."""
        span = slice(self.offsets[number], self.offsets[number + 1])
        return self.ids[span], self.types[span]

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the tokens of rows stand in the flat arrays, int64 [S, T], all first sides first;
        and which are tokens, bool [S, T]: pads stand at 0."""
        numbers = np.concatenate([side * len(self) + rows for side in range(self.sides)])
        starts = self.offsets[numbers]
        lengths = self.offsets[numbers + 1] - starts
        steps = np.arange(lengths.max())
        inside = steps < lengths[:, None]
        return np.where(inside, starts[:, None] + steps, 0), inside

    @cached_property
    def inputs(self) -> tuple["Tokens", np.ndarray]:
        """What the encoder has to see, and which of it the sides of each row are, int64 [N, sides]:
        the rows themselves, or, of texts that are encoded apart, each distinct one."""
        if self.sides == 1:
            return self, np.arange(len(self))[:, None]
        spans = [slice(*ends) for ends in pairwise(self.offsets.tolist())]
        keys = [self.ids[span].tobytes() for span in spans]
        number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        which = np.array([number[key] for key in keys], dtype=np.int64)
        _, first = np.unique(which, return_index=True)
        chosen = [spans[place] for place in first]
        ends = np.cumsum([0, *(span.stop - span.start for span in chosen)])
        ids = np.concatenate([self.ids[span] for span in chosen])
        types = np.zeros_like(ids, np.int8)
        texts = Tokens(ids, types, ends, truncated=self.truncated[first], sides=1)
        return texts, which.reshape(self.sides, -1).T


def tokenize(
    rows: Rows,
    tokenizer: Any,
    *,
    siamese: bool,
    max_length: int,
    words: bool = False,
    characters: bool = False,
    stride: int | None = None,
    cache: Path | None = None,
) -> Tokens:
    """Tokenize the rows of a split, or read their tokens from the cache.

    Args:
        rows: texts of one side, or pairs; pairs are cut longest first when cross-encoded.
        tokenizer: a fast tokenizer of `transformers`.
        siamese: encode the sides of a pair or triplet as separate sequences.
        max_length: tokens per sequence at most, special tokens included.
        words: also return which word each token is part of.
        characters: also return which characters of the row's last text each token covers; of a
            pair only that text is cut.
        stride: read the last text of such a pair in windows, which share this many tokens, instead
            of cutting it.
        cache: directory of the cache; None for no cache.

    Raises:
        UserError: a first text that alone fills ``max_length``, if only the last may be cut, or a
            text without tokens, such as an empty one if the tokenizer adds no special tokens.
    """
    also = [name for name, on in (("words", words), ("characters", characters)) if on]
    how: dict[str, Any] = {"siamese": siamese, "also": also, "stride": stride}
    how["max_length"] = max_length
    names = {"ids", "types", "offsets", "truncated"}
    names |= {"words"} if words else set()
    names |= {"spans"} if characters else set()
    names |= {"owners"} if stride is not None else set()
    # without a cache there is no key: it takes as long as a text's way through the encoder
    file = cache / f"{_key(rows, tokenizer, **how)}.tokens" if cache else None
    arrays = _read(file, names)
    if arrays is None:
        arrays = _tokenize(rows, tokenizer, **how)
        if file is not None:
            _write(file, arrays)
    return Tokens(**arrays, sides=len(rows.texts[0]) if siamese else 1)


def _tokenize(
    rows: Rows,
    tokenizer: Any,
    *,
    siamese: bool,
    max_length: int,
    also: list[str],
    stride: int | None,
) -> dict[str, np.ndarray]:
    if siamese:
        first = [texts[side] for side in range(len(rows.texts[0])) for texts in rows.texts]
        second = None
    else:
        first = [texts[0] for texts in rows.texts]
        second = [texts[1] for texts in rows.texts] if len(rows.texts[0]) == 2 else None
    cut: dict[str, Any] = {"truncation": True, "max_length": max_length}  # longest first
    if "characters" in also and second is not None:
        _check_first_texts(rows, tokenizer, max_length, stride or 0)
        cut["truncation"] = "only_second"
        if stride is not None:
            cut |= {"stride": stride, "return_overflowing_tokens": True}
    # padding and truncation are given here, so nothing baked into the tokenizer survives
    encoded = tokenizer(first, second, padding=False, **cut)
    sequences = encoded["input_ids"]
    types = encoded.get("token_type_ids") or [[0] * len(ids) for ids in sequences]
    lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
    owners = encoded.get("overflow_to_sample_mapping") or np.arange(len(lengths)) % len(rows.texts)
    _check_lengths(rows, lengths, owners)
    found = {
        "ids": np.concatenate([np.asarray(ids, dtype=np.int32) for ids in sequences]),
        "types": np.concatenate([np.asarray(kinds, dtype=np.int8) for kinds in types]),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "truncated": np.array([bool(e.overflowing) for e in encoded.encodings]),
    }
    if stride is not None:
        found["owners"] = np.asarray(owners, dtype=np.int64)
        found["truncated"][:] = False
    if "characters" in also:
        last = len(rows.texts[0]) - 1
        places = [np.asarray(e.offsets, dtype=np.int32) for e in encoded.encodings]
        whose = [np.array([one == last for one in e.sequence_ids]) for e in encoded.encodings]
        found["spans"] = np.concatenate(places)
        found["spans"][~np.concatenate(whose)] = -1
    if "words" in also:
        numbers = [-1 if word is None else word for e in encoded.encodings for word in e.word_ids]
        found["words"] = np.asarray(numbers, dtype=np.int32)
    return found


def _check_lengths(rows: Rows, lengths: np.ndarray, owners: Sequence[int] | np.ndarray) -> None:
    """Raise UserError where a sequence has no token; ``owners`` are the rows of the sequences."""
    if not lengths.all():
        row = owners[int(lengths.argmin())] + 1
        raise UserError(
            f"{rows.source}, row {row}: a text without tokens, and the tokenizer adds none such as "
            "[CLS]: leave the row out, or take another encoder"
        )


def _check_first_texts(rows: Rows, tokenizer: Any, max_length: int, stride: int) -> None:
    """Raise UserError where a pair's first text leaves the second no token beside ``stride``."""
    most = max_length - tokenizer.num_special_tokens_to_add(pair=True) - 1 - stride
    texts = [texts[0] for texts in rows.texts]
    alone = tokenizer(texts, padding=False, truncation=False, add_special_tokens=False)
    for number, ids in enumerate(alone["input_ids"], 1):
        if len(ids) > most:
            raise UserError(
                f"{rows.source}, row {number}: its first text alone has {len(ids)} tokens, and is "
                f"not cut: raise `max_length` ({max_length})"
                + (f" or lower `stride` ({stride})" if stride else "")
            )


def default_cache() -> Path:
    """``$MULTITASK_CACHE``, else ``$XDG_CACHE_HOME/multitask``, else ``~/.cache/multitask``.

    Without a home directory, a place where nothing can be kept: a cache only saves time.
    """
    if os.environ.get("MULTITASK_CACHE"):
        return Path(os.environ["MULTITASK_CACHE"])
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        home = Path(os.devnull)
    return home / "multitask"


def _key(
    rows: Rows,
    tokenizer: Any,
    *,
    siamese: bool,
    max_length: int,
    also: list[str],
    stride: int | None,
) -> str:
    """Hash everything that the result depends on."""
    backend = tokenizer.backend_tokenizer
    backend.no_padding(), backend.no_truncation()  # every call of the tokenizer sets its own
    settings = [tokenizer.model_input_names, siamese, max_length, *also]
    settings += [] if stride is None else [stride]
    digest = hashlib.sha256(backend.to_str().encode())
    digest.update(json.dumps([settings, rows.texts]).encode())
    return digest.hexdigest()[:32]


def _read(file: Path | None, names: set[str]) -> dict[str, np.ndarray] | None:
    """The arrays in a file of the cache; None for a file that is cut or damaged, or has others."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = b"" if file is None else file.read_bytes()
        digest, data = found[:32], found[32:]
        arrays = load(data) if hashlib.sha256(data).digest() == digest else {}
    except (OSError, SafetensorError):
        return None
    return arrays if arrays.keys() == names else None


def _write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save

    data = save(arrays)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_scraps(file.parent, seconds=DAY)
        with replacing(file) as scratch:
            scratch.write_bytes(hashlib.sha256(data).digest() + data)


@dataclass
class Split:
    """One split of one task, ready for the model."""

    rows: Rows
    tokens: Tokens
    cut: int | None = None  # words, or answers, that no token stands for
