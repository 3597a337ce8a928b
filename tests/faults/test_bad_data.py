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


@pytest.mark.parametrize(
    ("name", "header", "row", "line"),
    [
        ("ids-sst-train.csv", "id sentence sentiment", "x6 text good", "row 1 (id x6): "),
        ("sts-train.csv", "id sentence1 sentence2 similarity", "x0 a b 5.5", "row 1 (id x0): "),
        ("quora-dev.csv", "id sentence1 sentence2", "x a b", "no column 'is_duplicate'"),
    ],
)
def test_data_file(name, header, row, line, refused, course_files, tmp_path):
    """Whatever a reader refuses; tests/data has the other mistakes."""
    data = shutil.copytree(course_files, tmp_path / "data")
    write_tsv(data / name, header.split(), [row.split()])
    said = refused(f"data_dir={data}")
    assert str(data / name) in said and line in said


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data_dir=nowhere", "data_dir: "),
        ("tasks.sst.data.dev=dev.csv", "tasks.sst.data.dev: "),
        ("tasks.sst.data.dev=null", "tasks.sst.data.dev: "),
        ("training.holdout=0.001", "holdout 0.001"),
    ],
)
def test_configured_data(override, key, refused):
    assert key in refused(override)


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
