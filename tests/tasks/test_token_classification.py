"""Entities: seqeval against a matcher written out by hand, and what is made of its counts."""

import itertools
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from multitask.config.registry import task_type
from multitask.tasks import metrics
from multitask.tasks.token_classification import (
    SCHEMES,
    TokenClassification,
    breaks,
    entities,
    outcome,
)
from multitask.utils.errors import UserError

TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]
sentences = st.lists(
    st.integers(0, 7).flatmap(
        lambda size: st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=size, max_size=size)] * 2)
    ),
    max_size=6,
)


def naive_entities(tags):
    """A B-X, and the I-X that follow it directly; nothing else."""
    result = set()
    for begin, tag in enumerate(tags):
        if tag.startswith("B-"):
            end = begin + 1
            while end < len(tags) and tags[end] == "I-" + tag[2:]:
                end += 1
            result.add((tag[2:], begin, end))
    return result


@given(st.lists(st.sampled_from(TAGS), max_size=9))
def test_entities_of_iob2_are_those_of_a_plain_matcher(tags):
    assert entities(tags, "IOB2") == naive_entities(tags)


@given(sentences)
def test_scores_are_those_of_seqeval_and_of_the_plain_matcher(pairs):
    rows = np.array([outcome(*pair, "IOB2") for pair in pairs], dtype=int).reshape(-1, 5)
    result = metrics.compute(task_type("tags"), (rows[:, 0], rows[:, 0], rows))
    words = sum(len(gold) for gold, _ in pairs)
    if not words:
        assert all(np.isnan(value) for value in result.values())
        return
    gold = {(i, *e) for i, (tags, _) in enumerate(pairs) for e in naive_entities(tags)}
    predicted = {(i, *e) for i, (_, tags) in enumerate(pairs) for e in naive_entities(tags)}
    both = len(gold & predicted)
    assert result["precision"] == pytest.approx(both / len(predicted) if predicted else 0)
    assert result["recall"] == pytest.approx(both / len(gold) if gold else 0)
    total = len(gold) + len(predicted)
    assert result["f1"] == pytest.approx(2 * both / total if total else 0)
    right = sum(a == b for one, two in pairs for a, b in zip(one, two, strict=True))
    assert result["accuracy"] == pytest.approx(right / words)
    if total:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of 0 / 0
            sides = [one for one, _ in pairs], [two for _, two in pairs]
            theirs = [
                score(*sides, mode="strict", scheme=IOB2)
                for score in (precision_score, recall_score, f1_score)
            ]
        assert [result[name] for name in ("precision", "recall", "f1")] == pytest.approx(theirs)


def test_other_schemes_mark_entities_their_way():
    assert entities(["I-A", "I-A", "O", "I-B"], "IOB1") == {("A", 0, 2), ("B", 3, 4)}
    assert entities(["I-A", "I-A"], "IOB2") == set()
    assert entities(["S-A", "O", "B-B", "E-B"], "IOBES") == {("A", 0, 1), ("B", 2, 4)}


@pytest.mark.parametrize(
    ("names", "scheme", "message"),
    [
        (["O", "B-PER", "3"], "IOB2", r"'3' is no tag of IOB2 \(O, B-TYPE, I-TYPE\): name the"),
        (["O", "S-PER"], "IOB2", "'S-PER' is no tag of IOB2.*, or set `tag_scheme: IOBES`$"),
        (["O", "B-X", "U-X"], "IOB2", "'U-X' is no tag of IOB2.*, or set `tag_scheme: BILOU`$"),
        (["O", "E-X", "I-X"], "IOB2", "set `tag_scheme: IOE2`$"),
        (["O", "NOUN"], "IOBES", r"'NOUN' is no tag of IOBES \(O, B-TYPE, E-TYPE, I-TYPE, S-TYPE"),
        (["O", "B-"], "IOB2", "'B-' is no tag"),
        (["B-PER", "I-PER"], "IOB2", "the tags lack O"),
    ],
)
def test_tags_must_follow_the_scheme(names, scheme, message):
    with pytest.raises(UserError, match=message):
        TokenClassification().check_classes(names, scheme)


def test_a_missing_seqeval_is_named_with_its_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.scheme", None)
    with pytest.raises(UserError, match=r"pip install .*\[tags\]"):
        TokenClassification().check_classes(["O"], "IOB2")


def segmentations(words: int) -> Iterator[list[tuple[str, int]]]:
    """Every way to cut a sentence into entities (type, length) of two types, and single words."""
    if not words:
        yield []
    for length in range(1, words + 1):
        for kind in ("X", "Y", *["O"] * (length == 1)):
            for rest in segmentations(words - length):
                yield [(kind, length), *rest]


def written(parts: list[tuple[str, int]], scheme: str) -> tuple[str, ...]:
    """The tags of a segmentation, by the definition of each scheme."""
    tags = []
    for place, (kind, length) in enumerate(parts):
        if kind == "O":
            tags.append("O")
            continue
        follows = place > 0 and parts[place - 1][0] == kind
        is_followed = place + 1 < len(parts) and parts[place + 1][0] == kind
        letters = ["I"] * length
        if scheme in ("IOB2", "IOBES", "BILOU") or (scheme == "IOB1" and follows):
            letters[0] = "B"
        if scheme in ("IOE2", "IOBES", "BILOU") or (scheme == "IOE1" and is_followed):
            letters[-1] = "L" if scheme == "BILOU" else "E"
        if length == 1 and scheme in ("IOBES", "BILOU"):
            letters = ["S" if scheme == "IOBES" else "U"]
        tags += [f"{letter}-{kind}" for letter in letters]
    return tuple(tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_tags_that_a_scheme_cannot_produce_are_marked(scheme):
    """Of all sequences of up to four tags, the others are those of all segmentations."""
    names = ["O", *(f"{letter}-{kind}" for letter in SCHEMES[scheme] for kind in "XY")]
    for words in range(1, 5):
        every = list(itertools.product(range(len(names)), repeat=words))
        marked = breaks(np.array(every), names, scheme).any(axis=1)
        unmarked = {
            tuple(names[i] for i in row) for row, m in zip(every, marked, strict=True) if not m
        }
        assert unmarked == {written(parts, scheme) for parts in segmentations(words)}


def test_the_place_between_two_words_is_marked_and_padding_is_not():
    names = ["B-X", "I-X", "I-Y", "O"]
    labels = np.array([[0, 1, -1, -1], [0, 2, 3, 1], [-1] * 4, [1, 3, 0, 1]])
    assert breaks(labels, names, "IOB2").astype(int).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
    ]
    assert breaks(labels[:1], names, "IOBES").astype(int).tolist() == [[0, 0, 1, 0, 0]]
    assert breaks(labels[:1], ["B-X", "L-X", "I-Y", "O"], "IOBES").any()  # another scheme's letter
