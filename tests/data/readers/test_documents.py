"""Pairs of sentences from running text: what follows, what does not, and bad files."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config import DataConfig
from multitask.data.readers.documents import read_documents
from multitask.data.readers.tables import read_table
from multitask.utils.errors import UserError

FILE = Path("text.txt")
NAMES = ("first", "second", "label")


def joined(documents):
    return "\n\n".join("\n".join(document) for document in documents)


def pairs(documents):
    columns = read_documents(joined(documents), FILE, *NAMES)
    return list(zip(*(columns[name] for name in NAMES), strict=True))


sizes = st.lists(st.integers(1, 6), min_size=2, max_size=8).filter(lambda counts: max(counts) > 1)


@given(sizes)
def test_every_sentence_but_a_documents_last_begins_one_pair(counts):
    documents = [[f"{d}.{i}" for i in range(size)] for d, size in enumerate(counts)]
    made = pairs(documents)
    firsts = [first for first, _, _ in made]
    assert firsts == [sentence for document in documents for sentence in document[:-1]]
    for first, second, label in made:
        document, place = map(int, first.split("."))
        if label == "1":
            assert second == f"{document}.{place + 1}"
        else:
            assert label == "0" and int(second.split(".")[0]) != document


def test_half_of_the_pairs_follow_and_others_come_from_everywhere():
    documents = [[f"{d}.{i}" for i in range(41)] for d in range(50)]
    made = pairs(documents)
    assert made == pairs(documents), "drawn once"
    counts = Counter(label for _, _, label in made)
    assert 0.46 < counts["1"] / 2000 < 0.54
    sources = Counter(second.split(".")[0] for _, second, label in made if label == "0")
    assert len(sources) == 50 and max(sources.values()) < 60  # 20 each


@pytest.mark.parametrize(
    ("text", "problem"),
    [("\n \n", "no text"), ("one\ntwo", "one document"), ("one\n\ntwo\n", "two sentences")],
)
def test_files_without_pairs_are_refused(text, problem):
    with pytest.raises(UserError, match=rf"text.txt: .*{problem}"):
        read_documents(text, FILE, *NAMES)


def test_the_second_column_must_have_a_name(tmp_path):
    (tmp_path / "text.txt").write_text("a\nb\n\nc\n")
    with pytest.raises(UserError, match=r"data\.text2"):
        read_table(tmp_path / "text.txt", "documents", DataConfig(format="documents"))
