"""Runs on the nested file of SQuAD, in which some questions have no answer."""

import json
import random

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import run_multitask
from multitask import load
from multitask.tasks.question_answering import outcome
from multitask.tasks.rows import Rows
from multitask.training import trainer
from tests.support.run_files import events, report_of, results
from tests.support.token_run import asked, nested, token_config, without_answers

THRESHOLD = "tasks.qa.head.null_threshold"
WINDOWS = ["tasks.qa.max_length=13", "tasks.qa.stride=3"]
SHORT = ["training.max_steps=6", "training.eval_steps=3", "training.holdout=0.2"]


@pytest.fixture(scope="module")
def config(tiny_encoder, tmp_path_factory):
    """A config of questions, some without an answer; its files are in the directory."""
    directory = tmp_path_factory.mktemp("squad")
    for seed, (split, size) in enumerate((("train", 400), ("dev", 40))):
        rows = without_answers(asked(size, seed + 20))
        (directory / f"{split}.json").write_text(json.dumps(nested(rows)))
    file = token_config(directory, tiny_encoder, directory, tasks=("qa",))
    text = file.read_text()
    for old, new in (
        ("qa-train.jsonl", "train.json"),
        ("qa-dev.jsonl", "dev.json"),
        ("      test: qa-test.jsonl\n", ""),
        ("{name: span", "{name: span, no_answer: true"),
    ):
        text = text.replace(old, new)
    file.write_text(text)
    return file


def train(config, run, *changes):
    assert run_multitask.main([str(config), f"output_dir={run}", *changes]) == 0
    return run


@pytest.fixture(scope="module", params=[[], WINDOWS], ids=["cut", "windows"])
def run(request, config, tmp_path_factory):
    """A run with a holdout that has learned something; read only."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    return train(config, directory, "training.epochs=9", "training.holdout=0.2", *request.param)


def weights_of(run):
    (file,) = {*(run / "weights").glob("*.safetensors")}
    return load_file(file)


def predictions(run, name):
    return [json.loads(line) for line in (run / "predictions" / f"qa.{name}.jsonl").open()]


def mean_f1(records):
    pairs = [(record["prediction"], record["label"]) for record in records]
    return np.mean([outcome(*pair, no_answer=True)[0] for pair in pairs])


def test_some_questions_are_answered_and_others_are_not(run):
    dev, trivial = (report_of(run)["tasks"]["qa"][key] for key in ("dev", "baselines"))
    assert dev["f1"] > trivial["trivial"]["f1"] + 0.2
    assert dev["has_ans_f1"] > 0.3 and dev["no_ans_f1"] > 0.8
    assert trivial["trivial"]["has_ans_f1"] == 0 and trivial["trivial"]["no_ans_f1"] == 1
    records = predictions(run, "dev")
    assert dev["f1"] == pytest.approx(mean_f1(records))
    for kind, name in ((True, "has_ans_f1"), (False, "no_ans_f1")):
        chosen = [record for record in records if bool(record["label"]) is kind]
        assert 0 < len(chosen) < 40 and dev[name] == pytest.approx(mean_f1(chosen))
    assert report_of(run)["tasks"]["qa"]["data"]["dev"]["label_counts"]["no answer"] == 14
    for record in records:
        assert record["texts"][1][record["start"] : record["end"]] == record["prediction"]


def test_the_saved_threshold_is_the_best_on_the_holdout(run):
    saved = weights_of(run)[THRESHOLD]
    records = predictions(run, "holdout")
    loaded = load(run)
    head = loaded.model_for("qa").head("qa")
    assert head.threshold == saved
    rows = Rows("f", [r["id"] for r in records], [tuple(r["texts"]) for r in records], None)

    def f1():
        spans = loaded.score("qa", rows).predictions
        guesses = [
            texts[1][start:end] for texts, (start, end) in zip(rows.texts, spans, strict=True)
        ]
        return mean_f1([r | {"prediction": g} for r, g in zip(records, guesses, strict=True)])

    best = f1()
    assert best == pytest.approx(mean_f1(records))
    others = []
    for threshold in (*range(-12, 13), -1e6, 1e6):
        head.threshold.fill_(threshold)
        others.append(f1())
    assert max(others) <= best + 1e-9 and min(others) < best


def test_the_run_is_evaluated_predicted_with_and_exported(run, config, tmp_path, capsys):
    assert run_multitask.main(["evaluate", str(run)]) == 0
    evaluated = json.loads((run / "evaluation-dev.json").read_text())["qa"]
    assert evaluated["metrics"] == report_of(run)["tasks"]["qa"]["dev"]
    before = predictions(run, "dev")
    (run / "predictions" / "qa.dev.jsonl").unlink()
    assert run_multitask.main(["predict", str(run)]) == 0
    assert predictions(run, "dev") == before

    file, output = config.parent / "dev.json", tmp_path / "out.jsonl"
    assert (
        run_multitask.main(["predict", str(run), "--file", str(file), "--output", str(output)]) == 0
    )
    given = [json.loads(line) for line in output.open()]
    keys = ("id", "prediction", "start", "end")
    assert [[one[k] for k in keys] for one in given] == [[one[k] for k in keys] for one in before]
    assert any(one["prediction"] == "" for one in given)

    target = tmp_path / "encoder"
    command = ["export", str(run), str(target), "--format", "transformers", "--encoder-only"]
    assert run_multitask.main(command) == 0 and (target / "model.safetensors").is_file()


def test_without_a_holdout_the_threshold_is_0(config, tmp_path):
    run = train(config, tmp_path / "run", *SHORT, "training.holdout=0")
    assert weights_of(run)[THRESHOLD] == 0


def test_a_run_that_starts_from_another_does_not_take_its_threshold(config, tmp_path):
    first = train(config, tmp_path / "first", *SHORT)
    start = f"init_from={{run: {first}, take: head}}"
    run = train(config, tmp_path / "run", "training.max_steps=1", start)
    assert weights_of(first)[THRESHOLD] != 0 == weights_of(run)[THRESHOLD]


def test_other_dev_labels_do_not_change_the_threshold(config, tmp_path):
    draw = random.Random(1)
    shuffled = json.loads((config.parent / "dev.json").read_text())
    for article in shuffled["data"]:
        for paragraph in article["paragraphs"]:
            word = draw.choice(paragraph["context"].split())
            answer = {"text": word, "answer_start": paragraph["context"].index(word)}
            paragraph["qas"][0]["answers"] = draw.choice([[], [answer]])
    (tmp_path / "dev.json").write_text(json.dumps(shuffled))
    runs = train(config, tmp_path / "one", *SHORT), tmp_path / "other"
    train(config, runs[1], *SHORT, f"tasks.qa.data.dev={tmp_path / 'dev.json'}")
    one, other = map(weights_of, runs)
    assert one.keys() == other.keys() and one[THRESHOLD] != 0
    assert all(torch.equal(one[name], other[name]) for name in one)
    scores = [report_of(run)["tasks"]["qa"]["dev"]["f1"] for run in runs]
    assert scores[0] != scores[1]


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("windows", [[], WINDOWS], ids=["cut", "windows"])
def test_a_killed_run_resumes_to_the_same_bits(config, tmp_path, monkeypatch, windows):
    step, calls = trainer.train_step, []

    def dies_in_the_fifth(*arguments, **named):
        calls.append(1)
        if len(calls) == 5:
            raise Killed
        return step(*arguments, **named)

    more = [*SHORT, *windows, "training.checkpoint_steps=1"]
    unbroken, cut = train(config, tmp_path / "unbroken", *more), tmp_path / "cut"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(trainer, "train_step", dies_in_the_fifth)
        train(config, cut, *more)
    train(config, cut, *more, "--resume")
    assert events(cut) == events(unbroken) and results(cut) == results(unbroken)
    one, other = map(weights_of, (unbroken, cut))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert predictions(cut, "dev") == predictions(unbroken, "dev")
