"""sentence-transformers computes the vectors of the run from an export."""

import numpy as np
import pytest
import torch

from multitask import load
from multitask.inference.embeddings import open_vectors
from tests.support.exports import TEXTS, main


def test_sentence_transformers_gives_the_runs_vectors(run_dir, contrastive, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    for number, (source, task, parts) in enumerate(
        [(run_dir, "qqp", 2), (run_dir, "sst", 2), (contrastive, "views", 3)]
    ):
        target = tmp_path / str(number)
        given = ("--format", "sentence-transformers", "--task", task)
        assert main(source, target, *given) == 0
        model = library.SentenceTransformer(str(target), device="cpu")
        assert (
            len(list(model)) == parts
        )  # the projection of a contrastive task is a separate module
        result, wanted = model.encode(TEXTS), load(source).encode(TEXTS, task=task)
        np.testing.assert_allclose(result, wanted, atol=1e-5)
        assert model.max_seq_length == 40
        assert "library_name: sentence-transformers" in (target / "README.md").read_text()


def test_another_pooling_is_exported_after_training(contrastive, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    changes = [f"tasks.{task}.eval_pooling=max" for task in ("views", "sts")]
    given = ("--format", "sentence-transformers", "--task", "views")
    assert main(contrastive, tmp_path / "model", *changes, *given) == 0
    result = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    run = load(contrastive, changes)
    np.testing.assert_allclose(result, run.encode(TEXTS, task="views"), atol=1e-5)
    assert np.abs(result - load(contrastive).encode(TEXTS, task="views")).max() > 0.01
    vectors = open_vectors(str(contrastive), task="views", overrides=changes)
    assert vectors.pooling == "max"
    card = (tmp_path / "model" / "README.md").read_text()
    assert "exported with other settings" in card and "eval_pooling:\n      name: max" in card


def test_a_batch_norm_is_folded_into_its_linear_layer():
    from multitask.inference.export.sentences import _folded

    torch.manual_seed(0)
    linear, norm = torch.nn.Linear(5, 7, bias=False), torch.nn.BatchNorm1d(7)
    with torch.no_grad():
        for given in (norm.weight, norm.bias, norm.running_mean):
            given.normal_()
        norm.running_var.uniform_(0.1, 3)
        x = torch.randn(4, 5)
        weight, bias = _folded(linear, norm)
        result = x.double() @ weight.T + bias
        np.testing.assert_allclose(result, norm.eval()(linear(x)), atol=1e-5)
