"""Texts that look alike have one key, and their difference is told in code points."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.utils.look_alikes import INVISIBLE, difference, look, looks_like

# zero-width space and joiner, soft hyphen, byte order mark, directional marks, variation selectors
HIDDEN = "\u200b\u200d\xad\ufeff\u200e\u202e\u2060\ufe0f\U000e0101\u034f\u3164\x07"
SPACES = "\xa0\u2009\u202f\u3000\t\u2028"


@given(
    st.lists(st.text(alphabet="aéößñ한ﬁ①", min_size=1), min_size=1),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    st.text(alphabet=SPACES, min_size=1),
    st.data(),
)
def test_other_forms_spaces_and_hidden_characters_look_the_same(words, form, space, data):
    other = unicodedata.normalize(form, space.join(words)).upper()
    place = data.draw(st.integers(0, len(other)))
    hidden = data.draw(st.text(alphabet=HIDDEN))
    assert look(other[:place] + hidden + other[place:]) == look(" ".join(words))


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "b"), ("très", "tres"), ("ab", "a b"), ("1_1", "11"), ("a", "а"), ("+", "-"), ("", "0")],
)
def test_what_does_not_look_the_same(one, other):
    assert look(one) != look(other)


def test_everything_hidden_has_no_width():
    assert INVISIBLE.sub("", HIDDEN) == "" == look(HIDDEN + SPACES)


@pytest.mark.parametrize(
    ("text", "other", "points"),
    [
        ("tre\u0300s", "tr\xe8s", "U+0065 U+0300 instead of U+00E8"),
        ("tr\xe8s", "tre\u0300s", "U+00E8 instead of U+0065 U+0300"),
        ("a\xa0b", "a b", "U+00A0 instead of U+0020"),
        ("a\u200bb", "ab", "U+200B added"),
        ("ab", "ab\ufeff", "U+FEFF left out"),
        ("\u200ba\xa0b", "a b", "U+200B added, U+00A0 instead of U+0020"),
        ("\U0001f600\ufe0f", "\U0001f600", "U+FE0F added"),
        ("Good ", "good", ""),  # a reader sees this in quotes
        ("a\x07", "a", "U+0007 added"),
    ],
)
def test_the_code_points_of_a_difference(text, other, points):
    assert difference(text, other) == points
    assert difference(text, text) == ""


@given(st.text(), st.text())
def test_the_difference_of_any_texts_is_printable(one, other):
    assert difference(one, other).isascii() and difference(one, other).isprintable()


def test_the_known_text_that_looks_the_same_is_named():
    assert looks_like("a\u200b", ["b", "a"]) == "; it looks like 'a', but has U+200B added"
    assert looks_like("A", ["b", "a"]) == looks_like("c", ["b", "a"]) == ""
