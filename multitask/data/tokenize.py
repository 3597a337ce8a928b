"""Tokenize the texts of a split to flat arrays of token ids, and cache them on disk."""
# Long: the tokens, how they are made, and their cache

import contextlib
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from multitask.data.inputs.base import Sides, Texts, together
from multitask.store.files import DAY, remove_scraps
from multitask.store.tensor_files import has_checksum, write_with_checksum
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, reason_of, without_panic
from multitask.utils.heartbeat import working
from multitask.utils.paths import expand_home

# rows that the tokenizer gets at a time: its answer has about 10 KiB for each sequence
AT_ONCE = 1024

Arrange = Callable[[Sequence[Texts]], Sides]  # see ``multitask.data.inputs``


@dataclass
class Tokens:
    """Token ids of N rows in one flat array.

    Each row has ``sides`` sequences. The sequence of side s and row i has the number
    ``k = s * N + i``; its ids are ``ids[offsets[k]:offsets[k + 1]]``. If long texts are read in
    windows, each window is a row here.

    Attributes:
        ids: the token ids, int32 [tokens].
        types: the token types of cross-encoded pairs, else 0, int8 [tokens].
        offsets: the start of each sequence in ``ids``, and the end, int64 [sides * N + 1].
        truncated: True for sequences that were cut, bool [sides * N].
        sides: sequences per row; see ``multitask.data.inputs``.
        words: the number of each token's word in its text, -1 for special tokens, int32 [tokens];
            None if the words were not asked for.
        targets: the hidden ids of masked tokens, or the tag ids of tagged words, else -1,
            int32 [tokens].
        spans: the characters [start, end) of the row's last text that each token covers, -1 for
            tokens of no such text, int32 [tokens, 2].
        answers: the first and last token of each row's answer, counted from the start of the row,
            -1 without an answer, int64 [N, 2].
        owners: the row of the split that each window belongs to, int64 [N], ascending; None
            without windows.
        without_piece: the tagged words of each row of which the tokenizer keeps no character,
            int64 [N]; None without tags.
    """

    ids: np.ndarray
    types: np.ndarray
    offsets: np.ndarray
    truncated: np.ndarray
    sides: int
    words: np.ndarray | None = None
    targets: np.ndarray | None = None
    spans: np.ndarray | None = None
    answers: np.ndarray | None = None
    owners: np.ndarray | None = None
    without_piece: np.ndarray | None = None

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.sides

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens in each row's longest sequence, int64 [N]."""
        return np.diff(self.offsets).reshape(self.sides, -1).max(axis=0)

    @property
    def truncated_share(self) -> float:
        """The share of rows with a cut sequence."""
        return float(self.truncated.reshape(self.sides, -1).any(axis=0).mean())

    def twice(self) -> "Tokens":
        """Return two views of each single text: the same tokens on two sides."""
        sides = {name: np.tile(getattr(self, name), 2) for name in ("ids", "types", "truncated")}
        ends = np.concatenate([self.offsets, self.offsets[1:] + self.offsets[-1]])
        return Tokens(**sides, offsets=ends, sides=2)

    def take(self, index: np.ndarray) -> "Tokens":
        """Return the tokens of the rows at ``index``, in that order, before labels are marked."""
        assert not self.labelled, "labels are not taken along"
        begins, ends = index, index + 1
        if self.owners is not None:
            begins, ends = (np.searchsorted(self.owners, index, side=s) for s in ("left", "right"))
        rows = _ranges(begins, ends)
        numbers = np.concatenate([side * len(self) + rows for side in range(self.sides)])
        places = _ranges(self.offsets[numbers], self.offsets[numbers + 1])
        each = ("ids", "types", "words", "spans")
        arrays = {name: getattr(self, name) for name in each if getattr(self, name) is not None}
        return replace(
            self,
            **{name: array[places] for name, array in arrays.items()},
            offsets=np.concatenate([[0], np.cumsum(np.diff(self.offsets)[numbers])]),
            truncated=self.truncated[numbers],
            owners=None if self.owners is None else np.repeat(np.arange(len(index)), ends - begins),
        )

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum a value per token over each sequence: [tokens] -> float64 [sides * N]."""
        ends = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        return np.diff(ends[self.offsets])

    @cached_property
    def masked(self) -> np.ndarray:
        """The number of tokens to predict in each sequence, int64 [sides * N]."""
        assert self.targets is not None, "the tokens are not masked"
        return self.sums(self.targets >= 0).astype(np.int64)

    @property
    def row_of(self) -> np.ndarray:
        """The row of the split that each row belongs to, int64 [N]; differs only for windows."""
        return np.arange(len(self)) if self.owners is None else self.owners

    @property
    def labelled(self) -> bool:
        """True if the tokens contain the labels: masked tokens, tags, answers."""
        return self.targets is not None or self.answers is not None

    def count(self, rows: np.ndarray) -> int:
        """Count the terms of the mean loss over these rows: tokens to predict, or answers."""
        if self.answers is not None:
            return int((self.answers[rows, 0] >= 0).sum())
        return int(self.masked[rows].sum())

    def sequence(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (ids, types) of one sequence, each [length]."""
        span = slice(self.offsets[number], self.offsets[number + 1])
        return self.ids[span], self.types[span]

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the rows' tokens in the flat arrays, padded, and their mask.

        Positions are int64 [S, T], all first sides first, and 0 for pads. The mask is bool [S, T],
        True for tokens.
        """
        numbers = np.concatenate([side * len(self) + rows for side in range(self.sides)])
        starts = self.offsets[numbers]
        lengths = self.offsets[numbers + 1] - starts
        steps = np.arange(lengths.max())
        inside = steps < lengths[:, None]
        return np.where(inside, starts[:, None] + steps, 0), inside

    @cached_property
    def inputs(self) -> tuple["Tokens", np.ndarray]:
        """The sequences to encode, and the number of each row's sequences there, int64 [N, sides].

        With several sides, equal sequences are encoded once. With one side, these are
        the rows themselves.
        """
        if self.sides == 1:
            return self, np.arange(len(self))[:, None]
        spans = [slice(*ends) for ends in pairwise(self.offsets.tolist())]
        keys = [(self.ids[span].tobytes(), self.types[span].tobytes()) for span in spans]
        number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        which = np.array([number[key] for key in keys], dtype=np.int64)
        _, first = np.unique(which, return_index=True)
        chosen = [spans[place] for place in first]
        ends = np.cumsum([0, *(span.stop - span.start for span in chosen)])
        ids, types = (np.concatenate([a[span] for span in chosen]) for a in (self.ids, self.types))
        texts = Tokens(ids, types, ends, truncated=self.truncated[first], sides=1)
        return texts, which.reshape(self.sides, -1).T


def _ranges(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the numbers of all ranges [begin, end), one range after another."""
    sizes = ends - begins
    return np.arange(sizes.sum()) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)


def tokenize(
    rows: Rows,
    tokenizer: Any,
    *,
    max_length: int,
    arrange: Arrange = together,
    words: bool = False,
    characters: bool = False,
    stride: int | None = None,
    cache: Path | None = None,
) -> Tokens:
    """Tokenize the rows of a split, or read their tokens from the cache.

    Args:
        rows: the rows. Two texts in one sequence are cut longest first; of more than two, all
            after the first count as one text.
        tokenizer: a fast tokenizer of `transformers`.
        max_length: the largest number of tokens per sequence, including special tokens.
        arrange: arranges the texts in sequences; see ``multitask.data.inputs``.
        words: also return the word of each token.
        characters: also return the characters of the row's last text that each token covers. Then
            only the last text of a pair is cut.
        stride: with ``characters``, read the last text of a pair in windows instead of cutting it;
            neighbouring windows share this many tokens.
        cache: directory of the cache; None for no cache.

    Raises:
        UserError: a text has no tokens (it is empty and the tokenizer adds no special tokens), or
            only the last text may be cut and the first one already fills ``max_length``.
    """
    also = [name for name, on in (("words", words), ("characters", characters)) if on]
    asked = (("words", words), ("spans", characters), ("owners", stride is not None))
    names = {"ids", "types", "offsets", "truncated", *(name for name, on in asked if on)}
    settings = [max_length, *also, *([] if stride is None else [stride])]
    # compute the key only with a cache: for one text it takes as long as the encoder
    file = cache / f"{_key(rows, arrange, tokenizer, settings)}.tokens" if cache else None
    arrays = _read(file, names)
    if arrays is None:
        arrays = _tokenize(rows, arrange, tokenizer, max_length, also=also, stride=stride)
        if file is not None:
            _write(file, arrays)
    return Tokens(**arrays, sides=len(arrange(rows.texts[:1])))


def _batches(rows: Rows, arrange: Arrange, tokenizer: Any) -> Iterator[tuple[int, Sides]]:
    """Yield the first row, and the arranged texts, of some rows at a time."""
    for start in range(0, len(rows), AT_ONCE):
        sides = arrange(rows.texts[start : start + AT_ONCE])
        yield start, [[pair_of(texts, tokenizer) for texts in side] for side in sides]


def _tokenize(
    rows: Rows,
    arrange: Arrange,
    tokenizer: Any,
    max_length: int,
    *,
    also: list[str],
    stride: int | None,
) -> dict[str, np.ndarray]:
    # bytes of the arrays by name and side: they grow in place, and leave no holes in the memory
    flat: dict[str, dict[int, bytearray]] = defaultdict(lambda: defaultdict(bytearray))
    with working(f"tokenizing {rows.source}", len(rows)) as work:
        for work.done, sides in _batches(rows, arrange, tokenizer):
            for number, side in enumerate(sides):
                if len({*map(len, side)}) > 1:
                    raise UserError("the input joins the texts of some rows and not of others")
                texts = [[*column] for column in zip(*side, strict=True)]
                pairs = len(texts) == 2
                # of two texts the longest is cut first
                cut: dict[str, bool | int | str] = {"truncation": True, "max_length": max_length}
                if "characters" in also and pairs:
                    limits = {"max_length": max_length, "stride": stride or 0}
                    _check_first_texts(rows, work.done, texts[0], tokenizer, **limits)
                    cut["truncation"] = "only_second"
                    if stride is not None:
                        cut |= {"stride": stride, "return_overflowing_tokens": True}
                # set here: padding and truncation that the tokenizer has saved have no effect
                part = _arrays(_encoded(rows, tokenizer, *texts, **cut), also, pairs)
                part["owners"] += work.done
                for name, array in part.items():
                    flat[name][number] += array.tobytes()
    arrays = {}
    for name, array in part.items():
        joined = bytearray().join(flat.pop(name).values())
        arrays[name] = np.frombuffer(joined, array.dtype).reshape(-1, *array.shape[1:])
    lengths, owners = arrays.pop("lengths"), arrays.pop("owners")
    if not lengths.all():
        row = owners[int(lengths.argmin())]
        raise UserError(
            f"{rows.source}, row {row + 1} (id {rows.ids[row]}): a text without tokens, and the "
            "tokenizer adds none such as [CLS]: leave the row out, or take another encoder"
        )
    arrays["offsets"] = np.concatenate([[0], np.cumsum(lengths)])
    if stride is not None:
        arrays["owners"] = owners
        arrays["truncated"][:] = False
    return arrays


def pair_of(texts: Texts, tokenizer: Any) -> Texts:
    """Join the texts of a sequence after the first with separators: a tokenizer takes two texts."""
    if len(texts) < 3:
        return texts
    alone, pair = (tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
    between = (tokenizer.sep_token or "") * (pair - alone) or " "
    return (texts[0], between.join(texts[1:]))


def _arrays(encoded: Any, also: list[str], pairs: bool) -> dict[str, np.ndarray]:
    """Convert what the tokenizer returned to flat arrays, which need a tenth of the memory."""
    sequences, encodings = encoded["input_ids"], encoded.encodings
    lengths = np.array([*map(len, sequences)], dtype=np.int64)

    def flat(lists: Sequence[Sequence[int]], dtype: type) -> np.ndarray:
        return np.fromiter(chain.from_iterable(lists), dtype, int(lengths.sum()))

    types = encoded.get("token_type_ids")
    owners = encoded.get("overflow_to_sample_mapping") or np.arange(len(sequences))
    arrays = {
        "ids": flat(sequences, np.int32),
        "types": np.zeros(lengths.sum(), np.int8) if types is None else flat(types, np.int8),
        "lengths": lengths,
        "owners": np.asarray(owners, dtype=np.int64),
        "truncated": np.array([bool(e.overflowing) for e in encodings]),
    }
    if "characters" in also:
        last = int(pairs)
        places = [np.asarray(e.offsets, dtype=np.int32) for e in encodings]
        whose = [np.array([number == last for number in e.sequence_ids]) for e in encodings]
        arrays["spans"] = np.concatenate(places)
        arrays["spans"][~np.concatenate(whose)] = -1
    if "words" in also:
        numbers = [-1 if word is None else word for e in encodings for word in e.word_ids]
        arrays["words"] = np.asarray(numbers, dtype=np.int32)
    return arrays


def _encoded(rows: Rows, tokenizer: Any, *texts: list[str], **options: Any) -> Any:
    """Call the tokenizer. Raises UserError if it fails, such as for want of an unknown token."""
    try:
        with without_panic():
            return tokenizer(*texts, padding=False, return_attention_mask=False, **options)
    except Exception as error:  # the library raises `Exception`
        message = f"the tokenizer of the encoder fails: {reason_of(error)}: take another encoder"
        raise UserError(f"{rows.source}: {message}") from error


def _check_first_texts(
    rows: Rows, start: int, texts: list[str], tokenizer: Any, *, max_length: int, stride: int
) -> None:
    """Raise UserError if one of the first texts, from row ``start``, leaves no token for others."""
    most = max_length - tokenizer.num_special_tokens_to_add(pair=True) - 1 - stride
    alone = _encoded(rows, tokenizer, texts, truncation=False, add_special_tokens=False)
    for row, ids in enumerate(alone["input_ids"], start):
        if len(ids) > most:
            where = f"{rows.source}, row {row + 1} (id {rows.ids[row]})"
            advice = f"raise `max_length` ({max_length})"
            advice += f" or lower `stride` ({stride})" if stride else ""
            message = f"its first text alone has {len(ids)} tokens, and is not cut"
            raise UserError(f"{where}: {message}: {advice}")


def default_cache() -> Path:
    """Return ``$MULTITASK_CACHE``, ``$XDG_CACHE_HOME/multitask`` or ``~/.cache/multitask``.

    The first one that is set counts. Without a home directory, return a path that cannot be
    written: a cache only saves time.
    """
    if os.environ.get("MULTITASK_CACHE"):
        return expand_home(os.environ["MULTITASK_CACHE"])
    try:
        directory = os.environ.get("XDG_CACHE_HOME")
        home = expand_home(directory) if directory else Path.home() / ".cache"
    except RuntimeError:
        home = Path(os.devnull)
    return home / "multitask"


def _key(rows: Rows, arrange: Arrange, tokenizer: Any, settings: Sequence[Any]) -> str:
    """Hash everything that the result depends on."""
    backend = tokenizer.backend_tokenizer
    backend.no_padding(), backend.no_truncation()  # not part of the key: each call sets them
    digest = hashlib.sha256(backend.to_str().encode())
    about = [tokenizer.model_input_names, tokenizer.truncation_side, *settings]
    digest.update(json.dumps(about).encode())
    for _, sides in _batches(rows, arrange, tokenizer):
        digest.update(json.dumps(sides).encode())
    return digest.hexdigest()[:32]


def _read(file: Path | None, names: set[str]) -> dict[str, np.ndarray] | None:
    """Read the arrays of a cache file; None if it is missing, damaged or has other arrays.

    Only a file that ``_write`` has written is read into memory.
    """
    from safetensors.numpy import load_file

    try:
        if file is None or not file.is_file():
            return None
        arrays = load_file(file) if has_checksum(file) else {}
    except (OSError, SafetensorError):
        return None
    return arrays if arrays.keys() == names else None


def _write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_scraps(file.parent, seconds=DAY)
        write_with_checksum(file, lambda scratch, metadata: save_file(arrays, scratch, metadata))


@dataclass
class Split:
    """One split of one task, ready for the model.

    Attributes:
        rows: the rows with their texts and labels.
        tokens: the tokens of the rows.
        cut: the number of words, or answers, that have no token; None for other tasks.
    """

    rows: Rows
    tokens: Tokens
    cut: int | None = None
