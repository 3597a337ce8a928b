"""A model that `transformers` loads gives the run's scores, or is refused by its key."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from heads.ordinal import OrdinalHead
from multitask import UserError, load
from multitask.config import BitLinearConfig
from tests.conftest import save_tiny_encoder
from tests.support.exports import PAIRS, TEXTS, main, outputs, trained


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_transformers_classifies_as_the_run_does(kind, run_dir, special, tmp_path):
    from transformers import AutoModelForSequenceClassification

    source = {"bert": run_dir, "roberta": special}[kind]
    target = tmp_path / "model"
    assert main(source, target, "--format", "transformers", "--task", "sst") == 0
    result = outputs(AutoModelForSequenceClassification, target, [(text,) for text in TEXTS])
    wanted = load(source).predict("sst", TEXTS)
    for one, other in zip(result, wanted, strict=True):
        np.testing.assert_allclose(one.logits.softmax(-1)[0], other["scores"], atol=1e-4)
    config = json.loads((target / "config.json").read_text())
    assert config["id2label"]["1"] == "somewhat negative"
    assert not list(target.glob("*.bin"))


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_relatives_of_roberta_classify_as_the_run_does(kind, course_files, tmp_path):
    from transformers import AutoModelForSequenceClassification

    encoder = save_tiny_encoder(tmp_path / "encoder", kind)
    changes = ["tasks.sst.projection=tanh", "tasks.qqp=null", "tasks.sts=null"]
    source = trained(tmp_path / "run", encoder, course_files, *changes)
    target = tmp_path / "model"
    assert main(source, target, "--format", "transformers", "--task", "sst") == 0
    assert json.loads((target / "config.json").read_text())["model_type"] == kind
    result = outputs(AutoModelForSequenceClassification, target, [(text,) for text in TEXTS])
    for one, other in zip(result, load(source).predict("sst", TEXTS), strict=True):
        np.testing.assert_allclose(one.logits.softmax(-1)[0], other["scores"], atol=1e-4)


def test_transformers_gives_a_cross_encoded_number_on_the_label_scale(run_dir, tmp_path):
    from transformers import AutoModelForSequenceClassification

    assert main(run_dir, tmp_path / "model", "--format", "transformers", "--task", "sts") == 0
    result = outputs(AutoModelForSequenceClassification, tmp_path / "model", PAIRS)
    wanted = [one["prediction"] for one in load(run_dir).predict("sts", PAIRS)]
    numbers = np.array([one.logits.item() for one in result])
    np.testing.assert_allclose(numbers.clip(0, 5), wanted, atol=1e-4)
    assert numbers.max() > 5, "the export clips"


def test_a_binary_task_has_two_labels_in_transformers(special_binary, tmp_path):
    """Their names, and the probability that the run gives the predicted one."""
    from transformers import AutoModelForSequenceClassification, pipeline

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
    from transformers import AutoModel

    target = tmp_path / "model"
    given = ("--format", "transformers", "--task", "qqp", "--encoder-only")
    assert main(run_dir, target, *given) == 0
    result = outputs(AutoModel, target, [(text,) for text in TEXTS])
    means = [one.last_hidden_state[0].mean(0).numpy() for one in result]
    np.testing.assert_allclose(means, load(run_dir).encode(TEXTS, task="qqp"), atol=1e-5)


def test_a_classifier_that_transformers_has_not_is_refused(run_dir):
    from multitask.inference.export.export_parts import Parts
    from multitask.inference.export.hugging_face import check_classifier

    run = load(run_dir)
    model = run.model_for("sst")
    parts = Parts(run.config, "sst", model, run.tokenizer, run.readers["sst"])
    check_classifier(parts)
    model.tasks["sst"].projection = torch.nn.Identity()
    task = run.config.tasks["sst"].model_copy(update={"projection": None})
    parts = replace(parts, config=run.config.model_copy(update={"tasks": {"sst": task}}))
    with pytest.raises(UserError, match=r"^tasks\.sst\.projection: none: transformers puts tanh"):
        check_classifier(parts)
    model.tasks["sst"].head = OrdinalHead(32, 5)
    parts = replace(parts)
    with pytest.raises(UserError, match=r"^tasks\.sst\.head: .*: no sequence classifier"):
        check_classifier(parts)
    encoder = run.config.encoder.model_copy(update={"bitlinear": BitLinearConfig()})
    parts = replace(parts, config=run.config.model_copy(update={"encoder": encoder}))
    with pytest.raises(UserError, match=r"^encoder\.bitlinear: the encoder's layers have ternary"):
        check_classifier(parts)
