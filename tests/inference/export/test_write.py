"""``export`` on tiny runs: what each library loads gives the run's own scores."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
import transformers

import run_multitask
from heads.ordinal import OrdinalHead
from multitask import UserError, load
from multitask.config import BitLinearConfig
from multitask.inference.embeddings import open_vectors
from multitask.inference.export import requirement
from tests.conftest import save_tiny_encoder
from tests.support.contrastive_run import write_config, write_triplets

TEXTS = ["a good film , not dull", "the cat", "who never sees the big red house near a river ?"]
PAIRS = [(one, other) for one, other in zip(TEXTS, reversed(TEXTS), strict=True)]


def main(*arguments):
    return run_multitask.main(["export", *(str(argument) for argument in arguments)])


def complaint(capsys, *arguments):
    capsys.readouterr()
    assert main(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("error: ")


def trained(directory, encoder, course_files, *changes):
    """A run of three steps whose heads have moved away from their start."""
    lengths = [f"tasks.{task}.max_length=40" for task in ("sst", "qqp", "sts")]
    common = [f"data_dir={course_files}", f"encoder.name={encoder}", f"output_dir={directory}"]
    common += ["training.max_steps=3", "training.precision=fp32", "training.frozen_baseline=false"]
    common += ["training.head_lr=0.05"]
    assert run_multitask.main(["configs/cs224n.yaml", *common, *lengths, *changes]) == 0
    return directory


@pytest.fixture(scope="module")
def run_dir(tiny_encoder, course_files, tmp_path_factory):
    """A classifier, a siamese pair with the mean, a cross-encoded number."""
    return trained(
        tmp_path_factory.mktemp("runs") / "plain",
        tiny_encoder,
        course_files,
        "tasks.sst.projection=tanh",
        "tasks.sts.input=cross",
        "tasks.sts.pooling=cls",
        "tasks.sts.head=regression",
        "tasks.sts.projection=bert_pooler",
    )


@pytest.fixture(scope="module")
def special(course_files, tmp_path_factory):
    """On RoBERTa: a classifier, HIRE's pooling, a PAL."""
    return trained(
        tmp_path_factory.mktemp("runs") / "special",
        save_tiny_encoder(tmp_path_factory.mktemp("roberta"), "roberta"),
        course_files,
        "tasks.sst.projection=tanh",
        "tasks.qqp.pooling={name: hire, fusion_layers: 1}",
        "tasks.sts.input=cross",
        "tasks.sts.head=regression",
        "tasks.sts.pooling=mha",
        "tasks.sts.adapter={name: pal, size: 12, heads: 4}",
    )


@pytest.fixture(scope="module")
def special_binary(tiny_encoder, course_files, tmp_path_factory):
    """A cross-encoded paraphrase task."""
    return trained(
        tmp_path_factory.mktemp("runs") / "binary",
        tiny_encoder,
        course_files,
        "tasks.sst=null",
        "tasks.sts=null",
        "tasks.qqp.input=cross",
        "tasks.qqp.pooling=cls",
        "tasks.qqp.projection=tanh",
        "tasks.qqp.head=binary",
    )


@pytest.fixture(scope="module")
def contrastive(tiny_encoder, course_files, tmp_path_factory):
    """A contrastive task with a projection, and a task that scores its vectors."""
    place = tmp_path_factory.mktemp("contrastive")
    files = shutil.copytree(course_files, place / "data")
    write_triplets(files)
    config = write_config(place / "run.yaml", tiny_encoder, files, pooling="mean")
    assert run_multitask.main([config, f"output_dir={place / 'run'}", "training.max_steps=2"]) == 0
    return place / "run"


def outputs(loader, directory, rows):
    """A directory's output by `transformers`, row by row."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = loader.from_pretrained(directory).eval()
    with torch.no_grad():
        return [
            model(**tokenizer(*row, truncation=True, return_tensors="pt", max_length=40))
            for row in rows
        ]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_transformers_classifies_as_the_run_does(kind, run_dir, special, tmp_path):
    from transformers import AutoModelForSequenceClassification

    source = {"bert": run_dir, "roberta": special}[kind]
    target = tmp_path / "model"
    assert main(source, target, "--format", "transformers", "--task", "sst") == 0
    found = outputs(AutoModelForSequenceClassification, target, [(text,) for text in TEXTS])
    wanted = load(source).predict("sst", TEXTS)
    for one, other in zip(found, wanted, strict=True):
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
    found = outputs(AutoModelForSequenceClassification, target, [(text,) for text in TEXTS])
    for one, other in zip(found, load(source).predict("sst", TEXTS), strict=True):
        np.testing.assert_allclose(one.logits.softmax(-1)[0], other["scores"], atol=1e-4)


def test_transformers_gives_a_cross_encoded_number_on_the_label_scale(run_dir, tmp_path):
    from transformers import AutoModelForSequenceClassification

    assert main(run_dir, tmp_path / "model", "--format", "transformers", "--task", "sts") == 0
    found = outputs(AutoModelForSequenceClassification, tmp_path / "model", PAIRS)
    wanted = [one["prediction"] for one in load(run_dir).predict("sts", PAIRS)]
    np.testing.assert_allclose([one.logits.item() for one in found], wanted, atol=1e-4)


def test_a_binary_task_has_one_logit_in_transformers(special_binary, tmp_path):
    from transformers import AutoModelForSequenceClassification

    target = tmp_path / "model"
    assert main(special_binary, target, "--format", "transformers", "--task", "qqp") == 0
    found = outputs(AutoModelForSequenceClassification, target, PAIRS)
    wanted = [one["scores"][0] for one in load(special_binary).predict("qqp", PAIRS)]
    np.testing.assert_allclose([one.logits.sigmoid().item() for one in found], wanted, atol=1e-4)


@pytest.mark.parametrize(
    "form",
    ["transformers", "sentence-transformers", pytest.param("onnx", marks=pytest.mark.slow)],
)
def test_an_export_that_gives_other_scores_is_not_written(
    form, run_dir, tmp_path, capsys, monkeypatch
):
    for module, name, limit in (
        ("hugging_face", "TOLERANCE", -1.0),
        ("sentences", "LOWEST_COSINE", 2.0),
        ("onnx", "TOLERANCE", -1.0),
    ):
        monkeypatch.setattr(f"multitask.inference.export.{module}.{name}", limit)
    needed = {"sentence-transformers": ["sentence_transformers"], "onnx": ["onnx", "onnxruntime"]}
    for package in needed.get(form, []):
        pytest.importorskip(package, reason="an extra of `export`")
    task = "qqp" if form == "sentence-transformers" else "sst"
    said = complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", task)
    assert "numbers" in said or "vectors" in said or "scores" in said
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


def test_the_encoder_alone_has_the_tasks_weights(run_dir, tmp_path):
    from transformers import AutoModel

    target = tmp_path / "model"
    given = ("--format", "transformers", "--task", "qqp", "--encoder-only")
    assert main(run_dir, target, *given) == 0
    found = outputs(AutoModel, target, [(text,) for text in TEXTS])
    means = [one.last_hidden_state[0].mean(0).numpy() for one in found]
    np.testing.assert_allclose(means, load(run_dir).encode(TEXTS, task="qqp"), atol=1e-5)


def test_sentence_transformers_gives_the_runs_vectors(run_dir, contrastive, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    for number, (source, task, parts) in enumerate(
        [(run_dir, "qqp", 2), (run_dir, "sst", 2), (contrastive, "views", 3)]
    ):
        target = tmp_path / str(number)
        given = ("--format", "sentence-transformers", "--task", task)
        assert main(source, target, *given) == 0
        model = library.SentenceTransformer(str(target), device="cpu")
        assert len(list(model)) == parts  # a contrastive task's projection is a module of its own
        found, wanted = model.encode(TEXTS), load(source).encode(TEXTS, task=task)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert model.max_seq_length == 40
        assert "library_name: sentence-transformers" in (target / "README.md").read_text()


def test_another_pooling_is_exported_after_training(contrastive, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    changes = [f"tasks.{task}.eval_pooling=max" for task in ("views", "sts")]
    given = ("--format", "sentence-transformers", "--task", "views")
    assert main(contrastive, tmp_path / "model", *changes, *given) == 0
    found = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    run = load(contrastive, changes)
    np.testing.assert_allclose(found, run.encode(TEXTS, task="views"), atol=1e-5)
    assert np.abs(found - load(contrastive).encode(TEXTS, task="views")).max() > 0.01
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
        found = x.double() @ weight.T + bias
        np.testing.assert_allclose(found, norm.eval()(linear(x)), atol=1e-5)


def graph(file, rows, cross=False):
    """A graph's output by onnxruntime for a padded batch of rows of one or two texts."""
    import onnxruntime
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(file.parent)
    session = onnxruntime.InferenceSession(file)
    wanted = {one.name for one in session.get_inputs()}
    sides = [list(texts) for texts in zip(*rows, strict=True)]
    feed = {}
    for suffix, texts in zip(("", "_2"), [sides] if cross else [[s] for s in sides], strict=False):
        ready = tokenizer(*texts, truncation=True, padding=True, return_tensors="np")
        feed |= {name + suffix: value for name, value in ready.items() if name + suffix in wanted}
    return session.run(None, feed)[0]


@pytest.fixture
def onnx():
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="an extra of `export`")


@pytest.mark.slow
def test_onnx_and_its_int8_variant_score_siamese_pairs(onnx, run_dir, tmp_path, capsys):
    target = tmp_path / "model"
    assert main(run_dir, target, "--format", "onnx", "--task", "qqp", "--int8") == 0
    said = capsys.readouterr().out
    assert "int8 on 12 dev rows: accuracy" in said and "rows/s" in said
    assert "int8 on 12 dev rows: accuracy" in (target / "README.md").read_text()
    wanted = [one["scores"][0] for one in load(run_dir).predict("qqp", PAIRS)]
    for rows in (slice(0, 1), slice(0, 3)):
        found = graph(target / "model.onnx", PAIRS[rows])
        np.testing.assert_allclose(1 / (1 + np.exp(-found)), wanted[rows], atol=1e-4)
    small = graph(target / "model_int8.onnx", PAIRS)
    np.testing.assert_allclose(1 / (1 + np.exp(-small)), wanted, atol=0.1)
    sizes = [(target / name).stat().st_size for name in ("model_int8.onnx", "model.onnx")]
    assert sizes[0] < sizes[1]


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
    found = torch.from_numpy(graph(target / "model.onnx", [(text,) for text in TEXTS]))
    wanted = [one["scores"] for one in load(source).predict("sst", TEXTS)]
    head = load(source).model_for("sst").tasks["sst"].head
    np.testing.assert_allclose(head.predict(found)[1], wanted, atol=1e-4)


@pytest.mark.slow
def test_onnx_carries_an_adapter_and_a_pooling_with_weights(onnx, special, tmp_path):
    target = tmp_path / "model"
    assert main(special, target, "--format", "onnx", "--task", "sts") == 0
    wanted = [one["prediction"] for one in load(special).predict("sts", PAIRS)]
    found = graph(target / "model.onnx", PAIRS, cross=True)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.slow
def test_onnx_carries_the_tasks_own_adapter_of_two(onnx, tiny_encoder, course_files, tmp_path):
    pal = "adapter={name: pal, size: 12, heads: 4}"
    changes = ["tasks.sts=null", f"tasks.sst.{pal}", f"tasks.qqp.{pal}", "tasks.qqp.input=cross"]
    changes += ["tasks.qqp.head=binary", "training.adapter_lr=0.05", "training.max_steps=4"]
    source = trained(tmp_path / "run", tiny_encoder, course_files, *changes)
    logits, own, swapped = {}, {}, {}
    for task, rows in (("sst", TEXTS), ("qqp", PAIRS)):
        assert main(source, tmp_path / task, "--format", "onnx", "--task", task) == 0
        cross = task == "qqp"
        given = rows if cross else [(text,) for text in rows]
        logits[task] = torch.from_numpy(graph(tmp_path / task / "model.onnx", given, cross))
        run = load(source)
        own[task] = [one["scores"] for one in run.predict(task, rows)]
        adapters = run.model_for(task).adapters
        adapters["sst"], adapters["qqp"] = adapters["qqp"], adapters["sst"]
        swapped[task] = [one["scores"] for one in run.predict(task, rows)]
    found = {"sst": logits["sst"].softmax(-1), "qqp": logits["qqp"].sigmoid()[:, None]}
    for task, scores in found.items():
        np.testing.assert_allclose(scores, own[task], atol=1e-4)
        assert np.abs(scores.numpy() - swapped[task]).max() > 1e-2, task


@pytest.mark.slow
def test_onnx_gives_a_contrastive_tasks_vectors(onnx, contrastive, tmp_path, capsys):
    target = tmp_path / "model"
    assert main(contrastive, target, "--format", "onnx", "--task", "views", "--int8") == 0
    found = graph(target / "model.onnx", [(text,) for text in TEXTS])
    np.testing.assert_allclose(found, load(contrastive).encode(TEXTS, task="views"), atol=1e-4)
    said = capsys.readouterr().out
    lowest = float(re.search(r"lowest cosine to the fp32 embeddings ([\d.]+)", said)[1])
    small = graph(target / "model_int8.onnx", [(text,) for text in TEXTS])
    cosines = (found * small).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(small, axis=1)
    assert 0.9 < lowest <= 1.0 and cosines.min() > 0.9


@pytest.mark.slow
def test_onnx_refuses_what_it_cannot_carry_by_its_key(onnx, special, tmp_path, capsys):
    given = (special, tmp_path / "model", "--format", "onnx", "--task", "qqp")
    assert complaint(capsys, *given).startswith("tasks.qqp.pooling: ONNX cannot carry hire (")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "form, task, words",
    [
        ("transformers", "qqp", "tasks.qqp.head: siamese_paraphrase: no sequence classifier"),
        ("transformers", "sts", "tasks.sts.adapter: pal stands in the encoder's layers"),
        ("sentence-transformers", "sts", "tasks.sts.adapter: pal stands in the encoder's layers"),
        ("sentence-transformers", "qqp", "tasks.qqp.pooling: hire: sentence-transformers has no"),
    ],
)
def test_what_a_format_cannot_carry_is_named(form, task, words, special, tmp_path, capsys):
    if form == "sentence-transformers":
        pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    line = complaint(capsys, special, tmp_path / "model", "--format", form, "--task", task)
    assert line.startswith(words)
    assert "--format onnx" in line
    assert not list(tmp_path.iterdir())


def test_a_classifier_that_transformers_has_not_is_refused(run_dir):
    from multitask.inference.export.hugging_face import check_classifier
    from multitask.inference.export.parts import Parts

    run = load(run_dir)
    model = run.model_for("sst")
    parts = Parts(run.config, "sst", model, run.tokenizer, run.readers["sst"])
    check_classifier(parts)
    model.tasks["sst"].projection = torch.nn.Identity()
    run.config.tasks["sst"].projection = None
    with pytest.raises(UserError, match=r"^tasks\.sst\.projection: none: transformers puts tanh"):
        check_classifier(parts)
    model.tasks["sst"].head = OrdinalHead(32, 5)
    with pytest.raises(UserError, match=r"^tasks\.sst\.head: .*: no sequence classifier"):
        check_classifier(parts)
    run.config.encoder.bitlinear = BitLinearConfig()
    with pytest.raises(UserError, match=r"^encoder\.bitlinear: the encoder's layers have ternary"):
        check_classifier(parts)


def test_the_working_directory_is_no_target(run_dir, tmp_path, capsys, monkeypatch):
    source = run_dir.absolute()
    monkeypatch.chdir(tmp_path)
    assert main(source, ".", "--format", "transformers", "--task", "sst") == 2
    assert ". is where you are: name a new directory" in capsys.readouterr().err


def test_nothing_that_is_there_is_touched(run_dir, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    given = (run_dir, tmp_path, "--format", "transformers", "--task", "sst")
    assert "something is there already" in complaint(capsys, *given)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    given = (run_dir, tmp_path / "mine.txt", "--format", "transformers", "--task", "sst")
    assert "something is there already" in complaint(capsys, *given)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--format", "onnx"), "several tasks: say which with --task: sst, qqp, sts"),
        (("--format", "onnx", "--task", "stt"), "no task 'stt' (did you mean"),
        (("--format", "onnx", "--encoder-only"), "--encoder-only is for --format transformers"),
        (("--format", "transformers", "--int8"), "--int8 is for --format onnx, not transformers"),
    ],
)
def test_wrong_options_are_one_line(arguments, words, run_dir, tmp_path, capsys):
    assert words in complaint(capsys, run_dir, tmp_path / "model", *arguments)


@pytest.mark.parametrize("form", ["onnx", "sentence-transformers"])
def test_a_missing_package_is_named_with_its_install(form, run_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(requirement.importlib.util, "find_spec", lambda name: None)
    line = complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", "qqp")
    assert "is not installed: pip install " in line
    assert form in line
