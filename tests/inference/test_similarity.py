"""Alignment, uniformity and mean cosine against their formulas as loops in float64."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.inference import similarity


def scaled(vector):
    return [float(x) / math.sqrt(sum(float(y) ** 2 for y in vector)) for x in vector]


def squared_distance(u, v):
    return sum((a - b) ** 2 for a, b in zip(scaled(u), scaled(v), strict=True))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_they_are_the_formulas_of_wang_and_isola(count, width, seed):
    vectors = np.random.default_rng(seed).normal(size=(count, width)) + 0.1
    others = np.random.default_rng(seed + 1).normal(size=(count, width))
    distances = [squared_distance(u, v) for u, v in zip(vectors, others, strict=True)]
    assert similarity.alignment(vectors, others) == pytest.approx(sum(distances) / count, abs=1e-10)
    pairs = list(itertools.combinations(vectors, 2))
    potential = sum(math.exp(-2 * squared_distance(u, v)) for u, v in pairs) / len(pairs)
    assert similarity.uniformity(vectors) == pytest.approx(math.log(potential), abs=1e-10)
    cosine = sum(1 - squared_distance(u, v) / 2 for u, v in pairs) / len(pairs)
    assert similarity.mean_cosine(vectors) == pytest.approx(cosine, abs=1e-10)


def test_chunks_leave_no_pair_out(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(23, 5))
    unchunked = similarity.uniformity(vectors)
    for size in (1, 4, 22):
        monkeypatch.setattr(similarity, "CHUNK", size)
        assert similarity.uniformity(vectors) == pytest.approx(unchunked, abs=1e-12)


def test_single_precision_is_close_to_double():
    vectors = np.random.default_rng(0).normal(size=(300, 16))
    for measure in (similarity.uniformity, similarity.mean_cosine):
        assert measure(vectors.astype(np.float32)) == pytest.approx(measure(vectors), rel=1e-5)


def test_the_extremes():
    same = np.ones((4, 3))
    assert similarity.mean_cosine(same) == pytest.approx(1)
    assert similarity.uniformity(same) == pytest.approx(0)
    assert similarity.alignment(same, same) == 0
    assert similarity.mean_cosine(np.eye(5)) == pytest.approx(0)
    assert similarity.uniformity(np.eye(5)) == pytest.approx(-4)


def test_without_pairs_there_is_no_number():
    empty = np.zeros((0, 3))
    assert math.isnan(similarity.alignment(empty, empty))
    assert math.isnan(similarity.uniformity(np.ones((1, 3))))
    assert math.isnan(similarity.mean_cosine(np.ones((1, 3))))


def test_cosines_are_those_of_each_row():
    generator = np.random.default_rng(0)
    both = generator.normal(size=(2, 9, 4))
    expected = [u @ v / (np.linalg.norm(u) * np.linalg.norm(v)) for u, v in zip(*both, strict=True)]
    np.testing.assert_allclose(similarity.cosines(*both), expected, atol=1e-6)
    assert similarity.cosines(np.zeros((1, 4)), np.ones((1, 4))) == [0]


def test_pairs_of_equal_sentences_are_tied_whatever_their_vectors():
    vectors = np.random.default_rng(0).normal(size=(500, 384)).astype(np.float32)
    nearly = np.nextafter(vectors, np.float32(9))
    assert set(similarity.cosines(vectors, nearly)) == {1.0}
