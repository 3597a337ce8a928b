"""Several classes at once: how labels are read, and a run that learns them, to its exports."""

import json
import shutil

import numpy as np
import pytest

import run_multitask
from multitask import load, score
from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.inference.serve.responses import about, answer, open_run
from multitask.store.run_directory import load_lines
from multitask.training.report_json import dev_results
from multitask.utils.errors import UserError
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.multi_label_run import labelled
from tests.support.run_files import report_of
from tests.support.token_run import write_lines

CLASSES = ["animal", "place", "size"]
YAML = """
data_dir: {data}
output_dir: {output}
encoder: {{name: {encoder}}}
training: {{epochs: 10, lr: 3e-3, head_lr: 1e-2, precision: fp32, frozen_baseline: true}}
tasks:
  about:
    data: {{train: train.jsonl, dev: dev.jsonl, text: text, label: classes}}
    max_length: 32
    pooling: cls
    projection: tanh
    head: multi_label
"""


@pytest.fixture(scope="module")
def config(tiny_encoder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("labels")
    write_lines(
        directory / "train.jsonl", [*labelled(320, 1), {"text": "never asked", "classes": None}]
    )
    write_lines(directory / "dev.jsonl", labelled(80, 2))
    file = directory / "labels.yaml"
    run = directory / "run"
    file.write_text(YAML.format(data=directory, output=run, encoder=tiny_encoder))
    return file


@pytest.fixture(scope="module")
def run_dir(config):
    """A run that has learned the classes; read only."""
    assert run_multitask.main([str(config)]) == 0
    return config.parent / "run"


def read(config, *changes):
    changed = load_config(config, list(changes))
    return load_rows(changed, "about", "dev", label_reader(changed, "about", task_type("labels")))


@pytest.mark.parametrize("form", ["list", "text"])
def test_lists_and_separated_texts_name_the_classes(config, form):
    cells = [["size", "animal"], [], ["place"]]
    if form == "text":
        cells = [" | ".join(cell) for cell in cells]
    rows = [{"text": f"text {i}", "classes": cell} for i, cell in enumerate(cells)]
    write_lines(config.parent / "cells.jsonl", rows)
    more = ["tasks.about.data.label_separator='|'", "tasks.about.data.unlabelled=[]"]
    result = read(config, "tasks.about.data.dev=cells.jsonl", *more)
    # classes found in train, sorted: animal, place, size
    np.testing.assert_array_equal(result.gold, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])


def test_a_row_without_label_is_dropped_and_one_of_no_class_is_not(config):
    rows = [{"text": "a", "classes": None}, {"text": "b", "classes": ""},
            {"text": "c", "classes": []}]  # fmt: skip
    write_lines(config.parent / "none.jsonl", rows)
    result = read(config, "tasks.about.data.dev=none.jsonl")
    assert result.texts == [("c",)] and result.unlabelled_dropped == 2 and not result.gold.any()


def test_an_unknown_class_is_named_with_its_row(config):
    write_lines(config.parent / "bad.jsonl", [{"text": "a", "classes": ["animal", "colour"]}])
    with pytest.raises(
        UserError, match=r"bad.jsonl, line 1, row 1 .*names 'colour': expected one of"
    ):
        read(config, "tasks.about.data.dev=bad.jsonl")


def test_smart_has_its_terms_for_several_classes(config, tmp_path):
    smart = "tasks.about.smart={eps: 1e-2, noise: 1e-2, step_size: 1.0, bregman: 1.0}"
    more = ["training.epochs=1", "training.frozen_baseline=false", f"output_dir={tmp_path / 'run'}"]
    assert run_multitask.main([str(config), smart, *more]) == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [line for line in map(json.loads, lines) if line["event"] == "step"]
    for line in steps:
        assert min(line["adversarial"], line["bregman"]) > 0
        assert line["penalty"] == pytest.approx(line["adversarial"] + line["bregman"])


def test_the_run_learns_and_reports(run_dir):
    report = report_of(run_dir)
    entry = report["tasks"]["about"]
    assert entry["label_type"] == "labels" and entry["metric"] == "f1"
    assert entry["classes"] == ["animal", "place", "size"]
    assert entry["baselines"]["trivial"]["f1"] == 0, "no class is in more than half of the rows"
    assert entry["dev"]["f1"] > 0.8 > entry["baselines"]["frozen"]["f1"]
    low, high = entry["dev_intervals"]["f1"]
    assert low <= entry["dev"]["f1"] <= high
    train = entry["data"]["train"]
    wanted = dict.fromkeys(entry["classes"], 0)
    for row in labelled(320, 1):
        for name in row["classes"]:
            wanted[name] += 1
    assert train["label_counts"] == wanted and train["unlabelled_dropped"] == 1
    assert "confusion" not in entry["dev"] and not list((run_dir / "figures").glob("confusion*"))


def test_prediction_files_have_the_numbers_of_the_classes_and_python_their_names(run_dir):
    lines = (run_dir / "predictions" / "about.dev.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    rows = labelled(80, 2)
    gold = [sorted(CLASSES.index(name) for name in row["classes"]) for row in rows]
    assert [record["label"] for record in records] == gold
    result = load(run_dir).predict("about", [row["text"] for row in rows])
    for one, record in zip(result, records, strict=True):
        assert one["prediction"] == record["prediction"]
        assert one["names"] == [CLASSES[number] for number in one["prediction"]]


def test_label_vectors_train_the_run_of_the_lists(config, tmp_path):
    """The same rows as lists of names, as vectors with names, and as vectors without."""
    for split, rows in (("train", labelled(320, 1)), ("dev", labelled(80, 2))):
        vectors = [[float(name in row["classes"]) for name in CLASSES] for row in rows]
        records = [{**row, "classes": one} for row, one in zip(rows, vectors, strict=True)]
        write_lines(config.parent / f"{split}-vectors.jsonl", records)
    files = [f"tasks.about.data.{split}={split}-vectors.jsonl" for split in ("train", "dev")]
    data = "tasks.about.data"
    vectors = [*files, f"{data}.label_vectors=true"]
    named = f"{data}.labels=[{', '.join(CLASSES)}]"
    short = ["training.epochs=1", "training.frozen_baseline=false"]
    scores = []
    for name, changes in (("a", []), ("b", [*vectors, named]), ("c", vectors)):
        run = tmp_path / name
        assert run_multitask.main([str(config), *changes, *short, f"output_dir={run}"]) == 0
        trained = load(run)
        split = trained.load_split("about", "dev")
        scored = trained.score_split("about", split)
        dev = dev_results(scored, split.rows, trained.readers["about"])[0]
        report = report_of(run)["tasks"]["about"]
        assert dev["f1"] == report["dev"]["f1"]
        assert report["classes"] == (["0", "1", "2"] if name == "c" else CLASSES)
        scores.append(scored.scores.tolist())
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.slow
def test_runs_are_compared_and_averaged(config, run_dir, tmp_path, capsys):
    other = tmp_path / "other"
    more = ["seed=2", "training.epochs=1", "training.loss_normalization=unit"]
    assert run_multitask.main([str(config), *more, f"output_dir={other}"]) == 0
    runs = [str(run_dir), str(other)]
    assert run_multitask.main(["report", *runs, "--output", str(tmp_path / "report")]) == 0
    assert "about f1" in (tmp_path / "report" / "table.md").read_text()
    assert run_multitask.main(["predict", *runs, "--output", str(tmp_path / "both")]) == 0
    record = json.loads(
        (tmp_path / "both" / "predictions" / "about.dev.jsonl").read_text().splitlines()[0]
    )
    parts = [
        json.loads((run / "predictions" / "about.dev.jsonl").read_text().splitlines()[0])
        for run in (run_dir, other)
    ]
    means = np.mean([part["scores"] for part in parts], axis=0)
    np.testing.assert_allclose(record["scores"], means, atol=1e-5)
    assert record["prediction"] == np.flatnonzero(means > 0.5).tolist()


@pytest.mark.slow
def test_transformers_takes_it_as_a_multi_label_model(run_dir, tmp_path):
    from transformers import AutoModelForSequenceClassification

    target = tmp_path / "model"
    assert (
        run_multitask.main(["export", str(run_dir), str(target), "--format", "transformers"]) == 0
    )
    model = AutoModelForSequenceClassification.from_pretrained(target)
    assert model.config.problem_type == "multi_label_classification"
    assert model.config.id2label == {0: "animal", 1: "place", 2: "size"}


def test_the_local_page_shows_every_class_with_its_probability(run_dir):
    served = open_run(run_dir, None)
    (result,) = answer(served, "about", ["the big cat sees"])
    (expected,) = load(run_dir).predict("about", ["the big cat sees"])
    assert result["prediction"] == ", ".join(expected["names"]) == "animal, size"
    _, probabilities, chosen = zip(*result["shares"], strict=True)
    assert (list(probabilities), chosen) == (expected["scores"], (True, False, True))
    assert about(served, "about") == "one text → any of 3 classes"


def test_what_has_one_label_a_row_is_refused(config, capsys):
    changed = ["tasks.about.glue_file=SST-2", "output_dir=nowhere"]
    assert "that format has no such predictions" in complaint(capsys, config, *changed)


def test_a_course_file_has_a_bit_per_class_and_gives_the_runs_scores(config, run_dir, tmp_path):
    named = "tasks.about.course_file={name: types, column: Types, format: dnlp}"
    assert main("check", config, named, "output_dir=nowhere", "--no-dry-run") == 0
    run = shutil.copytree(run_dir, tmp_path / "run")
    assert main("predict", run, named) == 0
    file = run / "predictions" / "types-dev-output.csv"
    header, *lines = file.read_text().splitlines()
    records = load_lines(run / "predictions" / "about.dev.jsonl")
    bits = [[int(number in one["prediction"]) for number in range(3)] for one in records]
    assert header == "id,Types"
    assert lines == [f"{row}\t{cells}" for row, cells in enumerate(bits)]
    entry = json.loads((run / "report.json").read_text())["tasks"]["about"]
    scored = score(config, {"about": file}, against=[run]).scores["about"]
    for metric, found in scored.items():
        assert found["value"] == entry["dev"][metric]
        assert [found["low"], found["high"]] == entry["dev_intervals"][metric]
        assert [one["value"] for one in found["differences"].values()] == [0]
