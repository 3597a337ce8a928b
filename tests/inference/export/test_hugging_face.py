"""`transformers` and `sentence-transformers` give the run's numbers, or an export is refused."""

import json

import numpy as np
import pytest
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from multitask import load
from multitask.inference.embeddings import open_vectors
from tests.conftest import save_tiny_encoder
from tests.support.exports import PAIRS, TEXTS, main, outputs, trained


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert"])
def test_transformers_classifies_as_the_run_does(kind, run_dir, special, course_files, tmp_path):
    source, target = {"bert": run_dir, "roberta": special}.get(kind), tmp_path / "model"
    if source is None:
        encoder = save_tiny_encoder(tmp_path / "encoder", kind)
        changes = ["tasks.sst.projection=tanh", "tasks.qqp=null", "tasks.sts=null"]
        source = trained(tmp_path / "run", encoder, course_files, *changes)
    assert main(source, target, "--format", "transformers", "--task", "sst") == 0
    result = outputs(AutoModelForSequenceClassification, target, [(text,) for text in TEXTS])
    for one, other in zip(result, load(source).predict("sst", TEXTS), strict=True):
        np.testing.assert_allclose(one.logits.softmax(-1)[0], other["scores"], atol=1e-4)
    config = json.loads((target / "config.json").read_text())
    assert (config["model_type"], config["id2label"]["1"]) == (kind, "somewhat negative")
    assert not list(target.glob("*.bin"))


def test_transformers_gives_a_cross_encoded_number_on_the_label_scale(run_dir, tmp_path):
    assert main(run_dir, tmp_path / "model", "--format", "transformers", "--task", "sts") == 0
    result = outputs(AutoModelForSequenceClassification, tmp_path / "model", PAIRS)
    wanted = [one["prediction"] for one in load(run_dir).predict("sts", PAIRS)]
    numbers = np.array([one.logits.item() for one in result])
    np.testing.assert_allclose(numbers.clip(0, 5), wanted, atol=1e-4)
    assert numbers.max() > 5, "the export clips"


def test_a_binary_task_has_two_labels_in_transformers(special_binary, tmp_path):
    """Their names, and the probability that the run gives the predicted one."""
    target = tmp_path / "model"
    assert main(special_binary, target, "--format", "transformers", "--task", "qqp") == 0
    result = outputs(AutoModelForSequenceClassification, target, PAIRS)
    wanted = load(special_binary).predict("qqp", PAIRS)
    shares = np.array([one.logits[0].softmax(-1).tolist() for one in result])
    np.testing.assert_allclose(shares, [one["scores"] for one in wanted], atol=1e-4)

    classify = pipeline("text-classification", str(target))
    for (first, other), one in zip(PAIRS, wanted, strict=True):
        said = classify({"text": first, "text_pair": other})
        assert said["label"] == one["name"]
        assert said["score"] == pytest.approx(max(one["scores"]), abs=1e-4)
    card = (target / "README.md").read_text()
    assert "One logit per class (different, paraphrase). Their softmax" in card


def test_the_encoder_alone_has_the_tasks_weights(run_dir, tmp_path):
    target = tmp_path / "model"
    given = ("--format", "transformers", "--task", "qqp", "--encoder-only")
    assert main(run_dir, target, *given) == 0
    result = outputs(AutoModel, target, [(text,) for text in TEXTS])
    means = [one.last_hidden_state[0].mean(0).numpy() for one in result]
    np.testing.assert_allclose(means, load(run_dir).encode(TEXTS, task="qqp"), atol=1e-5)


def test_sentence_transformers_gives_the_runs_vectors(run_dir, contrastive_run, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    for number, (source, task, parts) in enumerate(
        [(run_dir, "qqp", 2), (run_dir, "sst", 2), (contrastive_run, "views", 3)]
    ):
        target = tmp_path / str(number)
        given = ("--format", "sentence-transformers", "--task", task)
        assert main(source, target, *given) == 0
        model = library.SentenceTransformer(str(target), device="cpu")
        assert len(list(model)) == parts  # a contrastive task's projection is one more
        result, wanted = model.encode(TEXTS), load(source).encode(TEXTS, task=task)
        np.testing.assert_allclose(result, wanted, atol=1e-5)
        assert model.max_seq_length == 40
        assert "library_name: sentence-transformers" in (target / "README.md").read_text()


def test_another_pooling_is_exported_after_training(contrastive_run, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    changes = [f"tasks.{task}.eval_pooling=max" for task in ("views", "sts")]
    given = ("--format", "sentence-transformers", "--task", "views")
    assert main(contrastive_run, tmp_path / "model", *changes, *given) == 0
    result = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    run = load(contrastive_run, changes)
    np.testing.assert_allclose(result, run.encode(TEXTS, task="views"), atol=1e-5)
    assert np.abs(result - load(contrastive_run).encode(TEXTS, task="views")).max() > 0.01
    vectors = open_vectors(str(contrastive_run), task="views", overrides=changes)
    assert vectors.pooling == "max"
    card = (tmp_path / "model" / "README.md").read_text()
    assert "exported with other settings" in card and "eval_pooling:\n      name: max" in card
