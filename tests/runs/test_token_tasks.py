"""Runs with tagged words and answers beside a sentence task: scores, reports, commands, resume."""

import json
import random
import re
import shutil

import numpy as np
import pytest

import run_multitask
from multitask import load
from multitask.reporting.run_report import mistakes
from multitask.tasks.question_answering import outcome
from multitask.tasks.token_classification import entities
from multitask.training.report_json import dev_results
from multitask.utils.errors import UserError
from tests.support.messages import complaint
from tests.support.run_files import events, report_of, task_entry
from tests.support.token_run import sentence, tagged, token_config, write_lines, write_token_files

SENTENCES = """
  mood:
    data: {train: ids-sst-train.csv, dev: ids-sst-dev.csv, format: tsv, label: sentiment}
    max_length: 48
    pooling: mean
    head: classification
"""
FAST = ["training.frozen_baseline=false"]


@pytest.fixture(scope="module")
def files(tmp_path_factory, course_files):
    """The made data, and a sentence task's files beside it."""
    directory = write_token_files(tmp_path_factory.mktemp("tokens"), train=320)
    for split in ("train", "dev"):
        name = f"ids-sst-{split}.csv"
        (directory / name).write_bytes((course_files / name).read_bytes())
    return directory


@pytest.fixture(scope="module")
def config(files, tiny_encoder, tmp_path_factory):
    file = token_config(tmp_path_factory.mktemp("config"), tiny_encoder, files)
    file.write_text(file.read_text() + SENTENCES)
    return file


@pytest.fixture(scope="module")
def run_dir(config, tmp_path_factory):
    """A round-robin run of all three tasks that has learned the two; read only."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    more = ["training.epochs=8", "training.holdout=0.1", f"output_dir={directory}"]
    assert run_multitask.main([str(config), *more]) == 0
    return directory


def predictions(run, name):
    return [json.loads(line) for line in (run / "predictions" / f"{name}.jsonl").open()]


def main(capsys, *arguments):
    capsys.readouterr()
    assert run_multitask.main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_both_kinds_learn_beside_a_sentence_task(run_dir):
    tasks = report_of(run_dir)["tasks"]
    ner, qa, mood = (tasks[name] for name in ("ner", "qa", "mood"))
    assert (ner["label_type"], ner["metric"]) == ("tags", "f1")
    assert (qa["label_type"], qa["metric"]) == ("span", "f1")
    assert ner["dev"]["f1"] > 0.95 > 0.3 > ner["baselines"]["trivial"]["f1"]
    assert ner["baselines"]["trivial"]["accuracy"] > 0.4
    assert qa["dev"]["f1"] > qa["baselines"]["trivial"]["f1"] + 0.2
    assert qa["dev"]["exact_match"] > 0.4 > qa["baselines"]["trivial"]["exact_match"]
    assert ner["baselines"]["frozen"] is qa["baselines"]["frozen"] is None
    assert mood["baselines"]["frozen"] is not None
    assert all(task["turns"]["trained"] > 20 for task in tasks.values())
    mean = np.mean([ner["dev"]["f1"], qa["dev"]["f1"], mood["dev"]["accuracy"]])
    assert report_of(run_dir)["overall"]["mean"] == pytest.approx(mean)
    losses = [e["loss"] for e in events(run_dir) if e["event"] == "step" and e["task"] == "ner"]
    assert np.mean(losses[-5:]) < 0.1 * losses[0]


def test_prediction_files_give_the_reported_scores(run_dir, files):
    tasks = report_of(run_dir)["tasks"]
    rows = predictions(run_dir, "ner.dev")
    raw = [json.loads(line) for line in (files / "ner-dev.jsonl").open()]
    assert [(r["words"], r["label"]) for r in rows] == [(r["tokens"], r["ner_tags"]) for r in raw]
    gold = {(i, *e) for i, row in enumerate(rows) for e in entities(row["label"], "IOB2")}
    result = {(i, *e) for i, row in enumerate(rows) for e in entities(row["prediction"], "IOB2")}
    f1 = 2 * len(gold & result) / (len(gold) + len(result))
    assert tasks["ner"]["dev"]["f1"] == pytest.approx(f1)
    words = sum(len(row["words"]) for row in rows)
    assert words == np.sum(tasks["ner"]["dev"]["confusion"])
    assert all(len(row["scores"]) == len(row["words"]) for row in rows)

    rows = predictions(run_dir, "qa.dev")
    scores = [outcome(row["prediction"], row["label"]) for row in rows]
    for row in rows:
        assert row["texts"][1][row["start"] : row["end"]] == row["prediction"]
    assert np.mean(scores, axis=0).tolist() == pytest.approx(
        [tasks["qa"]["dev"]["f1"], tasks["qa"]["dev"]["exact_match"]]
    )
    for name in ("ner", "qa"):
        unknown = predictions(run_dir, f"{name}.test")
        assert len(unknown) == 6 and unknown[0]["label"] is unknown[0]["measured"] is None


def test_reports_and_the_model_card_show_both(run_dir):
    for page in ("report.md", "report.html"):
        text = (run_dir / page).read_text()
        assert "exact_match" in text.replace("\\_", "_") and "recall" in text
    card = (run_dir / "README.md").read_text()
    assert "type: token-classification" in card and "type: question-answering" in card
    figures = {file.stem for file in (run_dir / "figures").iterdir()}
    assert "confusion_ner" in figures and "confusion_qa" not in figures


def test_mistakes_name_the_wrong_words_and_the_answers(run_dir):
    rows = [
        {
            "id": "1",
            "texts": ["the cat"],
            "words": ["the", "cat"],
            "label": ["O", "B-A"],
            "prediction": ["O", "O"],
            "scores": [0.9, 0.6],
        }
    ]
    table = mistakes(task_entry("tags", ["O", "B-A"]), rows)
    assert table.rows == [("1", "the cat", "cat: B-A", "cat: O", "0.600")]
    row = {"id": "1", "texts": ["q", "c"], "label": ["a b", "a"], "prediction": "b"}
    wrong = {**row, "scores": [0.5], "measured": {"f1": 0.67, "exact_match": 0.0}}
    right = {**row, "scores": [0.5], "measured": {"f1": 1.0, "exact_match": 1.0}}
    table = mistakes(task_entry("span"), [wrong, right])
    assert table.rows == [("1", "q", "c", "a b | a", "b", "0.500")]


def test_texts_of_the_user(run_dir, tmp_path, capsys):
    run = load(run_dir)
    row = tagged(1, 99)[0]
    listed, joined = run.predict("ner", [row["tokens"], " ".join(row["tokens"])])
    assert listed == joined and listed["prediction"] == row["ner_tags"]
    assert listed["words"] == row["tokens"]
    context = "eats man . today dog sees house"
    (result,) = run.predict("qa", [("who is there ?", context)])
    assert context[result["start"] : result["end"]] == result["prediction"] != ""
    with pytest.raises(UserError, match="item 0 is 'who'"):
        run.predict("qa", ["who"])
    with pytest.raises(UserError, match="row 1: words is an empty list"):
        run.predict("ner", [[]])
    assert run.encode(["a cat"]).shape == (1, 32)  # of the sentence task
    with pytest.raises(UserError, match="task ner looks at tokens and has no vector of a text"):
        run.encode(["a cat"], task="ner")

    texts = tmp_path / "own.txt"
    texts.write_text(" ".join(row["tokens"]) + "\n")
    (line,) = main(capsys, "predict", run_dir, "--task", "ner", "--file", texts).splitlines()
    assert json.loads(line) == {"id": "0", "texts": [" ".join(row["tokens"])], **listed}
    texts.write_text(f"who is there ?\t{context}\n")
    (line,) = main(capsys, "predict", run_dir, "--task", "qa", "--file", texts).splitlines()
    assert json.loads(line) == {"id": "0", "texts": ["who is there ?", context], **result}


def test_words_behind_max_length_are_counted_and_predicted_as_outside(run_dir, files, tmp_path):
    words, tags = sentence(random.Random(5))
    long = {"tokens": words * 8, "ner_tags": tags * 8}
    write_lines(tmp_path / "long.jsonl", [long])
    run = load(run_dir, [f"tasks.ner.data.dev={tmp_path / 'long.jsonl'}"])
    split = run.load_split("ner", "dev")
    seen = 46  # of 48 tokens two are special
    assert split.cut == len(words) * 8 - seen and split.tokens.truncated_share == 1
    scores = run.score_split("ner", split)
    result = dev_results(scores, split.rows, run.readers["ner"])[0]
    (one,) = run.predict("ner", [long["tokens"]])
    assert one["prediction"][seen:] == ["O"] * split.cut
    assert one["scores"][seen:] == [None] * split.cut and None not in one["scores"][:seen]
    gold = entities(long["ner_tags"], "IOB2")
    assert result["recall"] == pytest.approx(
        len(gold & entities(one["prediction"], "IOB2")) / len(gold)
    )
    assert result["recall"] < 0.9 and np.sum(result["confusion"]) == len(words) * 8


@pytest.mark.slow
def test_joint_steps_with_unit_losses_and_gradient_conflict(config, tmp_path):
    directory = tmp_path / "run"
    changes = [
        "training.combine=joint",
        "training.loss_normalization=unit",
        "training.loss_weighting=uncertainty",
        "training.gradient_surgery=pcgrad",
        "training.conflict_steps=2",
        "training.max_steps=4",
        "tasks.ner.accumulation=2",
        "tasks.qa.accumulation=2",
        "tasks.mood.accumulation=2",
    ]
    assert run_multitask.main([str(config), *FAST, *changes, f"output_dir={directory}"]) == 0
    steps = events(directory, "step")
    assert {event["task"] for event in steps} == {"ner", "qa", "mood"}
    conflict = events(directory, "conflict")
    assert conflict and "ner-qa" in json.dumps(conflict)
    first = {e["task"]: e["loss"] for e in steps if e["step"] == 1}
    assert 1.0 < first["ner"] < 3.0 and 1.5 < first["qa"] < 4.0  # log 7 and log 15: as yet a guess


@pytest.mark.slow
def test_a_comparison_resamples_the_rows_of_both_kinds(run_dir, config, tmp_path, capsys):
    other = tmp_path / "other"
    more = [*FAST, "training.max_steps=6", f"output_dir={other}"]
    assert run_multitask.main([str(config), *more]) == 0
    out = tmp_path / "comparison"
    main(capsys, "report", other, run_dir, "--output", out)
    comparison = json.loads((out / "comparison.json").read_text())
    weak, strong = (row["cells"] for row in comparison["rows"])
    for task in ("ner", "qa"):
        entry = report_of(run_dir)["tasks"][task]
        assert strong[task]["mean"] == pytest.approx(entry["dev"]["f1"])
        difference = strong[task]["difference"]
        assert difference["value"] == pytest.approx(strong[task]["mean"] - weak[task]["mean"])
        assert 0 < difference["low"] < difference["value"] < difference["high"]
        low, high = entry["dev_intervals"]["f1"]
        assert strong[task]["low"] == pytest.approx(low, abs=0.05)
        assert strong[task]["high"] == pytest.approx(high, abs=0.05)

    damaged = shutil.copytree(run_dir, tmp_path / "damaged")
    (damaged / "checksums").unlink()  # they would tell of the change first
    file = damaged / "predictions" / "ner.dev.jsonl"
    rows = [json.loads(line) for line in file.open()]
    rows[2]["label"][0] = "B-PER"
    write_lines(file, rows)
    line = complaint(capsys, "report", other, damaged, "--output", tmp_path / "no")
    assert "ner: " in line and "dev row 3 has another label" in line
    rows[2]["measured"] = None
    write_lines(file, rows)
    line = complaint(capsys, "report", other, damaged, "--output", tmp_path / "no")
    assert "damaged or incomplete" in line


def test_what_has_no_average_is_left_out_of_an_ensemble(run_dir, tmp_path, capsys):
    copy = shutil.copytree(run_dir, tmp_path / "copy")
    out = main(capsys, "predict", run_dir, copy)
    assert "Left out" in out and ": ner, qa." in out
    texts = tmp_path / "own.txt"
    texts.write_text("the cat\n")
    line = complaint(capsys, "predict", run_dir, copy, "--task", "ner", "--file", texts)
    assert line == "task ner: predictions of words or of answers are not averaged: give one run"


@pytest.mark.parametrize("task", ["ner", "qa"])
def test_exports_of_such_tasks_are_refused_but_for_the_encoder(task, run_dir, tmp_path, capsys):
    for form, message in (
        (
            "onnx",
            f"tasks.{task}.head: .* predicts (a tag for each word|where an answer is): export",
        ),
        ("transformers", f"tasks.{task}.head: .*: no sequence classifier"),
        ("sentence-transformers", f"tasks.{task}.pooling: tokens: "),
    ):
        command = ["export", run_dir, tmp_path / form, "--format", form, "--task", task]
        assert re.search(message, complaint(capsys, *command))
    command = ["export", run_dir, tmp_path / "encoder", "--format", "transformers"]
    main(capsys, *command, "--task", task, "--encoder-only")
