"""Scores by layer and pooling against `transformers` and scipy."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from scipy.stats import spearmanr

import run_multitask
from multitask.data.sts_suites import read_suites
from multitask.inference.analysis.sts_by_layer import FIRST_LAST, POOLINGS, score_layers
from multitask.inference.embeddings import open_vectors
from multitask.inference.similarity import cosines
from tests.conftest import save_tiny_encoder
from tests.support.sts_files import write_suites


@pytest.fixture(scope="module", autouse=True)
def blank_figures() -> None:
    """Figures are drawn here."""


def reference(directory: Path, text: str) -> dict[str, list[np.ndarray]]:
    """One text's vectors by pooling and layer, without any batch."""
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    layers = [state[0].numpy() for state in states.hidden_states]
    return {
        "cls": [layer[0] for layer in layers],
        "mean": [layer.mean(0) for layer in layers],
        "max": [layer.max(0) for layer in layers],
    }


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_vectors_are_those_of_transformers(kind, tmp_path):
    directory = save_tiny_encoder(tmp_path / kind, kind)
    texts = ["a good film", "the dog runs , not the cat that sleeps under the tree", "a"]
    actual = open_vectors(str(directory)).layers(texts)
    for text, vectors in zip(texts, actual, strict=True):
        expected = reference(directory, text)
        for place, pooling in enumerate(POOLINGS):
            np.testing.assert_allclose(vectors[place], expected[pooling], atol=2e-6)


def test_scores_are_spearmans_of_each_layer_and_of_all_pairs_together(tmp_path):
    suite = {"STS12": read_suites(write_suites(tmp_path))["STS12"]}

    def encode(texts, title=""):
        return np.stack(
            [np.random.default_rng(list(t.encode())).normal(size=(3, 3, 4)) for t in texts]
        )

    entry = score_layers(suite, encode)["STS12"]
    parts = {name: [rows] for name, rows in suite["STS12"].items()}
    parts["all"] = [*suite["STS12"].values()]
    for name, every in parts.items():
        gold = np.concatenate([rows.gold for rows in every])
        pairs = [pair for rows in every for pair in rows.texts]
        first, second = map(encode, zip(*pairs, strict=True))
        actual = entry["all"] if name == "all" else entry["subsets"][name]
        for place, pooling in enumerate(POOLINGS):
            for layer in range(3):
                cosines_there = cosines(first[:, place, layer], second[:, place, layer])
                expected = spearmanr(gold, cosines_there).statistic
                assert actual[pooling][layer] == pytest.approx(expected)
        ends = [side[:, 1, 1] + side[:, 1, 2] for side in (first, second)]
        assert actual[FIRST_LAST] == pytest.approx(spearmanr(gold, cosines(*ends)).statistic)


def test_the_command_writes_scores_and_pictures(tiny_run, tmp_path):
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    data = write_suites(tmp_path / "sts")
    assert run_multitask.main(["sts", str(run), "--data", str(data), "--layers"]) == 0
    layers, sts = (
        json.loads((run / "scores" / f"{name}.json").read_text()) for name in ("layers", "sts")
    )
    # the embeddings' [CLS] is always the same
    assert layers["suites"]["STS12"]["all"]["cls"][0] is None
    for name, entry in layers["suites"].items():  # the last layer is what the run's task pools
        expected = sts["suites"][name]["scores"]["all"]["spearman"]
        assert entry["all"][sts["pooling"]][-1] == pytest.approx(expected, abs=1e-6)
    for name in ("layers", "domains"):
        assert (run / "scores" / f"{name}.png").stat().st_size > 10_000
        assert (run / "scores" / f"{name}.svg").is_file()
