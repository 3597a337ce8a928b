"""The CoNLL column format."""

from pathlib import Path

import pytest

from multitask.data.readers.conll import read_conll
from multitask.utils.errors import UserError

FILE = Path("x.conll")


def read(text):
    return read_conll(text, FILE, "tokens", "ner_tags")


def test_first_and_last_column_by_sentence():
    text = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\n# CD I-NP O\r\n"
    assert read(text) == {
        "tokens": [["EU", "rejects"], ["#"]],
        "ner_tags": [["B-ORG", "O"], ["O"]],
    }


def test_tabs_and_words_with_other_white_space():
    assert read("New\u00a0York\tB-LOC\n") == {
        "tokens": [["New\u00a0York"]],
        "ner_tags": [["B-LOC"]],
    }


def test_one_column_is_words_without_tags():
    assert read("a\nb\n\nc") == {"tokens": [["a", "b"], ["c"]]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "x.conll, line 2: 1 columns, but 2 in the lines before"),
        ("\n-DOCSTART- O\n\n", "x.conll: the file is empty"),
    ],
)
def test_damaged_files_are_told_with_their_line(text, message):
    with pytest.raises(UserError, match=message):
        read(text)
