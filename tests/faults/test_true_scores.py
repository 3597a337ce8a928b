"""Whole commands: the numbers of a report and of `check` are those of the files and the rows."""

import json
import math

import pytest
from scipy.stats import pearsonr, spearmanr

from multitask import load
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.run_files import report_of
from tests.support.token_run import write_lines


@pytest.fixture(scope="module")
def run(tiny_encoder, course_files, tmp_path_factory):
    """A run of STS whose numbers leave the scale."""
    directory = tmp_path_factory.mktemp("outside") / "run"
    changes = ["tasks.sst=null", "tasks.qqp=null", "tasks.sts.max_length=48", "training.epochs=4"]
    changes += ["tasks.sts.head=cosine_with_embeddings", "training.head_lr=0.02"]
    names = [f"data_dir={course_files}", f"encoder.name={tiny_encoder}", f"output_dir={directory}"]
    assert main(ROOT / "configs" / "cs224n.yaml", *names, *changes, "training.precision=fp32") == 0
    return directory


def records(run):
    lines = (run / "predictions" / "sts.dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_score_is_that_of_what_is_handed_in(run):
    made = records(run)
    gold, predicted = ([one[key] for one in made] for key in ("label", "prediction"))
    assert {0, 5} & set(predicted) and len(set(predicted)) > 2, "nothing is clipped"
    expected = {
        "pearson": pearsonr(gold, predicted)[0],
        "spearman": spearmanr(gold, predicted)[0],
        "mse": math.fsum((a - b) ** 2 for a, b in zip(gold, predicted, strict=True)) / len(gold),
    }
    entry = report_of(run)["tasks"]["sts"]
    assert {key: entry["dev"][key] for key in expected} == pytest.approx(expected, abs=1e-9)
    assert entry["dev"]["loss"] > entry["dev"]["mse"] + 1e-3  # the loss is of the head's numbers
    lines = (run / "predictions" / "sts-dev-output.csv").read_text().splitlines()[1:]
    handed = [float(line.split(" , ")[1]) for line in lines]
    assert pearsonr(gold, handed)[0] == pytest.approx(entry["dev"]["pearson"], abs=1e-6)
    # it also selected the weights
    events = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    scores = [one["tasks"]["sts"]["pearson"] or 0 for one in events if one["event"] == "eval"]
    assert max(scores) == pytest.approx(entry["dev"]["pearson"], abs=1e-9)


def test_every_door_gives_the_same_numbers(run, capsys):
    made = records(run)
    predictions = [one["prediction"] for one in made]
    for one, record in zip(load(run).predict("sts", [r["texts"] for r in made]), made, strict=True):
        assert (
            one["prediction"] == one["scores"][0] == pytest.approx(record["prediction"], abs=1e-5)
        )
        assert record["scores"] == [pytest.approx(record["prediction"], abs=1e-6)]
    assert min(predictions) >= 0 and max(predictions) <= 5
    assert main("evaluate", run) == 0
    reported = report_of(run)["tasks"]["sts"]["dev"]["pearson"]
    again = json.loads((run / "evaluation-dev.json").read_text())["sts"]["metrics"]["pearson"]
    assert again == pytest.approx(reported, abs=1e-6)


IOB1 = [["O", "I-PER"], ["I-LOC", "B-LOC", "O"], ["I-PER", "I-PER"]] * 3
TAGGED = """
data_dir: {place}
encoder: {{name: {encoder}}}
training: {{epochs: 1, frozen_baseline: false}}
tasks:
  ner:
    data: {{train: train.jsonl, dev: dev.jsonl, text: words, label: tags}}
    max_length: 4
    pooling: tokens
    head: token_classification
"""


def test_tags_of_another_scheme_are_refused_and_train_under_their_own(
    tiny_encoder, tmp_path, capsys
):
    rows = [{"words": ["a"] * len(tags), "tags": tags} for tags in IOB1]
    for split in ("train", "dev"):
        write_lines(tmp_path / f"{split}.jsonl", rows)
    (tmp_path / "c.yaml").write_text(TAGGED.format(place=tmp_path, encoder=tiny_encoder))
    output = f"output_dir={tmp_path / 'run'}"
    assert "set `tag_scheme: IOB1`" in complaint(capsys, tmp_path / "c.yaml", output)
    assert not (tmp_path / "run").exists()
    scheme = "tasks.ner.data.tag_scheme=IOB1"
    assert main(tmp_path / "c.yaml", output, scheme) == 0
    lines = (tmp_path / "run" / "predictions" / "ner.dev.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["measured"]["entities"] for line in lines) == 12
    # a run that was trained with the wrong scheme is not scored with it either
    wrong = complaint(capsys, "evaluate", tmp_path / "run", "tasks.ner.data.tag_scheme=IOB2")
    assert "set `tag_scheme: IOB1`" in wrong
    # the labelled test split must fit too
    write_lines(tmp_path / "test.jsonl", [{"words": ["a", "a"], "tags": ["O", "B-LOC"]}])
    labelled = "tasks.ner.data.test=test.jsonl"
    wrong = complaint(capsys, "evaluate", tmp_path / "run", labelled, "--split", "test")
    assert "test.jsonl: IOB1 cannot produce the tags of 1 of 1 rows" in wrong


def test_check_counts_dev_rows_that_any_task_trains_on(
    course_files, tiny_overrides, tmp_path, capsys
):
    """The dev rows of SST are the train rows of a second task, in upper case."""
    lines = (course_files / "ids-sst-dev.csv").read_text().splitlines()
    shouted = [lines[0], *(line.upper() for line in lines[1:])]
    name = tmp_path / "shouted.csv"
    name.write_text("\n".join(shouted) + "\n")
    more = {
        "max_length": 48,
        "head": "classification",
        "data": {"train": str(name), "dev": "ids-sst-train.csv"},
    }
    more["data"] |= {"label": "sentiment", "labels": list("01234")}
    tasks = f"tasks.loud={json.dumps(more)}"
    assert main("check", "configs/cs224n.yaml", *tiny_overrides, tasks) == 0
    out = capsys.readouterr().out
    assert "warning: sst: 12 of 12 dev rows are in train of other tasks: loud\n" in out
    assert "in train  other train" in out
