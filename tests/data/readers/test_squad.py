"""The nested file of SQuAD has the rows of JSON lines; messages say where a key is missing."""

import copy
import json

import pytest

from multitask.config import DataConfig, load_config
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.data.readers.columns import read_table
from tests.conftest import ROOT
from tests.support.data_files import refusal
from tests.support.token_run import asked, nested, token_config, without_answers, write_lines

DATA = DataConfig(text="question", text2="context", label="answers")
ROWS = without_answers(asked(7, 1))
XQUAD = ROOT.parent / "shared" / "data" / "xquad"


@pytest.fixture
def read(tmp_path, tiny_encoder):
    """The rows of a split from a file in the directory, or another one."""

    def made(name, split="train", **head):
        file = token_config(tmp_path, tiny_encoder, tmp_path, tasks=("qa",))
        changes = [
            f"tasks.qa.data.{split}={name}",
            *(f"tasks.qa.head.{k}={v}" for k, v in head.items()),
        ]
        config = load_config(file, changes)
        return load_rows(config, "qa", split, label_reader(config, "qa", task_type("span")))

    return made


@pytest.mark.parametrize("name", ["nested.json", "nested.jsonl"])
@pytest.mark.parametrize("indent", [None, 2])
def test_its_rows_are_those_of_json_lines(tmp_path, read, name, indent):
    (tmp_path / name).write_text("\n" + json.dumps(nested(ROWS), indent=indent))
    write_lines(tmp_path / "lines.jsonl", ROWS)
    result, wanted = (read(file, no_answer="true") for file in (name, "lines.jsonl"))
    assert (result.ids, result.texts) == (wanted.ids, wanted.texts)
    assert result.answers == wanted.answers and not all(wanted.answers)
    assert result.gold.tolist() == wanted.gold.tolist()


def test_a_hidden_test_set_has_no_labels(tmp_path, read):
    hidden = [{key: value for key, value in row.items() if key != "answers"} for row in ROWS]
    for rows in (hidden, without_answers(ROWS, every=1)):
        (tmp_path / "x.json").write_text(json.dumps(nested(rows)))
        assert read("x.json", "test", no_answer="true").labels is None
    (tmp_path / "x.json").write_text(json.dumps(nested(ROWS)))
    assert len(read("x.json", "test", no_answer="true").gold) == len(ROWS)


def test_a_row_with_such_a_key_is_a_row(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"data": "a text", "label": 1}\n')
    assert read_table(tmp_path / "x.jsonl", DATA) == {"data": ["a text"], "label": ["1"]}


def without(*path):
    """The file without the value at a path."""
    value = copy.deepcopy(nested(ROWS))
    *parents, last = path
    place = value
    for key in parents:
        place = place[key]
    del place[last]
    return value


QUESTION = ("data", 1, "paragraphs", 2, "qas", 0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (without("data", 1, "paragraphs"), "x.json, article 2: no key 'paragraphs'"),
        (without(*QUESTION[:4], "context"), "x.json, article 2, paragraph 3: no key 'context'"),
        (without(*QUESTION[:4], "qas"), "x.json, article 2, paragraph 3: no key 'qas'"),
        *(
            (without(*QUESTION, key), f"x.json, article 2, paragraph 3, question 1: no key '{key}'")
            for key in ("question", "id", "answers")
        ),
        ({"data": [{"paragraphs": "text"}]}, "x.json, article 1: 'paragraphs' is 'text': expected"),
        ({"data": [{"paragraphs": [1]}]}, "x.json, article 1, paragraph 1: expected an object"),
        ({"data": []}, "x.json: no questions"),
    ],
)
def test_what_is_missing_is_told_by_its_place(tmp_path, value, message):
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert message in refusal(read_table, tmp_path / "x.json", DATA)


def test_a_broken_file_is_told_by_its_line(tmp_path):
    lines = json.dumps(nested(ROWS), indent=1).split("\n")
    (tmp_path / "x.json").write_text("\n".join([*lines[:9], "}", *lines[9:]]))
    assert "x.json, line 10: not JSON" in refusal(read_table, tmp_path / "x.json", DATA)


def test_an_answer_elsewhere_and_a_missing_one_are_told_by_row_and_id(tmp_path, read):
    wrong = copy.deepcopy(asked(7, 1))
    wrong[4]["answers"]["answer_start"][0] += 1
    (tmp_path / "x.json").write_text(json.dumps(nested(wrong)))
    assert "x.json, row 5 (id q4): answers has" in refusal(read, "x.json", no_answer="true")
    (tmp_path / "x.json").write_text(json.dumps(nested([*asked(7, 1)[:2], *ROWS[:1]])))
    line = refusal(read, "x.json")
    assert "x.json, row 3 (id q0): answers has no answer" in line and "no_answer: true" in line


@pytest.mark.parametrize(("split", "count"), [("train", 826), ("dev", 187)])
def test_the_published_file_is_read(read, split, count):
    if not XQUAD.is_dir():
        pytest.skip(f"XQuAD is not at hand ({XQUAD})")
    rows = read(XQUAD / f"{split}.json", split)
    assert len(rows) == len(set(rows.ids)) == count
    for (_, context), (start, end), answers in zip(
        rows.texts, rows.gold, rows.answers, strict=True
    ):
        assert context[start:end] == answers[0]
