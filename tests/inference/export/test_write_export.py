"""``export`` on tiny runs: the card, what is refused, and that nothing else is touched."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import transformers

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.inference.export.export_parts import Parts
from multitask.inference.export.write_export import export_formats
from multitask.training.setup import set_up
from tests.conftest import ROOT, save_tiny_encoder
from tests.support.exports import TEXTS, complaint, graph, main, trained


def need(form):
    """Skip the test without the packages of a format."""
    needed = {"sentence-transformers": ["sentence_transformers"], "onnx": ["onnx", "onnxruntime"]}
    for package in needed.get(form, []):
        pytest.importorskip(package, reason="an extra of `export`")


@pytest.mark.parametrize(
    "form", ["transformers", "sentence-transformers", pytest.param("onnx", marks=pytest.mark.slow)]
)
def test_an_export_that_gives_other_scores_is_not_written(
    form, run_dir, tmp_path, capsys, monkeypatch
):
    for module, name, limit in (
        ("hugging_face", "TOLERANCE", -1.0),
        ("hugging_face", "LOWEST_COSINE", 2.0),
        ("onnx", "TOLERANCE", -1.0),
    ):
        monkeypatch.setattr(f"multitask.inference.export.{module}.{name}", limit)
    need(form)
    task = "qqp" if form == "sentence-transformers" else "sst"
    complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", task)
    assert list(tmp_path.iterdir()) == []


def test_the_card_of_an_export_tells_its_command_and_versions(run_dir, tmp_path, monkeypatch):
    target = tmp_path / "model"
    given = ["export", str(run_dir), str(target), "--format", "transformers", "--task", "sst"]
    monkeypatch.setattr("sys.argv", ["run_multitask.py", *given])
    assert run_multitask.main(given) == 0
    card = (target / "README.md").read_text()
    exported = card.partition("## How it was exported")[2].partition("\n## ")[0]
    assert f"python run_multitask.py export {run_dir} {target} --format transformers" in exported
    assert f"transformers: {transformers.__version__}" in exported


@pytest.mark.parametrize(
    "form, task, words",
    [
        ("transformers", "qqp", "tasks.qqp.head: siamese_paraphrase: "),
        ("transformers", "sts", "tasks.sts.adapter: it is part of the encoder's layers"),
        ("sentence-transformers", "sts", "tasks.sts.adapter: it is part of the encoder's layers"),
        ("sentence-transformers", "qqp", "tasks.qqp.pooling: hire: "),
    ],
)
def test_what_a_format_cannot_carry_is_named(form, task, words, special, tmp_path, capsys):
    need(form)
    line = complaint(capsys, special, tmp_path / "model", "--format", form, "--task", task)
    assert line.startswith(words)
    assert "--format onnx" in line
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_there_is_touched(run_dir, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    for target in (tmp_path, tmp_path / "mine.txt"):
        given = (run_dir, target, "--format", "transformers", "--task", "sst")
        assert complaint(capsys, *given).startswith(f"{target}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("form", ["onnx", "sentence-transformers"])
def test_a_missing_package_is_named_with_its_install(form, run_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx" if form == "onnx" else "sentence_transformers", None)
    line = complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", "qqp")
    assert "pip install " in line and form in line


# values of tokenizer_config.json, and of tokenizer.json, that a saved tokenizer may have
LEFT = {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": None}
LEFT |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
SETTINGS = {
    "padding": ({"padding_side": "left"}, {}),
    "packaged padding": ({"padding_side": "left"}, {"padding": LEFT}),
    "truncation": ({"truncation_side": "left"}, {}),
    "no mask": ({"model_input_names": ["input_ids"]}, {}),
    "no token types": ({"model_input_names": ["input_ids", "attention_mask"]}, {}),
    "no pad token": ({"pad_token": None}, {}),
}
LONG = [*TEXTS, " ".join(TEXTS * 4)]  # also one that is cut


@pytest.fixture(scope="module", params=SETTINGS)
def odd_run(request, course_files, tmp_path_factory):
    """A run whose encoder has a tokenizer with other settings."""
    place = tmp_path_factory.mktemp("odd")
    encoder = save_tiny_encoder(place / "encoder")
    names = ("tokenizer_config.json", "tokenizer.json")
    for name, values in zip(names, SETTINGS[request.param], strict=True):
        file = encoder / name
        file.write_text(json.dumps(json.loads(file.read_text()) | values))
    changes = ["tasks.sst.projection=tanh", "tasks.sts.input=cross", "tasks.sts.head=regression"]
    lengths = [f"tasks.{task}.max_length=12" for task in ("sst", "qqp", "sts")]
    return trained(place / "run", encoder, course_files, *changes, *lengths)


def test_a_batch_is_scored_as_in_the_run_whatever_the_tokenizers_settings(odd_run, tmp_path):
    target = str(tmp_path / "model")
    assert main(odd_run, target, "--format", "transformers", "--task", "sst") == 0
    model = transformers.AutoModelForSequenceClassification.from_pretrained(target).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(target)
    with torch.no_grad():
        inputs = tokenizer(LONG, padding=True, truncation=True, return_tensors="pt")
        result = model(**inputs).logits.softmax(-1)
    wanted = [one["scores"] for one in load(odd_run).predict("sst", LONG)]
    np.testing.assert_allclose(result, wanted, atol=1e-5)


def test_vectors_of_a_batch_are_the_runs_whatever_the_tokenizers_settings(odd_run, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    target = tmp_path / "model"
    assert main(odd_run, target, "--format", "sentence-transformers", "--task", "qqp") == 0
    model = library.SentenceTransformer(str(target), device="cpu")
    wanted = load(odd_run).encode(LONG, task="qqp")
    np.testing.assert_allclose(model.encode(LONG), wanted, atol=1e-5)


@pytest.mark.slow
def test_a_graph_scores_a_batch_as_the_run_whatever_the_tokenizers_settings(
    onnx, odd_run, tmp_path
):
    pairs = [(text, TEXTS[0]) for text in LONG]
    target = tmp_path / "model"
    assert main(odd_run, target, "--format", "onnx", "--task", "sts", "--int8") == 0
    wanted = [one["prediction"] for one in load(odd_run).predict("sts", pairs)]
    result = graph(target / "model.onnx", pairs, cross=True)
    np.testing.assert_allclose(np.clip(result, 0, 5), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("form", "task", "more"),
    [
        ("transformers", "sst", []),
        ("transformers", "sst", ["--encoder-only"]),
        ("sentence-transformers", "qqp", []),
        pytest.param("onnx", "sst", [], marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("setting", ["padding_side", "truncation_side"])
def test_an_export_whose_own_tokenizer_gives_other_scores_is_refused(
    form, task, more, setting, run_dir, tmp_path, capsys, monkeypatch
):
    """On dev rows that are all short and of one length, too."""
    need(form)
    run = shutil.copytree(run_dir, tmp_path / "run")
    shutil.rmtree(run / "predictions")
    right = Parts.task_tokenizer

    def wrong(parts):
        made = right(parts)
        setattr(made, setting, "left")
        made.init_kwargs[setting] = "left"  # or it is not saved
        return made

    monkeypatch.setattr(Parts, "task_tokenizer", wrong)
    complaint(capsys, run, tmp_path / "model", "--format", form, "--task", task, *more)
    assert not (tmp_path / "model").exists()


def formats(overrides, *changes):
    config = load_config(ROOT / "configs/cs224n.yaml", [*overrides, *changes])
    plan = set_up(config, torch.device("cpu"), lambda line: None)
    return {
        task: export_formats(Parts(config, task, plan.model, plan.data.tokenizer, reader))
        for task, reader in plan.data.readers.items()
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], ["transformers --encoder-only", "sentence-transformers", "onnx"]),
        (["tasks.sst.projection=tanh"], ["transformers", "sentence-transformers", "onnx"]),
        (["tasks.sst.adapter={name: pal, size: 4, heads: 2}"], ["onnx"]),
        (["tasks.sst.pooling={name: max_cls, last: 2}"], ["transformers --encoder-only", "onnx"]),
        (["encoder.bitlinear={}"], ["ternary"]),
    ],
)
def test_what_a_task_can_be_exported_to(changes, expected, tiny_overrides):
    made = formats(tiny_overrides, *changes)
    assert made["sst"] == expected
    if not changes:
        assert made["qqp"] == made["sts"] == expected
