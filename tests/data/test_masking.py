"""Masks: their share, their fates, what is never hidden, whole words, seeds."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from multitask.data.masking import Masking, guess, masking_of, unigrams
from multitask.data.tokenize import Split, Tokens, tokenize
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

V, SPECIAL, MASK = 200, (0, 1, 2, 3, 4), 4
MASKABLE = np.arange(V) > 4
CLS, SEP = 2, 3


def masking(share=0.15, whole_words=False):
    return Masking(share, whole_words, MASK, MASKABLE, np.flatnonzero(MASKABLE))


def texts(words, special=True):
    """Tokens of texts, each a list of words, each word a list of token ids."""
    ids, numbers, lengths = [], [], []
    for text in words:
        inner = [token for word in text for token in word]
        ids += [CLS, *inner, SEP] if special else inner
        numbers_of_words = [number for number, word in enumerate(text) for _ in word]
        numbers += [-1, *numbers_of_words, -1] if special else numbers_of_words
        lengths.append(len(inner) + 2 * special)
    flat = np.array(ids, dtype=np.int32)
    return Tokens(
        flat,
        np.zeros(len(flat), dtype=np.int8),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.zeros(len(lengths), dtype=bool),
        1,
        np.array(numbers, dtype=np.int32),
    )


def many(rows=4000, seed=0):
    """Texts of 1 to 12 words of 1 to 4 tokens."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rows):
        sizes = rng.integers(1, 5, size=rng.integers(1, 13))
        made.append([rng.integers(5, V, size=size).tolist() for size in sizes])
    return texts(made)


WORDS = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=4), max_size=9)


@given(st.lists(WORDS, min_size=1, max_size=8), st.floats(0.01, 0.99), st.booleans(), st.data())
def test_targets_are_the_hidden_ids_and_nothing_else_changes(words, share, whole, data):
    tokens = texts(words)
    masked = masking(share, whole).apply(tokens, [data.draw(st.integers(0, 99))])
    hidden = masked.targets >= 0
    assert np.array_equal(masked.targets[hidden], tokens.ids[hidden])
    assert np.array_equal(masked.ids[~hidden], tokens.ids[~hidden])
    assert not np.isin(tokens.ids[hidden], SPECIAL).any()  # those of a text itself, too
    assert np.isin(masked.ids[hidden], [MASK, *np.flatnonzero(MASKABLE)]).all()
    for row in range(len(tokens)):
        span = slice(tokens.offsets[row], tokens.offsets[row + 1])
        open_ = [
            (w if whole else i, hidden[i])
            for i, w in enumerate(tokens.words[span].tolist(), span.start)
            if tokens.ids[i] not in SPECIAL
        ]
        units = {}
        for unit, drawn in open_:
            units.setdefault(unit, set()).add(bool(drawn))
        assert all(len(fates) == 1 for fates in units.values())  # a word is hidden whole or not
        count = sum(True in fates for fates in units.values())
        assert abs(count - share * len(units)) < 1
        assert masked.masked[row] == hidden[span].sum()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_share_and_fates_over_many_texts(share, whole):
    tokens = many()
    masked = masking(share, whole).apply(tokens, [1])
    hidden = masked.targets >= 0
    open_ = MASKABLE[tokens.ids]
    actual = hidden.sum() / open_.sum()
    assert actual == pytest.approx(share, abs=0.006)  # about 65,000 tokens
    is_mask = masked.ids[hidden] == MASK
    unchanged = masked.ids[hidden] == masked.targets[hidden]
    expected = [0.8, 0.1 + 0.1 / (V - 5), 0.1 - 0.1 / (V - 5)]
    shares = [is_mask.mean(), unchanged.mean(), (~is_mask & ~unchanged).mean()]
    assert shares == pytest.approx(expected, abs=0.015)
    random = masked.ids[hidden][~is_mask & ~unchanged]
    assert len(set(random.tolist())) > 0.9 * (V - 5) * (1 - np.exp(-len(random) / (V - 5)))


def test_every_token_of_a_short_text_has_the_same_chance():
    """Three tokens and 15 %: a fixed count a text would hide none, or a third."""
    tokens = texts([[[5], [6], [7]]] * 20000)
    hidden = (masking().apply(tokens, [3]).targets >= 0).reshape(-1, 5)
    assert hidden[:, 1:4].mean(axis=0) == pytest.approx([0.15] * 3, abs=0.01)
    assert set(hidden.sum(axis=1).tolist()) == {0, 1}


def test_the_seed_alone_decides():
    tokens = many(300)
    one, again, other = (masking().apply(tokens, seed) for seed in ([7, 1], [7, 1], [7, 2]))
    assert np.array_equal(one.ids, again.ids) and np.array_equal(one.targets, again.targets)
    assert not np.array_equal(one.targets >= 0, other.targets >= 0)
    assert (tokens.targets is None) and MASK not in tokens.ids  # the unmasked ones stay so


def test_whole_words_need_words():
    with pytest.raises(AssertionError, match="made with their words"):
        masking(whole_words=True).apply(dataclasses.replace(many(3), words=None), [0])


def test_unigrams_against_a_loop():
    train, masked = many(200), masking().apply(many(150, seed=5), [0])
    logs = unigrams(train, masking())
    counts = dict.fromkeys(range(5, V), 1)
    for token in train.ids.tolist():
        if token > 4:
            counts[token] += 1
    total = sum(counts.values())
    top = max(counts, key=lambda token: (counts[token], -token))
    dev = Split(Rows("", [], [], masked.masked), masked)
    counted, right, losses = guess(train, dev, masking())
    assert counted is dev.rows.labels and losses.shape == (150, 1)
    for row in range(len(masked)):
        span = slice(masked.offsets[row], masked.offsets[row + 1])
        gold = [token for token in masked.targets[span].tolist() if token >= 0]
        assert right[row] == gold.count(top)
        loss = -sum(np.log(counts[token] / total) for token in gold)
        assert losses[row, 0] == pytest.approx(loss, abs=1e-9)
    assert np.exp(logs).sum() == pytest.approx(1)


# ---- with a tokenizer of word pieces


@pytest.fixture
def pieces():
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] un ##play ##able play ##ing good ,".split()
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    )


def test_word_pieces_of_a_word_go_together(pieces, tmp_path):
    rows = Rows("texts", ["0"], [("unplayable playing , good strange",)], None)
    options = {"max_length": 32, "words": True, "cache": tmp_path}
    tokens = tokenize(rows, pieces, **options)
    shown = pieces.convert_ids_to_tokens(tokens.ids.tolist())
    plain = "[CLS] un ##play ##able play ##ing , good [UNK] [SEP]".split()
    assert shown == plain
    assert tokens.words.tolist() == [-1, 0, 0, 0, 1, 1, 2, 3, 4, -1]
    assert np.array_equal(tokenize(rows, pieces, **options).words, tokens.words)  # from the cache
    assert tokenize(rows, pieces, **{**options, "words": False}).words is None
    hiding = masking_of(pieces, 0.5, True)
    seen = set()
    for seed in range(60):
        masked = hiding.apply(tokens, [seed])
        seen.add(tuple(np.flatnonzero(masked.targets >= 0).tolist()))
    assert {places & {1, 2, 3} for places in map(frozenset, seen)} == {
        frozenset(),
        frozenset({1, 2, 3}),
    }
    assert {places & {4, 5} for places in map(frozenset, seen)} == {frozenset(), frozenset({4, 5})}
    assert not any({0, 8, 9} & set(places) for places in seen)  # [CLS], [UNK], [SEP]
    assert all(len({1, 4, 6, 7} & set(places)) == 2 for places in seen)  # half of four words


def test_a_tokenizer_without_a_mask_is_refused():
    with pytest.raises(UserError, match="no mask token"):
        masking_of(SimpleNamespace(mask_token_id=None), 0.15, False)
