"""onnxruntime computes the scores of the run from an export, and in int8 nearly the same."""

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from multitask import load
from multitask.inference.export.onnx import PlainTasks
from multitask.inference.export.write_export import TEXTS as EXAMPLES
from multitask.inference.similarity import cosines
from multitask.models.encoders.bert_weights import encoder_from_pretrained
from multitask.models.poolers.mean import MeanPooler
from tests.support.exports import PAIRS, TEXTS, complaint, graph, main, trained
from tests.support.tiny_bert import ragged, random_checkpoint


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_padded_module_reads_a_pad_token_in_a_text_as_the_encoder_does(kind, tmp_path):
    encoder = encoder_from_pretrained(str(random_checkpoint(tmp_path, kind))).eval()
    pooler = MeanPooler(32, 2)
    none = dict.fromkeys(("adapter", "projection", "head", "chooses"))
    parts = SimpleNamespace(encoder=encoder, pooler=pooler, embeds=True, sides=1, **none)
    ids, types, mask = ragged([9, 4, 2, 17])
    ids[:, 1] = encoder.config.pad_token_id
    with torch.no_grad():
        states = encoder.encode(encoder.embed(ids, types, mask), mask, (2,))
        (result,) = PlainTasks([parts])(ids, mask, types)
    torch.testing.assert_close(result, pooler(states, mask), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_onnx_and_its_int8_variant_score_siamese_pairs(onnx, run_dir, tmp_path, capsys):
    target = tmp_path / "model"
    assert main(run_dir, target, "--format", "onnx", "--task", "qqp", "--int8") == 0
    said = capsys.readouterr().out
    assert "int8 on 12 dev rows: accuracy" in said and "rows/s" in said
    card = (target / "README.md").read_text()
    assert "int8 on 12 dev rows: accuracy" in card
    assert all("int8 scores of a text depend on its batch" in text for text in (said, card))
    reading = "One logit per row. Its sigmoid is the probability of paraphrase."
    session = pytest.importorskip("onnxruntime").InferenceSession(target / "model.onnx")
    assert reading in card and session.get_modelmeta().custom_metadata_map["reading"] == reading
    wanted = [one["scores"][1] for one in load(run_dir).predict("qqp", PAIRS)]
    for rows in (slice(0, 1), slice(0, 3)):
        result = graph(target / "model.onnx", PAIRS[rows])
        np.testing.assert_allclose(1 / (1 + np.exp(-result)), wanted[rows], atol=1e-4)
    small = graph(target / "model_int8.onnx", PAIRS)
    np.testing.assert_allclose(1 / (1 + np.exp(-small)), wanted, atol=0.1)
    sizes = [(target / name).stat().st_size for name in ("model_int8.onnx", "model.onnx")]
    assert sizes[0] < sizes[1]


@pytest.mark.slow
def test_int8_without_labelled_dev_rows_gives_the_largest_difference(
    onnx, run_dir, tmp_path, capsys
):
    run, target = shutil.copytree(run_dir, tmp_path / "run"), tmp_path / "model"
    shutil.rmtree(run / "predictions")
    assert main(run, target, "--format", "onnx", "--task", "qqp", "--int8") == 0
    said = capsys.readouterr().out
    most = float(re.search(r"int8 on 3 rows: logits differ by (\S+) at most", said)[1])
    rows = [(text, EXAMPLES[0]) for text in EXAMPLES]
    plain, small = (graph(target / name, rows) for name in ("model.onnx", "model_int8.onnx"))
    assert 0 < most == pytest.approx(np.abs(plain - small).max(), rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "ordinal", "layer_attention"])
def test_onnx_gives_a_classifiers_scores(onnx, kind, run_dir, tiny_encoder, course_files, tmp_path):
    source = run_dir
    key = {"ordinal": "head", "layer_attention": "pooling"}.get(kind)
    if key is not None:
        changes = [f"tasks.sst.{key}={kind}", "tasks.qqp=null", "tasks.sts=null"]
        source = trained(tmp_path / "run", tiny_encoder, course_files, *changes)
    target = tmp_path / "model"
    assert main(source, target, "--format", "onnx", "--task", "sst") == 0
    result = torch.from_numpy(graph(target / "model.onnx", [(text,) for text in TEXTS]))
    wanted = [one["scores"] for one in load(source).predict("sst", TEXTS)]
    head = load(source).model_for("sst").tasks["sst"].head
    np.testing.assert_allclose(head.predict(result)[1], wanted, atol=1e-4)


@pytest.mark.slow
def test_onnx_carries_an_adapter_and_a_pooling_with_weights(onnx, special, tmp_path):
    target = tmp_path / "model"
    assert main(special, target, "--format", "onnx", "--task", "sts") == 0
    wanted = [one["prediction"] for one in load(special).predict("sts", PAIRS)]
    result = graph(target / "model.onnx", PAIRS, cross=True)
    np.testing.assert_allclose(np.clip(result, 0, 5), wanted, atol=1e-4)  # exports do not clip


@pytest.mark.slow
def test_onnx_carries_the_adapter_of_the_task(onnx, tiny_encoder, course_files, tmp_path):
    pal = "adapter={name: pal, size: 12, heads: 4}"
    changes = ["tasks.sts=null", f"tasks.sst.{pal}", f"tasks.qqp.{pal}", "tasks.qqp.input=cross"]
    changes += ["tasks.qqp.head=binary", "training.adapter_lr=0.05", "training.max_steps=4"]
    source = trained(tmp_path / "run", tiny_encoder, course_files, *changes)
    logits, plain, swapped = {}, {}, {}
    for task, rows in (("sst", TEXTS), ("qqp", PAIRS)):
        assert main(source, tmp_path / task, "--format", "onnx", "--task", task) == 0
        cross = task == "qqp"
        given = rows if cross else [(text,) for text in rows]
        logits[task] = torch.from_numpy(graph(tmp_path / task / "model.onnx", given, cross))
        run = load(source)
        plain[task] = [one["scores"] for one in run.predict(task, rows)]
        adapters = run.model_for(task).adapters
        adapters["sst"], adapters["qqp"] = adapters["qqp"], adapters["sst"]
        swapped[task] = [one["scores"] for one in run.predict(task, rows)]
    second = logits["qqp"].sigmoid()
    result = {"sst": logits["sst"].softmax(-1), "qqp": torch.stack([1 - second, second], dim=1)}
    for task, scores in result.items():
        np.testing.assert_allclose(scores, plain[task], atol=1e-4)
        assert np.abs(scores.numpy() - swapped[task]).max() > 1e-2, task


@pytest.mark.slow
def test_onnx_gives_a_contrastive_tasks_vectors(onnx, contrastive_run, tmp_path, capsys):
    target = tmp_path / "model"
    assert main(contrastive_run, target, "--format", "onnx", "--task", "views", "--int8") == 0
    result = graph(target / "model.onnx", [(text,) for text in TEXTS])
    np.testing.assert_allclose(result, load(contrastive_run).encode(TEXTS, task="views"), atol=1e-4)
    said = capsys.readouterr().out
    lowest = float(re.search(r"lowest cosine to the fp32 embeddings ([\d.]+)", said)[1])
    small = graph(target / "model_int8.onnx", [(text,) for text in TEXTS])
    assert 0.9 < lowest <= 1.0 and cosines(result, small).min() > 0.9


@pytest.mark.slow
def test_onnx_refuses_what_it_cannot_carry_by_its_key(onnx, special, tmp_path, capsys):
    given = (special, tmp_path / "model", "--format", "onnx", "--task", "qqp")
    assert complaint(capsys, *given).startswith("tasks.qqp.pooling: hire ")
    assert not list(tmp_path.iterdir())
