"""Corpora from pairs of questions, and MRR, recall and bytes against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from multitask.inference.search.search_quality import (
    Questions,
    compatible_lists,
    evaluate,
    interval_of_mean,
    read_questions,
    recall,
    reciprocal_ranks,
)
from multitask.inference.search.text_index import normalised
from multitask.utils.errors import UserError

pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")


def hashed(texts):
    return np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
    ).astype(np.float32)


def write(file, header, rows, separator="\t"):
    lines = [header, *rows]
    file.write_text("".join(separator.join(map(str, line)) + "\n" for line in lines))
    return file


def test_the_courses_file_is_keyed_by_exact_text(tmp_path):
    rows = [
        [0, "i", "a ?", "A ?", "1.0"],
        [1, "j", "a ?", "b ?", "1.0"],
        [2, "k", "c ?", "A ?", "0.0"],
        [3, "l", "c ?", "a ?", ""],  # no label: its texts count, gold is not known
        [4, "m", "", "d ?", "1.0"],  # an empty question is none
        [5, "n", "A ?", "b ?", "1.0"],
    ]
    header = ["", "id", "sentence1", "sentence2", "is_duplicate"]
    result = read_questions(write(tmp_path / "quora-dev.csv", header, rows))
    assert result.corpus == ["A ?", "b ?", "a ?"]
    assert result.queries == ["a ?", "c ?", "A ?"]
    assert result.gold == [{0, 1}, set(), {1}]
    assert not result.by_id and result.verbatim == 2


def test_quoras_file_is_keyed_by_id(tmp_path):
    header = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
    rows = [[0, 1, 2, "same", "one", 1], [1, 3, 4, "same", "one", 0], [2, 1, 4, "same", "one", 1]]
    result = read_questions(write(tmp_path / "quora.tsv", header, rows))
    assert result.corpus == ["one", "one"] and result.queries == ["same", "same"]
    assert result.gold == [{0, 1}, set()] and result.by_id
    comma = read_questions(write(tmp_path / "quora.csv", header, rows, ","))
    assert comma == result


def test_the_limit_is_of_pairs(tmp_path):
    header = ["question1", "question2", "is_duplicate"]
    rows = [["a", "x", 1], ["b", "x", 1], ["c", "z", 1], ["d", "x", 1]]
    result = read_questions(write(tmp_path / "q.tsv", header, rows), limit=3)
    assert result.corpus == ["x", "z"] and result.queries == ["a", "b", "c"]
    assert result.gold == [{0}, {0}, {1}]


@pytest.mark.parametrize(("level", "equal"), [(0.95, True), (0.9, False), (0.975, False)])
def test_the_interval_is_that_of_scipys_bootstrap(level, equal):
    apart = []  # in standard errors of the mean; several sets, as resamples are random
    for seed in range(20):
        values = np.random.default_rng(seed).choice([0, 0.25, 0.5, 1], size=400)
        result = bootstrap((values,), np.mean, method="percentile", confidence_level=level, rng=2)
        ends = np.subtract(interval_of_mean(values), tuple(result.confidence_interval))
        apart.append(ends / (values.std() / len(values) ** 0.5))
    # normal quantiles of 90 % and 97.5 % intervals are 0.3 from that of 95 %
    assert (np.abs(np.mean(apart, axis=0)) < 0.1).all() == equal


@pytest.mark.parametrize(
    ("header", "cells", "message"),
    [
        ("question1 question2", "a b", "expected the columns question1, question2 and"),
        ("question1 question2 is_duplicate", "a b 2", "row 1: is_duplicate is '2"),
        ("question1 question2 is_duplicate", "a b 0", "no duplicates"),
    ],
)
def test_a_pairs_file_that_does_not_fit_is_one_line(header, cells, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_questions(write(tmp_path / "q.tsv", header.split(), [cells.split()]))
    with pytest.raises(UserError, match="--pairs: no such file"):
        read_questions(tmp_path / "none.tsv")


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_mrr_and_recall_are_their_definitions(queries, corpus, seed):
    generator = np.random.default_rng(seed)
    top = min(10, corpus)
    places = np.stack([generator.permutation(corpus)[:top] for _ in range(queries)])
    gold = [set(np.flatnonzero(generator.random(corpus) < 0.3).tolist()) for _ in range(queries)]
    gold[0] = gold[0] or {0}
    inverse, shares = [], []
    for row, wanted in zip(places, gold, strict=True):
        if not wanted:
            continue
        rank = None
        for position in range(top):
            if rank is None and row[position] in wanted:
                rank = position + 1
        inverse.append(0 if rank is None else 1 / rank)
        shares.append(sum(1 for place in wanted if place in list(row)) / len(wanted))
    assert reciprocal_ranks(places, gold).tolist() == pytest.approx(inverse)
    assert recall(places, gold) == pytest.approx(sum(shares) / len(shares))


def test_the_papers_lists_are_kept_with_a_warning_where_texts_are_few():
    assert compatible_lists(39_936) == (1024, None)
    for count, lists, numbers in (
        (17_000, 1024, ("39,936", "17,000")),
        (1023, 26, ("1,024", "26")),
    ):
        made, warning = compatible_lists(count)
        assert made == lists and all(number in warning for number in numbers)
    assert compatible_lists(3)[0] == 1


def test_both_ways_of_search_are_measured_on_one_encoding():
    corpus = [f"text {i}" for i in range(1100)]
    queries = [f"text {i}" if i % 2 else f"question {i}" for i in range(60)]
    questions = Questions(corpus, queries, [{i} if i % 3 else set() for i in range(60)], False)
    calls = []

    def many(texts):
        calls.append(len(texts))
        return hashed(texts)

    result = evaluate(questions, hashed, many)
    assert calls == [1100, 60]
    c, q = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (hashed(corpus), hashed(queries)))
    order = np.argsort(-(q.astype(float) @ c.T.astype(float)), axis=1)[:, :10]
    exact = result["modes"]["exact"]
    reciprocals = reciprocal_ranks(order, questions.gold)
    assert exact["mrr_at_10"] == pytest.approx(reciprocals.mean())
    assert exact["mrr_interval"] == pytest.approx(interval_of_mean(reciprocals))
    by_seed = result["modes"]["compatible"]["mrr_by_seed"]
    assert len(by_seed) == 10
    assert "mrr_by_seed" not in exact
    assert exact["recall_at_10"] == pytest.approx(recall(order, questions.gold))
    assert exact["mrr_at_10"] >= 20 / 40  # a text finds itself
    assert result["lists"] == 1024 and "need 39,936 texts" in result["warning"]
    assert result["matrix_bytes"] == 1100 * 8 * 4
    # a header beside the vectors; ids and centroids on top for the lists
    assert result["matrix_bytes"] < exact["index_bytes"] < result["matrix_bytes"] + 100
    lists = result["modes"]["compatible"]["index_bytes"]
    assert lists > result["matrix_bytes"] + 1100 * 8 + 1024 * 8 * 4
    assert result["modes"]["compatible"]["recall_at_10"] <= exact["recall_at_10"] + 1e-9
    assert (result["queries_with_gold"], result["queries_in_corpus_verbatim"]) == (40, 30)


def test_seeds_of_k_means_give_other_lists():
    corpus, queries = ([f"{kind} {i}" for i in range(400)] for kind in ("text", "question"))
    vectors, asked = normalised(hashed(corpus)), normalised(hashed(queries))
    gold = [{place} for place in (asked @ vectors.T).argmax(axis=1).tolist()]
    modes = evaluate(Questions(corpus, queries, gold, False), hashed, hashed)["modes"]
    by_seed = modes["compatible"]["mrr_by_seed"]
    assert modes["exact"]["mrr_at_10"] == 1 and max(by_seed) < 1 and len(set(by_seed)) > 1
