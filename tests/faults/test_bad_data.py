"""Bad data at the command line: exit code 2 and one line that names file, row and column."""

import json
import re
import shutil

import pytest

from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from tests.conftest import write_tsv
from tests.support.data_files import make, refusal

HEADER = ["id", "sentence", "sentiment"]


GOOD = [[f"r{i}", f"text {i}", i % 5] for i in range(6)]


@pytest.mark.parametrize(
    ("name", "header", "rows", "message"),
    [
        (
            "ids-sst-train.csv",
            HEADER,
            [*GOOD, ["x6", "text", "good"]],
            "row 7 (id x6): sentiment is 'good': expected one of 0, 1, 2, 3, 4",
        ),
        (
            "sts-train.csv",
            ["id", "sentence1", "sentence2", "similarity"],
            [["x0", "a", "b", "5.5"]],
            "row 1 (id x0): similarity is '5.5': expected a number from 0 to 5",
        ),
        ("ids-sst-train.csv", HEADER, [], "no rows"),
        ("ids-sst-dev.csv", HEADER, [["x", "text", ""]], "no labelled rows (1 without a label)"),
        (
            "ids-sst-train.csv",
            ["id", "sentense", "sentiment"],
            GOOD,
            "no column 'sentence' (did you mean 'sentense'?)",
        ),
        (
            "quora-dev.csv",
            ["id", "sentence1", "sentence2"],
            [["x", "a", "b"]],
            "no column 'is_duplicate' (known: id, sentence1, sentence2); `data.label` names it",
        ),
    ],
)
def test_data_file(name, header, rows, message, refused, course_files, tmp_path):
    data = shutil.copytree(course_files, tmp_path / "data")
    write_tsv(data / name, header, rows)
    line = refused(f"data_dir={data}")
    assert message in line
    assert str(data / name) in line


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data_dir=nowhere"], "command line: data_dir=nowhere: data_dir: no such directory: "),
        (["tasks.sst.data.dev=dev.csv"], "tasks.sst.data.dev: no such file: "),
        (
            ["tasks.sst.data.dev=null"],
            "command line: tasks.sst.data.dev=null: tasks.sst.data.dev: the task has no dev data",
        ),
        (["tasks.sst.data.train=null"], "the task has no train data: name it as `train:`"),
        (["tasks.sst.data.text=text"], "no column 'text' (known: id, sentence, sentiment)"),
        (["training.holdout=0.001"], "holdout 0.001 leaves task sst an empty split"),
    ],
)
def test_configured_data(overrides, message, refused):
    assert message in refused(*overrides)


def test_a_file_that_is_there_is_named_when_it_is_not_found(refused, course_files):
    line = refused("tasks.qqp.data.test=quora-tset.csv")
    assert str(course_files / "quora-tset.csv") in line
    assert "is `data_dir` right?" in line


@pytest.mark.parametrize("cell", ["-1", "-1.0", "?"])
@pytest.mark.parametrize(
    ("kind", "head", "options"),
    [
        ("binary", "binary", {}),
        ("class", "classification", {"labels": ["a", "b"]}),
        ("number", "regression", {"label_range": [0, 5]}),
        ("labels", "multi_label", {"labels": ["a", "b"]}),
    ],
)
def test_the_remedy_for_hidden_test_labels_works(cell, kind, head, options, tmp_path):
    (tmp_path / "test.csv").write_text(f"id,sentence,label\n1,a film,{cell}\n2,a dog,{cell}\n")
    data = {"test": "test.csv", **options}

    def rows(**more):
        config = make(tmp_path, {**data, **more}, head)
        return load_rows(config, "t", "test", label_reader(config, "t", task_type(kind)))

    remedy = re.search(r"`data\.unlabelled: (\[.*\])`$", refusal(rows))
    assert remedy
    labelled = rows(unlabelled=json.loads(remedy[1]))
    assert labelled.labels is None and len(labelled) == 2


def test_hidden_labels_in_a_list_get_their_own_remedy(tmp_path):
    (tmp_path / "test.jsonl").write_text('{"id": 1, "sentence": "a film", "label": [-1, -1]}\n')
    config = make(tmp_path, {"test": "test.jsonl", "labels": ["a", "b"]}, "multi_label")
    reader = label_reader(config, "t", task_type("labels"))
    message = refusal(load_rows, config, "t", "test", reader)
    assert message.endswith("; if it means 'no labels', write null instead")
