"""Several choices from check to serve: a run that learns a small rule, and each of its uses."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.inference.serve.responses import about, answer, attention, open_run, read_texts
from multitask.models.encoders.bert_weights import to_transformers
from multitask.training.setup import set_up
from multitask.utils.errors import UserError
from tests.support.choices_run import COUNT, chosen, write_choices
from tests.support.run_files import events, report_of
from tests.support.token_run import write_lines


@pytest.fixture(scope="module")
def config(tiny_encoder, tmp_path_factory):
    return write_choices(tmp_path_factory.mktemp("choices"), tiny_encoder)


@pytest.fixture(scope="module")
def run_dir(config):
    """A run that has learned the rule; read only."""
    assert run_multitask.main([str(config)]) == 0
    return config.parent / "run"


@pytest.fixture(scope="module")
def begun(config):
    """A run that has hardly begun: most of its predictions are wrong."""
    run = config.parent / "begun"
    given = ["training.max_steps=2", "training.frozen_baseline=false", f"output_dir={run}"]
    assert run_multitask.main([str(config), *given]) == 0
    return run


def records_of(run, split="dev"):
    lines = (run / "predictions" / f"ending.{split}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def typed(row):
    """The texts of a row, as Python takes them."""
    return (row["context"], *row["endings"])


def test_check_shows_each_ending_as_the_encoder_sees_it(config, capsys):
    assert run_multitask.main(["check", str(config), "output_dir=unused"]) == 0
    shown = capsys.readouterr().out.splitlines()
    row = chosen(1, 0)[0]
    counts = Counter(row["label"] for row in chosen(240, 0))
    each = ", ".join(f"{place} {counts[place]}" for place in range(COUNT))
    assert f"  ending: one ending of each row: {each}" in shown
    start = shown.index(f"  ending (ending 2: {row['endings'][2]!r})")
    for place, ending in enumerate(row["endings"]):
        text, sizes = shown[start + 1 + 2 * place : start + 3 + 2 * place]
        assert text == f"    {place} [CLS] {row['context']} [SEP] {ending} [SEP]"
        lengths = len(row["context"].split()) + 2, len(ending.split()) + 1
        assert f"{lengths[0]} tokens + {lengths[1]} tokens (segments: 2)" in sizes


def test_the_run_learns_and_reports(run_dir):
    entry = report_of(run_dir)["tasks"]["ending"]
    assert (entry["label_type"], entry["metric"]) == ("choice", "accuracy")
    assert entry["data"]["train"]["unlabelled_dropped"] == 1
    gold = [row["label"] for row in chosen(60, 1)]
    trivial, frozen = (entry["baselines"][name]["accuracy"] for name in ("trivial", "frozen"))
    assert trivial == pytest.approx(gold.count(2) / len(gold))
    assert entry["dev"]["accuracy"] > 0.9 > trivial and frozen is not None
    low, high = entry["dev_intervals"]["accuracy"]
    assert low <= entry["dev"]["accuracy"] <= high
    records = records_of(run_dir)
    assert [one["label"] for one in records] == gold
    right = np.mean([one["label"] == one["prediction"] for one in records])
    assert right == pytest.approx(entry["dev"]["accuracy"])
    assert [one["label"] for one in records_of(run_dir, "test")] == [None] * 6


def test_its_mistakes_are_a_table_of_context_and_two_endings(begun):
    page = (begun / "report.md").read_text()
    wrong = [one for one in records_of(begun) if one["label"] != one["prediction"]]
    surest = max(wrong, key=lambda one: one["scores"][one["prediction"]])
    endings = surest["texts"][1:]
    cells = [surest["id"], surest["texts"][0], endings[surest["label"]]]
    lines = page.splitlines()
    title = next(line for line in lines if "| context |" in line.replace("  ", " "))
    names = [name.strip() for name in title.strip("|").split("|")]
    assert names == ["id", "context", "gold", "predicted", "confidence"]
    row = [cell.strip() for cell in lines[lines.index(title) + 2].strip("|").split("|")]
    assert row[:4] == [*cells, endings[surest["prediction"]]]


def test_python_gives_the_saved_predictions_with_their_names(run_dir):
    saved, rows = records_of(run_dir), chosen(60, 1)
    for one, record in zip(load(run_dir).predict("ending", map(typed, rows)), saved, strict=True):
        assert one["prediction"] == record["prediction"]
        assert one["names"] == record["texts"][1:]
        assert one["name"] == one["names"][one["prediction"]]
        np.testing.assert_allclose(one["scores"], record["scores"], atol=1e-5)


def test_scores_are_those_of_transformers(run_dir):
    """BertForMultipleChoice with the run's weights, from texts to logits, in float64."""
    from transformers import AutoConfig, BertForMultipleChoice

    run, rows = load(run_dir), chosen(20, 1)
    model, tokenizer = run.model_for("ending").double(), run.tokenizer
    module = model.module("ending")
    reference = BertForMultipleChoice(AutoConfig.from_pretrained(run_dir / "encoder"))
    reference.bert.load_state_dict(to_transformers(model.encoder.state_dict()), strict=False)
    reference.bert.pooler.dense.load_state_dict(module.projection.dense.state_dict())
    reference.classifier.load_state_dict(module.head.linear.state_dict())
    reference = reference.double().eval()
    for row in rows:
        given = tokenizer(
            [row["context"]] * COUNT, row["endings"], padding=True, return_tensors="pt"
        )
        with torch.no_grad():
            logits = reference(**{key: one[None] for key, one in given.items()}).logits[0]
        (record,) = run.predict("ending", [typed(row)])
        np.testing.assert_allclose(record["scores"], logits.softmax(-1).numpy(), atol=1e-9)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["one text"], "takes rows of a context and at least two endings; item 0 is 'one text'"),
        ([("context", "ending")], "takes rows of a context and at least two endings"),
        ([("c", "a", "b"), ("c", "a", "b", "d")], "item 1: 4 texts, the first row has 3"),
        ([("c", "a", None)], "takes rows of a context and at least two endings"),
    ],
)
def test_other_texts_are_refused_in_one_line(texts, message, run_dir):
    with pytest.raises(UserError, match=message) as raised:
        load(run_dir).predict("ending", texts)
    assert "\n" not in str(raised.value)


def test_runs_are_compared_and_averaged(run_dir, begun, tmp_path):
    runs = [str(run_dir), str(begun)]
    assert run_multitask.main(["report", *runs, "--output", str(tmp_path / "report")]) == 0
    assert "ending accuracy" in (tmp_path / "report" / "table.md").read_text()
    assert run_multitask.main(["predict", *runs, "--output", str(tmp_path / "both")]) == 0
    parts = zip(records_of(tmp_path / "both"), records_of(run_dir), records_of(begun), strict=True)
    for record, one, other in parts:
        means = np.mean([one["scores"], other["scores"]], axis=0)
        np.testing.assert_allclose(record["scores"], means, atol=1e-5)
        assert record["prediction"] == means.argmax()


def test_the_page_takes_one_ending_a_line(run_dir):
    served, row = open_run(run_dir, None), chosen(1, 5)[0]
    assert about(served, "ending") == "a context, and one ending a line → one of the endings"
    texts = read_texts(served, [row["context"], "\r\n".join([*row["endings"], ""])])
    (expected,) = load(run_dir).predict("ending", [typed(row)])
    (result,) = answer(served, "ending", texts)
    assert result["prediction"] == expected["name"]
    assert [(name, chosen) for name, _, chosen in result["shares"]] == [
        (ending, ending == expected["name"]) for ending in row["endings"]
    ]
    np.testing.assert_allclose([one for _, one, _ in result["shares"]], expected["scores"])
    assert len(attention(served, "ending", texts)) == COUNT
    with pytest.raises(UserError, match="at least two endings"):
        answer(served, "ending", ["where ?", "one ending"])
    with pytest.raises(UserError, match=r"second text is empty"):
        read_texts(served, ["where ?", ""])


def test_a_text_before_each_ending_is_trained(tiny_encoder, tmp_path):
    """As the `sent2` of SWAG."""
    file = write_choices(tmp_path, tiny_encoder, train=24, dev=6)
    for split in ("train", "dev", "test"):
        lines = (tmp_path / f"{split}.jsonl").read_text().splitlines()
        rows = [{**json.loads(line), "start": f"then {i}"} for i, line in enumerate(lines)]
        write_lines(tmp_path / f"{split}.jsonl", rows)
    given = ["tasks.ending.data.text2=start", "training.max_steps=2"]
    assert run_multitask.main([str(file), *given, "training.frozen_baseline=false"]) == 0
    steps = events(tmp_path / "run", "step")
    assert len(steps) == 2 and all(np.isfinite(line["loss"]) for line in steps)
    for i, (record, row) in enumerate(zip(records_of(tmp_path / "run"), chosen(6, 1), strict=True)):
        assert record["texts"] == [row["context"], *(f"then {i} {e}" for e in row["endings"])]


def test_a_batch_has_at_most_its_tokens_of_all_endings(config):
    settings = ["tasks.ending.batch_tokens=400", "tasks.ending.batch_size=16"]
    plan = set_up(load_config(config, settings), torch.device("cpu"), lambda line: None)
    loader = plan.loaders["ending"]
    sizes = []
    for _ in range(loader.stream.steps_per_pass):
        for rows in loader.stream.next():
            sizes.append((len(rows), loader.inputs(rows, 0).input_ids.numel()))
    assert sum(rows for rows, _ in sizes) == 240
    assert all(tokens <= 400 for _, tokens in sizes)
    assert min(rows for rows, _ in sizes[:-1]) < 16
    assert max(tokens for _, tokens in sizes) > 300  # not the tokens of one ending alone


def test_smart_has_its_terms(config, tmp_path):
    smart = "tasks.ending.smart={eps: 1e-2, noise: 1e-2, step_size: 1.0, bregman: 1.0}"
    given = ["training.max_steps=3", "training.frozen_baseline=false"]
    assert run_multitask.main([str(config), smart, *given, f"output_dir={tmp_path / 'run'}"]) == 0
    steps = events(tmp_path / "run", "step")
    assert len(steps) == 3 and all(line["penalty"] > 0 for line in steps)


def test_a_classifier_of_transformers_is_refused(run_dir, tmp_path, capsys):
    given = ["export", str(run_dir), str(tmp_path / "model"), "--format", "transformers"]
    assert run_multitask.main(given) == 2
    said = capsys.readouterr().err.strip()
    assert "tasks.ending.head: multiple_choice" in said and "\n" not in said
    assert not (tmp_path / "model").exists()


def test_the_encoder_and_the_vectors_are_exported(run_dir, tmp_path):
    given = ["export", str(run_dir), str(tmp_path / "model"), "--format", "transformers"]
    assert run_multitask.main([*given, "--encoder-only"]) == 0
    assert load(run_dir).encode(["a cat", "a dog"], "ending").shape == (2, 32)


@pytest.mark.slow
def test_onnx_takes_the_tensors_of_transformers(run_dir, tmp_path, capsys):
    """Inputs [B, n, T] of another B, n and T than the example; the card's code runs."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="an extra of `export`")
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package, reason="an extra of `export`")
    target = tmp_path / "model"
    given = ["export", str(run_dir), str(target), "--format", "onnx", "--int8"]
    assert run_multitask.main(given) == 0
    accuracy = report_of(run_dir)["tasks"]["ending"]["dev"]["accuracy"]
    assert f"int8 on 60 dev rows: accuracy {accuracy:.4f} in fp32" in capsys.readouterr().out
    run, rows = load(run_dir), [("the cat sees", "a good dog", "a bad dog"), ("a", "dull", "great")]
    pairs = [(context, ending) for context, *endings in rows for ending in endings]
    ready = run.tokenizer(*zip(*pairs, strict=True), padding=True, return_tensors="np")
    session = onnxruntime.InferenceSession(target / "model.onnx")
    inputs = {name: ids.reshape(2, 2, -1) for name, ids in ready.items()}
    (logits,) = session.run(["logits"], inputs)
    chances = torch.from_numpy(logits).softmax(-1).numpy()
    wanted = [one["scores"] for one in run.predict("ending", rows)]
    np.testing.assert_allclose(chances, wanted, atol=1e-4)
    code = (target / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace("session.run", "result = session.run"), made := {})
    assert made["result"][0].shape == (1, 2)
