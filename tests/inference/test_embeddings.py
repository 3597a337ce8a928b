"""Sentence vectors of a run's task and of a bare encoder."""

import numpy as np
import pytest
import torch
import transformers

from multitask import load
from multitask.inference.embeddings import open_vectors
from multitask.utils.errors import UserError

TEXTS = ["the cat sees a dog", "a good film", "."]


def test_a_run_gives_the_vectors_of_its_task_in_fp32(tiny_run):
    vectors = open_vectors(str(tiny_run))
    assert (vectors.task, vectors.pooling, vectors.max_length) == ("qqp", "mean", 48)
    expected = load(tiny_run, ["training.precision=fp32"]).encode(TEXTS, "qqp")
    np.testing.assert_array_equal(vectors.encode(TEXTS), expected)
    assert vectors.dim == 32
    assert vectors.describe() == f"{tiny_run}, task qqp, mean pooling"
    assert vectors.scores_directory == tiny_run / "scores"
    assert vectors.facts()["of"] == vectors.describe()


@pytest.mark.parametrize("pooling", [None, "max"])
def test_an_encoder_is_pooled_as_transformers_would(tiny_encoder, pooling):
    vectors = open_vectors(str(tiny_encoder), pooling=pooling, max_length=10)
    model = transformers.AutoModel.from_pretrained(tiny_encoder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_encoder)
    for text, actual in zip(TEXTS, vectors.encode(TEXTS), strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected = states.mean(0) if pooling is None else states.amax(0)
        np.testing.assert_allclose(actual, expected, atol=1e-5)
    assert vectors.known_rows() == ([], []) and vectors.task is None


@pytest.mark.parametrize("size", [None, 5])
def test_layers_end_with_what_the_last_layer_gives(size, tiny_encoder):
    vectors = open_vectors(str(tiny_encoder)).cut(size)
    assert vectors.layers(TEXTS).shape == (len(TEXTS), 3, 3, size or 32)
    np.testing.assert_allclose(
        vectors.layers(TEXTS)[:, 1, -1], vectors.encode(TEXTS), atol=1e-5
    )  # the second pooling is the mean


def test_the_fingerprint_is_of_what_vectors_depend_on(tiny_run):
    def fingerprint(**settings):
        return open_vectors(str(tiny_run), **settings).fingerprint()

    first = fingerprint()
    assert first == fingerprint(task="qqp")
    others = [fingerprint(task="sts"), fingerprint(pooling="max"), fingerprint(max_length=20)]
    assert len({first, *others}) == 4
    vectors = open_vectors(str(tiny_run))
    vectors.encode(TEXTS)  # the tokenizer's state has no part in it
    assert vectors.fingerprint() == first
    with torch.no_grad():
        next(vectors.scorer.model.parameters()).add_(1)
    assert vectors.fingerprint() != first


def test_the_rows_that_the_run_knows(tiny_run, course_run):
    trained, selecting = open_vectors(str(tiny_run)).known_rows()
    assert [len(split.rows) for split in trained] == [40] * 3
    assert [len(split.rows) for split in selecting] == [12] * 3
    trained, selecting = open_vectors(str(course_run)).known_rows()  # a holdout selects
    assert sorted(len(split.rows) for split in trained) == [8, 8, 8, 32, 32, 32]
    assert selecting == []


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("tiny_run", {"task": "nli"}, "no task 'nli'"),
        ("tiny_run", {"pooling": "tokens"}, "--pooling: "),
        ("tiny_run", {"pooling": "hire"}, "--pooling: "),
        ("tiny_run", {"pooling": "men"}, r"--pooling: .*did you mean 'mean'"),
        ("tiny_encoder", {"task": "sst"}, "config.yaml is missing.*--task"),
        ("tiny_encoder", {"overrides": ["device=cpu"]}, "so device=cpu has no use"),
        ("tmp_path", {}, "neither a run .* nor an encoder"),
    ],
)
def test_what_gives_no_vectors_is_refused(source, settings, message, request):
    with pytest.raises(UserError, match=message):
        open_vectors(str(request.getfixturevalue(source)), **settings)
