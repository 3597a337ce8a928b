"""Scores on the STS suites against scipy, numpy loops and sentence-transformers."""

import json
import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from multitask.data.overlap import row_key
from multitask.data.sts_suites import read_suites
from multitask.inference.embeddings import open_vectors
from multitask.inference.similarity import cosines
from multitask.inference.sts_scores import averages, score_suites
from multitask.models.packaged_weights import packaged_directory
from multitask.reporting.sts_report import average, headline
from multitask.tasks.rows import Rows
from tests.conftest import ROOT
from tests.support.sts_files import write_suites

SHARED = ROOT.parent / "shared"


def rows(pairs, labels):
    return Rows("file", [str(i) for i in range(len(pairs))], pairs, np.array(labels, float))


def among(*parts):
    """Find the pairs that are in these rows, by their texts."""
    keys = (row_key(texts) for part in parts for texts in part.texts)
    known = {pair for key in keys for pair in combinations(key, 2)}
    return lambda rows: np.array([row_key(texts) in known for texts in rows.texts])


def hashed(texts):
    """Vectors that depend on the text alone."""
    return np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
    ).astype(np.float32)


def naive_spearman(pairs, gold):
    similarity = cosines(*(hashed(side) for side in zip(*pairs, strict=True)))
    return spearmanr(gold, similarity).statistic


def test_all_mean_and_wmean_are_three_different_things():
    generator = np.random.default_rng(3)
    sizes = {"a": 40, "b": 10, "c": 25}
    subsets = {n: tuple(generator.normal(size=(2, size))) for n, size in sizes.items()}
    subsets["b"] = (subsets["b"][0], subsets["b"][0] + 5)  # shifted: harms `all` alone
    result = averages(subsets)
    for name, function in (("spearman", spearmanr), ("pearson", pearsonr)):
        alone = {n: function(*both).statistic for n, both in subsets.items()}
        gold = [x for both in subsets.values() for x in both[0]]
        similarity = [x for both in subsets.values() for x in both[1]]
        assert result["all"][name] == pytest.approx(function(gold, similarity).statistic)
        assert result["mean"][name] == pytest.approx(sum(alone.values()) / 3)
        weighted = sum(sizes[n] * value for n, value in alone.items()) / 75
        assert result["wmean"][name] == pytest.approx(weighted)
        for subset, value in alone.items():
            assert result["subsets"][subset][name] == pytest.approx(value)
    assert len({round(result[how]["spearman"], 6) for how in ("all", "mean", "wmean")}) == 3


def test_each_distinct_sentence_is_encoded_once(tmp_path):
    suites = read_suites(write_suites(tmp_path))
    calls = []

    def encode(texts):
        calls.append(list(texts))
        return hashed(texts)

    result = score_suites(suites, encode)
    (texts,) = calls
    assert len(texts) == len(set(texts))
    suite = suites["STS12"]
    pairs = [pair for rows in suite.values() for pair in rows.texts]
    gold = np.concatenate([rows.labels for rows in suite.values()])
    expected = pytest.approx(naive_spearman(pairs, gold))
    assert result["STS12"]["scores"]["all"]["spearman"] == expected
    assert result["STS12"]["in_training"] is None and result["STS12"]["clean"] is None
    assert average(result) == pytest.approx(
        sum(entry["scores"]["all"]["spearman"] for entry in result.values()) / 7
    )


def test_pairs_seen_in_training_are_counted_and_left_out():
    pairs = [("a b", "c"), ("d", "e"), ("f", "g"), ("h", "i"), ("j", "k"), ("d", "k")]
    suite = {"x": rows(pairs, [0, 1, 2, 3, 4, 5])}
    training = [
        rows([("c", " a  b "), ("e", "x")], [0, 0]),  # the other order, other white space
        rows([("d", "f", "g")], [0]),  # a triplet holds three pairs
        rows([("h",), ("i",)], [0, 0]),  # single texts are no pair
    ]
    entry = score_suites({"STS12": suite}, hashed, among(*training))["STS12"]
    assert entry["in_training"] == 2
    unseen = [pairs[i] for i in (1, 3, 4, 5)]
    assert headline(entry) is entry["clean"]
    assert entry["clean"]["pairs"] == 4
    expected = pytest.approx(naive_spearman(unseen, [1, 3, 4, 5]))
    assert entry["clean"]["all"]["spearman"] == expected
    assert entry["scores"]["pairs"] == 6
    alone = score_suites({"STS12": {"x": rows(unseen, [1, 3, 4, 5])}}, hashed)["STS12"]
    assert entry["space"] == alone["space"] and entry["space"]["alignment"] > 0


def test_a_run_that_saw_none_of_the_pairs_headlines_all_of_them():
    suite = {"x": rows([("a", "b"), ("c", "d")], [1, 2])}
    entry = score_suites({"STS12": suite}, hashed, among(rows([("e", "f")], [0])))["STS12"]
    assert (entry["in_training"], entry["clean"]) == (0, None)
    assert headline(entry) is entry["scores"]


def test_a_subset_that_was_seen_completely_is_left_out_of_the_clean_averages():
    suite = {
        "x": rows([("a", "b")], [1]),
        "y": rows([("c", "d"), ("e", "f"), ("g", "h")], [1, 2, 3]),
    }
    entry = score_suites({"STS12": suite}, hashed, among(rows([("a", "b")], [0])))["STS12"]
    assert list(entry["clean"]["subsets"]) == ["y"]
    assert math.isfinite(entry["clean"]["mean"]["spearman"])
    everything = [rows([pair for score in suite.values() for pair in score.texts], [0] * 4)]
    entry = score_suites({"STS12": suite}, hashed, among(*everything))["STS12"]
    assert entry["in_training"] == 4 and math.isnan(headline(entry)["all"]["spearman"])
    assert all(map(math.isnan, entry["space"].values()))


def test_positive_pairs_and_distinct_sentences_make_the_space():
    pairs = [("a", "b"), ("a", "c"), ("d", "b")]
    entry = score_suites({"STS12": {"x": rows(pairs, [4.5, 4.0, 5.0])}}, hashed)["STS12"]
    a, b, c, d = (v / np.linalg.norm(v) for v in hashed(["a", "b", "c", "d"]).astype(float))
    expected = (np.square(a - b).sum() + np.square(d - b).sum()) / 2  # above 4 alone
    assert entry["space"]["alignment"] == pytest.approx(expected, rel=1e-5)
    cosine = np.mean([a @ b, a @ c, a @ d, b @ c, b @ d, c @ d])
    assert entry["space"]["mean_cosine"] == pytest.approx(cosine, rel=1e-5)


def test_without_a_suite_there_is_no_avg():
    suite = {"x": rows([("a", "b"), ("c", "d")], [1, 2])}
    assert average(score_suites({"STS12": suite}, hashed)) is None


@pytest.mark.slow
def test_real_suites_have_the_scores_of_sentence_transformers():
    """Its stored scores, and those that it computes; benchmarks/sts_parity.py compares all."""
    peers = pytest.importorskip("sentence_transformers", reason="it is a dev requirement")
    folder = SHARED / "data" / "sts"
    if not folder.is_dir():
        pytest.skip(f"the suites are not at hand ({folder})")
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    reference = json.loads((SHARED / "sts_reference.json").read_text())
    every = read_suites(folder)
    suites = {name: every[name] for name in ("STS13", "STS16")}
    result = score_suites(suites, open_vectors("packaged-minilm").encode)
    ours = {}
    for suite, subsets in suites.items():
        scores = result[suite]["scores"]
        ours[suite] = scores["all"]["spearman"]
        ours |= {f"{suite}/{n}": scores["subsets"][n]["spearman"] for n in subsets}
    assert ours == pytest.approx({name: reference[name] for name in ours}, abs=1e-4)
    transformer = Transformer(str(packaged_directory()), max_seq_length=128)
    modules = [transformer, Pooling(384, "mean")]
    peer = peers.SentenceTransformer(modules=modules, device="cpu")
    for suite, name in (("STS13", "FNWN"), ("STS16", "question-question")):  # the smallest
        rows = suites[suite][name]
        first, second = ([pair[side] for pair in rows.texts] for side in (0, 1))
        evaluator = EmbeddingSimilarityEvaluator(first, second, rows.gold.tolist())
        theirs = evaluator(peer)["spearman_cosine"]
        assert ours[f"{suite}/{name}"] == pytest.approx(theirs, abs=1e-4), name
