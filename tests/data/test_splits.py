"""The held-out slice of the training rows."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multitask.data.overlap import row_key
from multitask.data.splits import held_out
from multitask.tasks.rows import Rows


def rows_of(*texts: str | tuple[str, ...], labels: list | None = None) -> Rows:
    tuples = [(text,) if isinstance(text, str) else text for text in texts]
    result = None if labels is None else np.array(labels)
    return Rows("file", [str(i) for i in range(len(tuples))], tuples, result)


def texts(rows: Rows) -> list[str]:
    return [text for (text,) in rows.texts]


def split(rows: Rows, share: float, encoded: list | None = None) -> tuple[Rows, Rows]:
    """Train and holdout; without ``encoded`` the encoder tells all texts apart."""
    held = held_out(rows, encoded or [row_key(texts) for texts in rows.texts], share)
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


@given(
    words=st.lists(st.sampled_from([f"w{i}" for i in range(40)]), min_size=1, max_size=80),
    share=st.floats(0.05, 0.6),
)
def test_holdout_divides_the_rows(words, share):
    rows = rows_of(*words, labels=list(range(len(words))))
    trained, held = split(rows, share)
    # every row once, in file order, with its own id and label
    assert sorted([*trained.ids, *held.ids], key=int) == rows.ids
    for part in (trained, held):
        numbers = [int(name) for name in part.ids]
        assert numbers == sorted(numbers)
        assert part.labels.tolist() == numbers
        assert texts(part) == [words[i] for i in numbers]
    # equal texts stand on one side, and the size is that share of the distinct ones
    assert not set(texts(trained)) & set(texts(held))
    assert len(set(texts(held))) == round(share * len(set(words)))
    assert split(rows, share)[1].ids == held.ids


def test_holdout_keeps_a_pair_and_its_mirror_together():
    pairs = [(f"a{i}", f"b{i}") for i in range(20)]
    trained, held = split(rows_of(*pairs, *[(b, a) for a, b in pairs]), 0.3)
    assert len(held) == 12
    assert Counter(map(row_key, held.texts)).most_common()[-1][1] == 2
    assert len(trained) == 28


def test_rows_that_are_equal_for_the_encoder_stay_together():
    """And the rows without an equal one stay where they were."""
    names = [f"w{i}" for i in range(60)]
    rows = rows_of(*names, *(name.upper() for name in names[:20]))
    trained, held = split(rows, 0.3, [text.casefold() for text in texts(rows)])
    assert not {text.casefold() for text in texts(trained)} & {t.casefold() for t in texts(held)}
    before = set(split(rows, 0.3)[1].ids)
    assert before < set(held.ids)
    added = {int(name) for name in set(held.ids) - before}
    assert added and all(i < 20 or i >= 60 for i in added)


def test_holdout_is_drawn_at_random_but_always_the_same():
    rows = rows_of(*(f"w{i}" for i in range(1000)))
    held = [int(name) for name in split(rows, 0.1)[1].ids]
    assert len(held) == 100
    assert 350 < np.mean(held) < 650  # from all over the file
    np.random.seed(5)
    assert [int(name) for name in split(rows, 0.1)[1].ids] == held
