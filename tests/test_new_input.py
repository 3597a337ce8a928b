"""Inputs of three and four texts, registered alone, through every command: no other edit."""

import csv
import json
import random

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.config import registry
from multitask.data.inputs.base import Input
from multitask.inference.serve.responses import about, answer, examples, open_run, read_texts
from tests.support.run_files import report_of
from tests.support.worked_examples import use_worked_examples

WORDS = ["cat", "dog", "film", "tree"]
COLUMNS = ["claim", "title", "sentence", "more"]


class Quartet(Input):
    """Two texts together, and two others together: two sequences."""

    columns = ("text", "text2", "text3", "text4")
    joins = True
    items = "four texts"
    line = "four texts with tabs between"
    reads = "four texts, two by two"

    def sequences(self, texts):
        return [tuple(texts[:2]), tuple(texts[2:])]


def write_claims(file, rows, seed, last):
    """The label depends on the text in column ``last`` alone."""
    rng = random.Random(seed)
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow([*COLUMNS, "label"])
        for _ in range(rows):
            texts = [" ".join(rng.choices(WORDS, k=3)) for _ in COLUMNS]
            true = rng.random() < 0.5
            texts[COLUMNS.index(last)] = f"it is {'good' if true else 'bad'}"
            writer.writerow([*texts, "supported" if true else "refuted"])


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory):
    """The page's files, whose registry lines are in force, and a line for ``Quartet``."""
    directory = tmp_path_factory.mktemp("claims")
    for last in COLUMNS[2:]:
        for seed, (split, rows) in enumerate((("train", 320), ("dev", 60))):
            write_claims(directory / f"{last}-{split}.csv", rows, seed, last)
    with pytest.MonkeyPatch.context() as patch:
        use_worked_examples(directory, patch)
        patch.setitem(registry.INPUTS, "quartet", f"{__name__}:Quartet")
        known = registry.imported
        made = {f"{__name__}:Quartet": Quartet}
        patch.setattr(registry, "imported", lambda name: made.get(name) or known(name))
        yield directory


@pytest.fixture(scope="module")
def train(registered, tiny_encoder, tmp_path_factory):
    """Train the page's config with changes; return the run's directory."""

    def run(last, *changes):
        directory = tmp_path_factory.mktemp("run") / "run"
        usual = [
            f"data_dir={registered}",
            f"tasks.claims.data.train={last}-train.csv",
            f"tasks.claims.data.dev={last}-dev.csv",
            f"encoder.name={tiny_encoder}",
            "tasks.claims.max_length=32",
            "training.epochs=4",
            "training.lr=3e-3",
            "training.head_lr=1e-2",
            "training.precision=fp32",
        ]
        config = str(registered / "configs" / "my_evidence.yaml")
        assert run_multitask.main([config, *usual, *changes, f"output_dir={directory}"]) == 0
        return directory

    return run


@pytest.fixture(scope="module")
def run(train):
    return train("sentence", "tasks.claims.pooling=cls")


ROWS = [("cat dog film", "tree film cat", f"it is {word}") for word in ("good", "bad")]


def test_it_learns_from_its_last_text(run):
    entry = report_of(run)["tasks"]["claims"]
    assert entry["input"] == "evidence" and entry["dev"]["accuracy"] > 0.9
    assert entry["data"]["dev"]["truncated_share"] == 0


def test_python_and_files_give_the_same_predictions(run, tmp_path):
    records = load(run).predict("claims", ROWS)
    assert [record["name"] for record in records] == ["supported", "refuted"]
    table = "\n".join([",".join(COLUMNS[:3]), *map(",".join, ROWS)])
    for name, text in (("f.csv", table), ("f.txt", "\n".join(map("\t".join, ROWS)))):
        (tmp_path / name).write_text(text + "\n")
        out = tmp_path / f"{name}.jsonl"
        command = ["predict", str(run), "--file", str(tmp_path / name), "--output", str(out)]
        assert run_multitask.main(command) == 0
        saved = [json.loads(line) for line in out.read_text().splitlines()]
        for record, one in zip(records, saved, strict=True):
            assert one["scores"] == pytest.approx(record["scores"], abs=1e-5)


@pytest.mark.parametrize("row", [ROWS[0][:2], (*ROWS[0], "more")])
def test_another_number_of_texts_is_one_line(run, row, capsys):
    command = ["predict", str(run), "--task", "claims", "--text", *row]
    assert run_multitask.main(command) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("form", ["onnx", "transformers"])
def test_an_export_gives_the_scores_of_the_run(form, run, tmp_path, capsys):
    if form == "onnx":
        pytest.importorskip("onnxscript", reason="onnxscript is not installed (extra)")
    target = tmp_path / form
    command = ["export", str(run), str(target), "--format", form]
    assert run_multitask.main(command) == 0
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(target))
    inputs = tokenizer(ROWS[0][0], "[SEP]".join(ROWS[0][1:]), return_tensors="pt")
    if form == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(target / "model.onnx")
        wanted = {one.name for one in session.get_inputs()}
        (logits,) = session.run(None, {k: v.numpy() for k, v in inputs.items() if k in wanted})
    else:
        from transformers import AutoModelForSequenceClassification

        model = AutoModelForSequenceClassification.from_pretrained(str(target)).eval()
        logits = model(**inputs).logits.detach().numpy()
    (record,) = load(run).predict("claims", ROWS[:1])
    shares = torch.from_numpy(np.asarray(logits)).softmax(-1)[0].tolist()
    assert shares == pytest.approx(record["scores"], abs=1e-5)
    assert "[SEP]" in (target / "README.md").read_text()


def test_the_page_has_a_field_for_each_text(run):
    flask = pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
    assert flask
    from multitask.inference.serve.app import make_app

    served = open_run(run, None)
    assert (served.fields, served.fewest) == (3, 3)
    assert about(served, "claims").startswith("a claim, a title and a sentence")
    client = make_app(served).test_client()
    page = client.get("/").get_data(as_text=True)
    assert page.count("<textarea") == 3 and 'name="third"' in page
    typed = dict(zip(("first", "second", "third"), ROWS[0], strict=True))
    reply = client.post("/", data=typed)
    assert reply.status_code == 200
    text = reply.get_data(as_text=True)
    assert "supported" in text and "What [CLS] attends to in" in text
    missing = client.post("/", data={**typed, "third": " "})
    assert missing.status_code == 400 and "third text is empty" in missing.get_data(as_text=True)
    assert client.post("/", data={**typed, "second": ""}).status_code == 400
    (result,) = answer(served, "claims", read_texts(served, ROWS[1]))
    assert result["prediction"] == "refuted"
    assert all(len(example) == 3 and all(example) for example in examples(served))
    sent = client.post("/predict", json={"task": "claims", "texts": [list(ROWS[1])]})
    assert sent.get_json()["predictions"][0]["name"] == "refuted"


def test_its_mistakes_show_all_texts(train):
    run = train("sentence", "training.max_steps=1")
    page = (run / "report.md").read_text()
    assert "| first text | second text | third text |" in page


def test_texts_that_are_cut_are_counted(run, tmp_path, capsys):
    row = ("cat " * 40, "dog " * 40, "it is good")
    assert load(run).tokens("claims", [row]).truncated.tolist() == [True]


def test_a_fourth_text_and_two_sequences_of_two_texts(train, tmp_path):
    run = train(
        "more",
        "tasks.claims.input=quartet",
        "tasks.claims.data.text4=more",
        "tasks.claims.data.labels={refuted: no, supported: yes}",
        "tasks.claims.head=siamese_paraphrase",
        "tasks.claims.head.features=[u,v]",
        "tasks.claims.projection=null",
        "tasks.claims.pooling=cls",
    )
    entry = report_of(run)["tasks"]["claims"]
    assert entry["input"] == "quartet" and entry["dev"]["accuracy"] > 0.9
    rows = [(*ROWS[0][:2], "film film dog", text) for text in ("it is good", "it is bad")]
    assert [one["prediction"] for one in load(run).predict("claims", rows)] == [1, 0]
    assert open_run(run, None).fields == 4


def test_what_an_input_lacks_is_one_line(registered, tiny_encoder, capsys):
    config = [str(registered / "configs" / "my_evidence.yaml"), f"encoder.name={tiny_encoder}"]
    config += [f"data_dir={registered}", "tasks.claims.data.train=sentence-train.csv"]
    for change, key in (
        ("tasks.claims.data.text3=null", "tasks.claims.input"),
        ("tasks.claims.input=evidense", "tasks.claims.input"),
        ("tasks.claims.head=siamese_paraphrase", "tasks.claims.head"),
        ("tasks.claims.data.text4=more", "tasks.claims.input"),
    ):
        assert run_multitask.main(["check", *config, change]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and key in message
